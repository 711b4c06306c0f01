"""`simi-mailbox monitor`: can the probabilities of new nodes be trusted?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.outputs import check_file

if TYPE_CHECKING:
    from simi_mailbox.monitor import Stream


@click.command(epilog=options.FILES_EPILOG)
@click.argument("calibrator", type=options.ExistingFile())
@click.argument("logits", type=options.ExistingFile())
@options.file_options(
    *("edges", "features", "hidden", "known", "test", "ids", "classes"),
    test="Nodes to check: ids, or a mask. If not given: all but the calibration nodes.",
)
@options.input_option(default=None)
@click.option(
    "--stream",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file that is read if it is there, and written: alarms over many days.",
)
@click.option("--seed", default=0, show_default=True, help="Of permutations and nodes to label.")
@options.json_option
def monitor(
    calibrator: Path,
    logits: Path,
    kind: str | None,
    stream: Path | None,
    seed: int,
    as_json: bool,
    **files: Any,
) -> None:
    """Say whether to trust a CALIBRATOR on LOGITS (all nodes) whose labels are not known yet.

    Judged are the nodes of --test, or all but the calibration nodes. --features give a second
    opinion, --known labels the surest one. The verdict is ok, watch, do not trust or unknown.
    """
    from simi_mailbox.calibrators import SimiMailbox, load
    from simi_mailbox.monitor import Monitor

    with console.complaints() as told:
        fitted = load(calibrator)
        if not isinstance(fitted, SimiMailbox):
            raise ValueError(f"{calibrator} is a {fitted.name}: a monitor needs a simi-mailbox")
        kind = fitted.input_type_ if kind is None else kind
        problem = user.same_classes(fitted, user.read(logits, files, kind), calibrator)
        if missing := user.missing_parts(fitted.required_inputs, problem):
            raise ValueError(f"{calibrator} is a {fitted.name}, which needs {', '.join(missing)}")
        watch = Monitor(fitted, seed=seed)
        if stream is not None:
            check_file(stream)
            if stream.exists():
                watch.stream = _read(stream)
        given = user.inputs(fitted, problem, kind)
        given.pop("train_mask")
        given |= {"features": problem.features, **user.known_labels(fitted, problem)}
        with console.working(f"looking at {problem.nodes.count:,} nodes"):
            found = watch.check(problem.values, nodes=problem.sets.get("test"), **given)
        facts = found.to_dict()
        if stream is not None:
            state = watch.update(found).to_dict()
            stream.write_text(json.dumps(state), "utf-8")
            facts["stream"] = {name: state[name] for name in state if name != "wealth"}
    if as_json:
        console.show_json({**facts, "warnings": told})
        return
    click.echo(str(found))
    if facts["to_label"]:
        click.echo("label: " + ", ".join(map(str, facts["to_label"])))
    if stream is not None:
        click.echo(f"stream: {facts['stream']['sentence']}")


def _read(path: Path) -> Stream:
    from simi_mailbox.monitor import Stream

    try:
        return Stream.from_dict(json.loads(path.read_text("utf-8")))
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no stream that monitor has written: name another") from None
