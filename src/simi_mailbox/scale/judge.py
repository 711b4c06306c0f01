"""Are the probabilities of a folder calibrated?? One look at them, in bounded memory."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simi_mailbox._arrays import Array, Bools
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import StrPath
from simi_mailbox.metrics import StreamingMetrics
from simi_mailbox.scale.engines import Progress, quiet
from simi_mailbox.scale.inputs import Labels, as_logits, check_numbers, file_of, nodes_in
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import MANIFEST
from simi_mailbox.softmax import row_blocks, scaled_softmax
from simi_mailbox.validation import InputType

TOGETHER = 1 << 23
"""Numbers that are looked at together."""


@dataclass(frozen=True)
class FolderMetrics:
    """What `evaluate` has seen.

    Attributes
    ----------
    metrics : simi_mailbox.metrics.StreamingMetrics
        All metrics, intervals and the noise floor.
    left_out : int
        Labelled nodes that were not judged, because something was fitted on them.

    Examples
    --------
    >>> metrics = StreamingMetrics.empty(classes=2).update(np.array([[0.5, 0.5]]), np.array([0]))
    >>> FolderMetrics(metrics, left_out=0).metrics.evaluate()["accuracy"]
    1.0
    """

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
    """Judge the shards of a folder by labels.

    FolderMetrics are the nodes of ``test``, or all that have a label; those of ``calibration`` and
    ``train`` are left out, because whatever was fitted on them looks better than it is.

    Parameters
    ----------
    folder : path
        What `calibrate` or `apply` have written; or any folder of ``probabilities/``, or of
        ``logits/``, with the files of labels and nodes beside.
    labels, test, calibration, train : path, optional
        Files of labels and nodes, as of `calibrate`. By default those of the folder, or else of
        the folder that it was calibrated from.
    input_type : {"logits", "log-probabilities", "probabilities"}
        What the shards hold.
    bins : int
        Bins of the calibration errors.
    progress : callable, optional
        As of `calibrate`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     Path(name, "probabilities").mkdir()
    ...     np.save(f"{name}/probabilities/0.npy", np.tile([0.8, 0.2], (10, 1)))
    ...     np.save(f"{name}/labels.npy", np.repeat([0, 1, -1], [6, 3, 1]))
    ...     found = evaluate(name)
    >>> found.metrics.num_nodes, round(found.metrics.evaluate()["ece"], 3)
    (9, 0.133)
    """
    place = Path(folder)
    shards, origin = _open(place)
    given = {"labels": labels, "test": test, "calibration": calibration, "train": train}
    files = {name: _find(name, path, place, origin) for name, path in given.items()}
    if files["labels"] is None:
        where = place if origin is None else origin
        raise FileNotFoundError(f"there is no file {where / 'labels.*'}: say where labels are")
    wanted, fitted_on = _masks(files, shards.rows)
    metrics, left_out, done = StreamingMetrics.empty(shards.columns, bins), 0, 0
    runs = [(r.start, r.stop) for r in row_blocks(shards.rows, shards.columns, TOGETHER)]
    given_labels = Labels.open(files["labels"], shards.rows, shards.columns)
    for start, stop in runs:
        y = given_labels.of(np.arange(start, stop), unknown=True)
        (progress or quiet)("judging", done, len(runs))
        known = y >= 0
        if wanted is not None:
            known &= wanted[start:stop]
        judged = known & ~fitted_on[start:stop]
        left_out, done = left_out + int(known.sum() - judged.sum()), done + 1
        if judged.any():
            raw = shards.read(start, stop)
            check_numbers(raw, input_type, shards, start)
            metrics = metrics.update(_probabilities(raw[judged], input_type), y[judged])
    (progress or quiet)("judging", done, len(runs))
    if not metrics.num_nodes:
        raise ValueError("no labelled node is left to judge on: name other nodes as test")
    return FolderMetrics(metrics, left_out)


def _open(place: Path) -> tuple[Shards, Path | None]:
    """The shards of a folder, and where those were that they were made from."""
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}")
    if not (place / "probabilities").is_dir():
        return Shards.open(place / "logits"), None
    manifest = place / MANIFEST
    if not manifest.exists():
        if (place / "groups").is_dir():
            raise FileNotFoundError(
                f"{place} is not finished, it has no {MANIFEST}: run the command again that made it"
            )
        return Shards.open(place / "probabilities"), None
    try:
        source = json.loads(manifest.read_text("utf-8")).get("folder")
    except (ValueError, AttributeError) as error:
        raise FileFormatError(f"{manifest}: it is damaged: {error}") from error
    return Shards.open(place / "probabilities"), None if source is None else Path(source)


def _find(name: str, path: StrPath | None, place: Path, origin: Path | None) -> Path | None:
    if path is not None:
        return Path(path)
    found = file_of(place, name)
    return file_of(origin, name) if found is None and origin is not None else found


def _masks(files: dict[str, Path | None], count: int) -> tuple[Bools | None, Bools]:
    """Nodes that are to be judged (None: all with a label), and those that must not be."""
    wanted, fitted_on = None, np.zeros(count, dtype=bool)
    if files["test"] is not None:
        wanted = np.zeros(count, dtype=bool)
        wanted[nodes_in(files["test"], count, "test")] = True
    for name in ("calibration", "train"):
        path = files[name]
        if path is None:
            continue
        nodes = nodes_in(path, count, name)
        if wanted is not None and wanted[nodes].any():
            shared = nodes[wanted[nodes]]
            raise ValueError(
                f"{len(shared)} nodes are both in {path} and in {files['test']} (the first is "
                f"{shared[0]}): take them out of one of the two"
            )
        fitted_on[nodes] = True
    return wanted, fitted_on


def _probabilities(raw: Array, kind: InputType) -> Array:
    if kind == "probabilities":
        return raw if raw.dtype != np.float16 else raw.astype(np.float32)
    return scaled_softmax(as_logits(raw, kind)).numpy()
