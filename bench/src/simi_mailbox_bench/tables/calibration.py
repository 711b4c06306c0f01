"""Tables that compare calibrators on the logits of trained backbones: those of `calibration.toml`.

The label of a column names its method, and behind it what differs from the published settings:
"simi-mailbox-paper exact N=15 λ=50", "simi-mailbox − labels" (without a part of the method).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import product
from typing import Any

from simi_mailbox.calibrators.registry import METHODS
from simi_mailbox_bench import methods, paper_tables
from simi_mailbox_bench.ablation import ABLATED, PARTS
from simi_mailbox_bench.backbones.cached_runs import SIZES, RunKey, Size, runs
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.methods import HIDDEN, WITH_HIDDEN, Method
from simi_mailbox_bench.oracle import ORACLE
from simi_mailbox_bench.rivals import RIVALS
from simi_mailbox_bench.tables.base import Cell, Line, Selection, Table, runs_per_cell, selected

DATA = tomllib.loads((files(__package__) / "calibration.toml").read_text(encoding="utf-8"))
GROUPS = (5, 10, 15, 20, 25, 30)
WEIGHTS = (1, 5, 10, 20, 30, 40, 50)
GRIDS = ("simi-mailbox-paper exact", "simi-mailbox-oracle exact")
_WORDS: dict[str, dict[str, Any]] = {
    "searched": {"search": True},
    "cross-fitted": {"search": True, "folds": 5},
    "exact": {"solver": "exact", "selection": "none"},
    "standard": {"scaling": "standard"},
}


def grid_label(name: str, n_groups: int, weight: int) -> str:
    """Column of one cell of a grid."""
    return f"{name} N={n_groups} λ={weight}"


@dataclass(frozen=True)
class Column:
    """One method of a table."""

    label: str
    method: Method
    printed: str | None = None
    metric: str | None = None
    backbones: tuple[str, ...] | None = None

    @classmethod
    def of(cls, label: str, printed: Mapping[str, str] = DATA["printed"]) -> Column:
        """The column of a label; ``printed`` is what the paper calls methods."""
        if label in DATA["columns"]:
            settings = dict(DATA["columns"][label])
            name, shown, metric = (settings.pop(x, None) for x in ("method", "printed", "metric"))
            return cls(label, Method.of(name, **settings), shown, metric)
        if " − " in label:
            whole, part = label.split(" − ")
            keep = whole == "simi-mailbox"
            if part == "groups":
                return cls(label, Method.of(whole, n_groups=1))
            return cls(label, Method.of(ABLATED, keep_classes=keep, without=part))
        name, *words = label.split()
        settings = {}
        for word in words:
            if word[:2] == "N=":
                settings["n_groups"] = int(word[2:])
            elif word[:2] == "λ=":
                settings["penalty"] = float(word[2:])
            else:
                settings |= _WORDS[word]
        if name == ORACLE:  # it has its own rule of selection
            settings.pop("selection", None)
        backbones = DATA["backbones"].get(name)
        scaled = "Simi-Mailbox w/ standard scaling" if "standard" in words else None
        return cls(
            label,
            Method.of(name, **settings),
            scaled or printed.get(name),
            backbones=tuple(backbones) if backbones else None,
        )


@dataclass(frozen=True, kw_only=True)
class CalibrationTable(Table):
    """A grid (graph, backbone) × methods, one metric, beside the printed numbers.

    ``protocol`` (but that of ``protocols``, by dataset) and ``sizes`` say which splits there are
    and how many runs ("" for all other datasets), of which a cell has ``default_runs`` if none are
    asked for (0: all), and the paper ``paper_runs`` if not all. Initialisations count from
    ``first_init``. With ``by_seed``, runs that share one split are compared by their seed.
    ``evaluation`` and ``quantity`` are those of `CalibrationUnit`; datasets ``besides`` are shown
    only when they are named.
    """

    columns: tuple[Column, ...]
    protocol: str = "folds"
    baseline: str | None = "temperature"
    default_runs: Mapping[str, int] | int = 0
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    protocols: Mapping[str, Sequence[str]] = field(default_factory=dict)
    first_init: int = 0
    paper_runs: int | None = None
    by_seed: bool = False
    evaluation: str = "test"
    quantity: str = "metrics"
    besides: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(column.label for column in self.columns)

    def joined_by(self, guests: Iterable[str], datasets: Iterable[str] = ()) -> CalibrationTable:
        """With a column for each guest; whoever learns edge weights stands beside the GCN only."""
        named = {name.lower() for name in datasets}
        besides = [name for name in self.besides if name.lower() in named]
        columns = [
            Column(name, Method.of(name), backbones=("gcn",) if weights else None)
            for name in guests
            for weights in ["forward" in methods.find(name).required_inputs]
            if name not in self.methods
        ]
        return replace(self, columns=(*self.columns, *columns), datasets=(*self.datasets, *besides))

    def runs_of(self, dataset: str, backbone: str, limit: int | None) -> list[RunKey]:
        """Runs of one cell."""
        chosen = self.default_runs
        if isinstance(chosen, Mapping):
            chosen = chosen.get(dataset, chosen[""])
        others = (name for name, listed in self.protocols.items() if dataset in listed)
        protocol = next(others, self.protocol)
        made = runs(dataset, backbone, protocol, limit or chosen or None, self._size(dataset))
        return [replace(run, init=run.init + self.first_init) for run in made]

    def _size(self, dataset: str) -> Size | None:
        size = self.sizes.get(dataset, self.sizes.get(""))
        return Size(*size) if size else None

    def paper_runs_of(self, dataset: str) -> int:
        """How many runs the paper makes on a dataset."""
        return self.paper_runs or (self._size(dataset) or SIZES[self.protocol]).runs

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = paper_tables.cells(self.name)
        chosen = selected(selection.methods, self.methods)
        made = []
        for dataset, backbone in self.places(selection):
            found = self.runs_of(dataset, backbone, selection.runs)
            units = {run.place: self.unit_of(run) for run in found}
            if self.by_seed and len({split for split, _, _ in units}) == 1:
                units = {place[::-1]: unit for place, unit in units.items()}
            made += [
                Cell(
                    dataset,
                    backbone,
                    column.label,
                    column.method,
                    units,
                    numbers.get((dataset, backbone, column.printed or "")),
                    methods.NOTES.get(column.method.name, ""),
                    column.metric,
                    self.paper_runs_of(dataset),
                )
                for column in self.columns
                if column.label in chosen and (not column.backbones or backbone in column.backbones)
            ]
        return made

    def captions(self, lines: Sequence[Line]) -> tuple[str, ...]:
        """With how many runs the numbers stand on, beside those of the paper if any."""
        made = runs_per_cell(lines)
        paper_runs = max(map(self.paper_runs_of, self.datasets))
        paper = f"; the paper makes {paper_runs}" if paper_tables.cells(self.name) else ""
        sentences = [f"{made}{paper}."] if made else []
        measured = {line.dataset for line in lines if line.summary}
        absent = [name for name in dict.fromkeys(x.dataset for x in lines) if name not in measured]
        if absent:
            sentences.append(f"Not measured: {', '.join(absent)}.")
        return (*self.caption, *sentences)

    def unit_of(self, run: RunKey) -> CalibrationUnit:
        """The work on one run, still without methods."""
        return CalibrationUnit(run, (), self.evaluation, self.quantity)


# What follows the registry and the method's own parts.
_MADE = {
    "registry": [  # platt and beta are for two classes: table binary
        name for name in (*METHODS, *HIDDEN, *RIVALS) if name not in ("platt", "beta")
    ],
    "grids": [
        *(grid_label(*cell) for cell in product(GRIDS, GROUPS, WEIGHTS)),
        *(f"simi-mailbox N={n}" for n in GROUPS),
    ],
    "ablated": [
        label
        for whole in ("simi-mailbox", "simi-mailbox-free")
        for label in (
            *(whole, *(f"{whole} − {part}" for part in (*PARTS, "groups"))),
            whole + WITH_HIDDEN,
        )
    ],
}


def shared(items: Iterable[str]) -> tuple[str, ...]:
    """Items with the list that stands for each "$name"."""
    lists = DATA["shared"] | _MADE
    return tuple(
        one
        for item in items
        for one in (shared(lists[item[1:]]) if item.startswith("$") else (item,))
    )


def described(name: str) -> dict[str, Any]:
    """The lines of a table, with those that it takes from others."""
    given = DATA["table"][name]
    other = given.get("like") or given.get("rows_of")
    words, unit, digits = DATA["metrics"][given.get("metric", "ece")]
    shows = {"shows": f"{words}, on the rows of {other}"} if "rows_of" in given else {}
    base = described(other) if other else DATA["default"]
    return {**base, "unit": unit, "digits": digits, **shows, **given, "name": name}


def table(name: str, kind: type[CalibrationTable] = CalibrationTable) -> CalibrationTable:
    """A table of `calibration.toml`."""
    about = described(name)
    about = {key: value for key, value in about.items() if key not in ("like", "rows_of")}
    printed = DATA["printed"] | about.pop("printed", {})
    for key, value in about.items():
        if isinstance(value, list):
            about[key] = shared(value)
    about["columns"] = tuple(Column.of(label, printed) for label in about["columns"])
    return kind(**about)


TABLES = tuple(table(name) for name in DATA["table"] if name != "gpn")
