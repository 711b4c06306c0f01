"""Are the probabilities of a folder calibrated? One look at them, in bounded memory."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simi_mailbox._arrays import Bools
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import StrPath
from simi_mailbox.metrics import StreamingMetrics
from simi_mailbox.scale.engines import Progress, quiet
from simi_mailbox.scale.inputs import Labels, as_logits, check_numbers, file_of, nodes_in
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import MANIFEST
from simi_mailbox.softmax import row_blocks, scaled_softmax
from simi_mailbox.validation import InputType, refuse_shared

TOGETHER = 1 << 23  # numbers that are looked at together


@dataclass(frozen=True)
class FolderMetrics:
    """What `evaluate` has seen; ``left_out`` counts labelled nodes that something was fitted on."""

    metrics: StreamingMetrics
    left_out: int


def evaluate(
    folder: StrPath,
    *,
    labels: StrPath | None = None,
    test: StrPath | None = None,
    calibration: StrPath | None = None,
    train: StrPath | None = None,
    input_type: InputType = "probabilities",
    bins: int = 15,
    progress: Progress | None = None,
) -> FolderMetrics:
    """Judge the shards of a folder by labels, in one look and bounded memory.

    Judged are the nodes of ``test``, or all that have a label; those of ``calibration`` and
    ``train`` are left out, because whatever was fitted on them looks better than it is.

    Parameters
    ----------
    folder : path
        What `calibrate` or `apply` have written; or any folder of ``probabilities/``, or of
        ``logits/``, with the files of labels and nodes beside.
    labels, test, calibration, train : path, optional
        Files of labels and nodes. By default those of the folder, or else of the folder that it
        was calibrated from.
    input_type, progress
        As of `calibrate`.
    bins : int
        Bins of the calibration errors.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     Path(name, "probabilities").mkdir()
    ...     np.save(f"{name}/probabilities/0.npy", np.tile([0.8, 0.2], (10, 1)))
    ...     np.save(f"{name}/labels.npy", np.repeat([0, 1, -1], [6, 3, 1]))
    ...     round(evaluate(name).metrics.evaluate()["ece"], 3)
    0.133
    """
    place, say = Path(folder), progress or quiet
    shards, folders = _open(place)
    given = {"labels": labels, "test": test, "calibration": calibration, "train": train}
    files: dict[str, Path | None] = {}
    for part, path in given.items():
        found = (file_of(folder, part) for folder in folders)
        files[part] = Path(path) if path is not None else next(filter(None, found), None)
    if files["labels"] is None:
        raise FileNotFoundError(f"there is no file {folders[-1] / 'labels.*'}")
    y_of = Labels.open(files["labels"], shards.rows, shards.columns).of
    wanted, fitted_on = _masks(files, shards.rows)
    metrics, left_out = StreamingMetrics.empty(shards.columns, bins), 0
    runs = list(row_blocks(shards.rows, shards.columns, TOGETHER))
    for done, rows in enumerate(runs):
        say("judging", done, len(runs))
        y = y_of(np.arange(rows.start, rows.stop), unknown=True)
        known = (y >= 0) & wanted[rows]
        judged = known & ~fitted_on[rows]
        left_out += int(known.sum() - judged.sum())
        if judged.any():
            raw = shards.read(rows.start, rows.stop)
            if input_type == "probabilities":
                check_numbers(raw, input_type, shards, rows.start)
                probs = raw.astype(np.promote_types(raw.dtype, np.float32), copy=False)
            else:
                probs = scaled_softmax(as_logits(shards, rows.start, raw, input_type)).numpy()
            metrics = metrics.update(probs[judged], y[judged])
    say("judging", len(runs), len(runs))
    if not metrics.num_nodes:
        raise ValueError("no labelled node is left to judge on: name other nodes as test")
    return FolderMetrics(metrics, left_out)


def _open(place: Path) -> tuple[Shards, list[Path]]:
    """The shards of a folder, and where files of labels and nodes may be: there, or where those
    shards were that they were made from."""
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}")
    if not (place / "probabilities").is_dir():
        return Shards.open(place / "logits"), [place]
    shards, manifest = Shards.open(place / "probabilities"), place / MANIFEST
    if not manifest.exists():
        if (place / "groups").is_dir():
            raise FileNotFoundError(
                f"{place} is not finished, it has no {MANIFEST}: run the command again that made it"
            )
        return shards, [place]
    try:
        source = json.loads(manifest.read_text("utf-8")).get("folder")
    except (ValueError, AttributeError) as error:
        raise FileFormatError(f"{manifest}: it is damaged: {error}") from error
    return shards, [place] if source is None else [place, Path(source)]


def _masks(files: dict[str, Path | None], count: int) -> tuple[Bools, Bools]:
    """Nodes that are to be judged if they have a label, and those that must not be."""
    parts = {
        part: nodes_in(path, count, part)
        for part, path in files.items()
        if part != "labels" and path is not None
    }
    test, fitted_on = parts.pop("test", None), np.zeros(count, dtype=bool)
    wanted = np.full(count, test is None)
    if test is not None:
        wanted[test] = True
    for part, nodes in parts.items():
        if test is not None:
            names = f"{files[part]}", f"{files['test']}"
            refuse_shared(nodes, test, names, "take them out of one of the two")
        fitted_on[nodes] = True
    return wanted, fitted_on
