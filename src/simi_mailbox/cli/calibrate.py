"""`simi-mailbox calibrate`, `fit`, `apply` and `update`: calibrators and probabilities in files."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user

_APPLIED = ("edges", "features", "hidden", "known", "ids", "classes")
_UPDATED = ("known", "edges", "hidden", "ids", "classes")


@options.file_command("logits", parts=options.FIT_PARTS, input_type="logits", folders=True)
@options.method_options
@options.probabilities_out
@options.path_option("--save", "Save the calibrator, too.")
@options.folder_options
@options.json_option
def calibrate(logits: Path, out: Path, save: Path | None, as_json: bool, **given: Any) -> None:
    """Calibrate LOGITS (all nodes) with the labels of some, and write the probabilities.

    LOGITS may also be a folder of shards, for graphs beyond memory: see docs/scale.md.
    """
    if logits.is_dir():
        from simi_mailbox import scale

        chosen = _method_of_folders(given.pop("method"), given.pop("settings"))
        said = {"calibrator": chosen, "used_for_selection": given.pop("used_for_selection")}
        _run_folder(partial(scale.calibrate, **said), logits, out, {**given, "save": save}, as_json)
        return
    _check_for_file(logits, out)
    with console.complaints() as told:
        calibrator, problem, facts = user.fitted(logits, given, out, save)
        facts |= user.predicted(calibrator, problem, out)
        if save:
            calibrator.save(save)
    facts["calibrator"] = save
    console.finish(facts, out, as_json, told, {"calibrator": ""}, save)


@options.file_command("logits", parts=options.FIT_PARTS, input_type="logits")
@options.positive_option
@options.method_options
@options.path_option("--out", "File of the fitted calibrator.", "calibrator.safetensors")
@options.json_option
def fit(logits: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Learn a calibrator from LOGITS (all nodes) and the labels of some, and save it.

    simi-mailbox apply then calibrates these nodes, or a later snapshot, with the file.
    """
    with console.complaints() as told:
        calibrator, _, facts = user.fitted(logits, given, None, out)
        calibrator.save(out)
    # The same command on the same files works as it stands; other nodes have other files.
    files = "".join(f" --{part} {given[part]}" for part in _APPLIED if given.get(part) is not None)
    more = f"; next: simi-mailbox apply {out} {logits}{files} --out probs.csv"
    console.finish(facts, out, as_json, told, more=more)


@options.file_command("calibrator", "logits", parts=_APPLIED, input_type=None, folders=True)
@options.plugin_option
@options.probabilities_out
@options.folder_options
@options.json_option
def apply(calibrator: Path, logits: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Calibrate LOGITS with a CALIBRATOR that fit or calibrate has saved.

    The nodes and the graph need not be those it was fitted on. LOGITS may be a folder of shards.
    """
    if logits.is_dir():
        from simi_mailbox import scale

        work = partial(scale.apply, calibrator, known=given.pop("known"))
        _run_folder(work, logits, out, given, as_json)
        return
    _check_for_file(logits, out)
    with console.complaints() as told:
        fitted, problem = user.loaded(calibrator, logits, given)
        options.check_file(out)
        facts = user.predicted(fitted, problem, out)
    console.finish(facts, out, as_json, told)


@options.file_command("calibrator", "logits", parts=_UPDATED, input_type=None)
@options.path_option("--out", "File of the updated calibrator.", "updated.safetensors")
@options.json_option
def update(calibrator: Path, logits: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Add the labels of --known to a CALIBRATOR: as evidence, and to correct its level.

    LOGITS (all nodes) and --edges are those of the graph as it is now. Nothing is refitted; the
    command says when a refit is better.
    """
    import numpy as np

    with console.complaints() as told:
        fitted, problem = user.loaded(calibrator, logits, given, "only a simi-mailbox is updated")
        if problem.known is None:
            raise ValueError("late labels are missing: give --known FILE")
        options.check_file(out, ".safetensors", "a calibrator")
        rows, labels = user.known_labels(fitted, problem)["known"]
        inputs = user.inputs(fitted, problem)
        ids = inputs["node_ids"]
        fitted.update(
            rows if ids is None else ids[rows],
            labels,
            logits=problem.values,
            all_ids=ids,
            **{name: inputs[name] for name in ("graph", "hidden", "input_type")},
        )
        fitted.save(out)
    found = getattr(fitted, "correction_", {"drifted": 0.0, "scale": 0.0, "labels": 0})
    facts = {
        "late_labels": int(rows.size),
        "labels_that_test_the_level": int(found["labels"]),
        "probability_of_drift": float(found["drifted"]),
        "temperature_times": float(np.exp(-found["scale"])),
    }
    console.finish(facts, out, as_json, told, {"temperature_times": "{:.3f}"})


def _check_for_file(source: Path, out: Path) -> None:
    """Refuse the options of folders, and an ending of ``out`` that cannot be written."""
    from simi_mailbox.node_files import check_writable

    options.refuse_options(options.FOLDER_OPTIONS, f"folders of shards, and {source} is a file")
    check_writable(out)


def _method_of_folders(method: str, settings: tuple[str, ...]) -> Any:
    from simi_mailbox.calibrators import SimiMailbox

    with console.complaints():
        chosen = user.calibrator_of(method, settings)
    if not isinstance(chosen, SimiMailbox):
        raise click.UsageError(
            f"--method {method} is for files: folders are calibrated by simi-mailbox or "
            "simi-mailbox-free"
        )
    return chosen


def _run_folder(
    work: Callable[..., Any], folder: Path, out: Path, given: Mapping[str, Any], as_json: bool
) -> None:
    """Calibrate a folder, show how far it is, and say what was done."""
    taken = (*options.FOLDER_OPTIONS, "input_type")
    why = "files: a folder holds logits/, edges/, labels.*, calibration.* and perhaps train.*, "
    options.refuse_options(given.keys() - set(taken), why + "hidden/ and known.*")
    source = click.get_current_context().get_parameter_source("out")
    if source is click.core.ParameterSource.DEFAULT:
        out = Path("calibrated")
    if str(out) == "-":
        raise click.UsageError("--out - is for files: the results of a folder are a folder")
    asked = {name: given[name] for name in taken if given[name] is not None}
    with console.complaints() as told, console.progress() as progress:
        try:
            done = work(folder, out, progress=progress, **asked)
        except MemoryError:
            raise click.ClickException(
                "there is not enough memory: say less than the process may have, --memory 1.5GB; "
                "what is finished is kept"
            ) from None
    facts = {**done.facts, "calibration_is": "as named"}
    console.finish(facts, out, as_json, told, {"": "{:,.1f}"})
