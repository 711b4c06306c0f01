"""Whether columns are scores of classes: what is none is refused by its name."""

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import LABEL_NAMES, NAMES, PANDAS_INDEX, PREFIXES, like_an_id
from simi_mailbox.node_files.nodes import NodeNames
from simi_mailbox.validation import RANGE_TOLERANCE, ROW_SUM_TOLERANCE

WRITTEN = ("predicted", "confidence")
"""Columns of files that are written here."""
NOT_SCORES = {*LABEL_NAMES, *WRITTEN, "split", "name", PANDAS_INDEX}
NOT_SCORES |= {name for part in ("calibration", "test", "train") for name in NAMES[part]}
"""Columns that stand beside scores of classes."""
_MASKED = -1e4
"""Logits below it rule a class out, and tell nothing of its scale."""
_BEYOND = 20.0
"""How far the logits of a class lie above those of all others, if they are something else."""

_SAMPLE = 10_000
"""Nodes that are looked at."""


def score_columns(
    names: Sequence[str],
    position: int | None,
    measures: Callable[[int], bool],
    kind: str | None = None,
) -> tuple[list[int], list[int]]:
    """Columns beside the ids at ``position`` that may be scores of classes, and those among them
    that are for certain, because their names begin as `PREFIXES` say (of one ``kind``).

    A class may be called like something else if its column ``measures``: has fractions.
    """
    chosen = [
        k
        for k, name in enumerate(names)
        if k != position
        and (name.lower() not in NOT_SCORES or (name not in WRITTEN and measures(k)))
    ]
    prefixes = PREFIXES[kind] if kind else tuple(chain(*PREFIXES.values()))
    return chosen, [k for k in chosen if names[k].lower().startswith(prefixes)]


def refuse_others(names: Sequence[str], array: Array, path: Path) -> None:
    """Raise for columns that are no scores of a class, by what they are called and hold.

    Those called like ids; those of whole numbers beside others with fractions; those far above all
    others, which then would always be predicted. One constant for all nodes may be a score.
    """
    some = array[:: max(1, len(array) // _SAMPLE)].T
    columns = [column[np.isfinite(column) & (column > _MASKED)] for column in some]
    columns = [column if column.size else np.zeros(1) for column in columns]
    varied = [np.ptp(column) > 0 for column in columns]
    whole = [(column % 1 == 0).all() for column in columns]
    usual = [np.median(column) for column in columns]
    size = np.array([np.median(np.abs(column)) for column in columns])
    told = []
    for k, name in enumerate(names):
        if like_an_id(name):
            told.append(f"column {name!r} is called like an id")
        elif varied[k] and whole[k] and not all(whole):
            told.append(f"column {name!r} holds whole numbers, the others fractions")
        elif varied[k] and usual[k] > _BEYOND * max(1.0, np.delete(size, k).max(initial=0.0)):
            told.append(f"column {name!r} is about {usual[k]:.4g}, far above the others")
    if told:
        prefix = PREFIXES["logits"][0]
        raise FileFormatError(
            f"{path}: {'; '.join(told)}: is it no score of a class? then take it out, or say "
            f"--id-column if it names the nodes; else call the columns of all classes {prefix}…"
        )


def impossible_values(array: Array, nodes: NodeNames, path: Path, kind: str) -> list[str]:
    """What to say of nodes whose numbers no model can have given, by what the user calls them."""
    if nodes.ids is None or array.dtype.kind != "f":
        return []  # rows are told where all inputs are checked
    if kind == "logits":
        if np.isfinite(array.sum()):
            return []
        masked = np.isneginf(array).all(axis=0)
        bad = ~np.isfinite(array[:, ~masked]).all(axis=1)
        why, hint = "has logits that are NaN or infinite", ""
    else:
        bad = ~(np.abs(array.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)
        bad |= ~((array >= -RANGE_TOLERANCE) & (array <= 1 + RANGE_TOLERANCE)).all(axis=1)
        why = "has no probabilities: they lie outside [0, 1] or do not add up to one"
        hint = ". If these are logits, say --input-type logits"
    rows = np.flatnonzero(bad)
    return [f"{path}: node {nodes.named(rows)} {why}{hint}"] if len(rows) else []
