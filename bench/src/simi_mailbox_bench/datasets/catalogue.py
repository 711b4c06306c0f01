"""The datasets this package knows: the rows of ``catalogue.csv``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from simi_mailbox.plain_text import unknown


@dataclass(frozen=True)
class Entry:
    """What is known about a dataset before reading it.

    ``entries`` counts both directions of every edge, and each of the ``self_loops`` once, which
    `Graph` drops. ``loader`` is a PyG class and its ``name`` argument. ``splits`` are "public",
    "official" or none ("") that were published, and ``folds`` tells that the file ships the five
    3-fold splits. ``origin`` ("pyg", "ogb", "scikit-learn" or "file") is what provides the data
    where no file is found. On loading, columns of features get their ``scaling`` ("rank",
    "standard" or ""). ``file`` is the dataset whose file this is read from, if not its own.
    """

    name: str
    nodes: int
    entries: int
    classes: int
    features: int
    loader: tuple[str, ...] = ()
    splits: str = ""
    folds: bool = False
    homophily: float | None = None
    sha256: str | None = None
    origin: str = "pyg"
    self_loops: int = 0
    scaling: str = ""
    file: str = ""

    @property
    def edges(self) -> int:
        """Number of undirected edges, self-loops left out."""
        return (self.entries - self.self_loops) // 2

    @property
    def file_name(self) -> str:
        """Name of the file in the data folder."""
        return f"{self.file or self.name}.npz"


_NUMBERS = ("nodes", "entries", "classes", "features", "self_loops")
_ALIASES = {"reddit": "Reddit2", "ogbn-arxiv": "Arxiv", "cora_ml": "CoraML", "cora-ml": "CoraML"}


def _entry(row: dict[str, Any]) -> Entry:
    row |= {name: int(row[name] or 0) for name in _NUMBERS}
    row |= {"loader": tuple(row["loader"].split()), "folds": bool(row["folds"])}
    row["homophily"] = float(row["homophily"]) if row["homophily"] else None
    return Entry(**row | {"sha256": row["sha256"] or None})


with (files(__package__) / "catalogue.csv").open(encoding="utf-8") as _table:
    ENTRIES = {row["name"]: _entry(row) for row in csv.DictReader(_table)}


def find(name: str) -> Entry:
    """Entry of a dataset, whatever the case of ``name``; an unknown name lists the choices."""
    known = {known.lower(): known for known in ENTRIES} | _ALIASES
    try:
        return ENTRIES[known[name.strip().lower()]]
    except KeyError:
        raise ValueError(unknown("dataset", name, ENTRIES, _ALIASES)) from None


def names() -> list[str]:
    """Names of all datasets that `load` knows."""
    return list(ENTRIES)
