"""The numbers that the paper prints, one JSON file per table.

A cell is ``[dataset, backbone, method, mean, std, …]``; further entries tell cells of one dataset
apart (labels per class, kind of perturbation); ``doubtful`` ones cannot be right.
"""

import functools
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

_SAME_CELLS = {"table1-5": "table1", "released": "table1"}


@dataclass(frozen=True)
class Printed:
    """Mean and standard deviation as printed; ``std`` is None where the paper gives none."""

    mean: float
    std: float | None


def cells(table: str) -> dict[tuple[str, ...], Printed]:
    """Printed cells of a table by (dataset, backbone, method as printed, …)."""
    found = {}
    for dataset, backbone, method, mean, std, *rest in _read(table)["cells"]:
        if mean is not None:
            found[(dataset, backbone, method, *rest)] = Printed(mean, std)
    return found


@functools.cache
def _read(table: str) -> dict[str, Any]:
    source = files(__name__) / f"{_SAME_CELLS.get(table, table)}.json"
    if not source.is_file():  # a table of ours alone, such as the sensitivity curves
        return {"cells": []}
    content: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    return content
