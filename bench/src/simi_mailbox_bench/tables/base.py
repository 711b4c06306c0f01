"""What a table is: units of work, cells to be filled by their rows, and the filled table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from simi_mailbox.plain_text import unknown
from simi_mailbox_bench.compare import (
    Paired,
    Place,
    Standing,
    Summary,
    differing,
    paired,
    pooled,
    standing,
    summarise,
)
from simi_mailbox_bench.paper_tables import Printed
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.store import ResultStore

FEWEST_RUNS = 5
"""Runs below which no method is called best, tied or behind: the five splits."""

SEEDS_ARE_UNITS = (
    "All runs of a cell share one split and differ in their seed; the unit of the comparison "
    "against the baseline is here the seed, so its interval says nothing about other splits."
)


@dataclass(frozen=True)
class Selection:
    """A part of a table; None means all of it (for ``runs``: as many as the table does)."""

    datasets: tuple[str, ...] | None = None
    backbones: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    runs: int | None = None


@dataclass(frozen=True)
class Line:
    """One cell of a table with all that is known about it, in the unit of the table."""

    dataset: str
    backbone: str
    method: str
    summary: Summary | None = None
    printed: Printed | None = None
    floor: float | None = None
    paired: Paired | None = None
    note: str = ""
    wanted: int = 0
    printed_runs: int = 0

    @property
    def deviation_error(self) -> float | None:
        """(measured − printed) in standard errors of that difference, runs taken as independent."""
        if not (self.summary and self.printed and self.printed.std and self.printed_runs):
            return None
        measured = self.summary.std**2 / self.summary.runs
        error = math.sqrt(measured + self.printed.std**2 / self.printed_runs)
        return (self.summary.mean - self.printed.mean) / error

    @property
    def deviation(self) -> float | None:
        """(measured − printed) in units of the printed standard deviation."""
        if self.summary is None or self.printed is None or not self.printed.std:
            return None
        return (self.summary.mean - self.printed.mean) / self.printed.std


@dataclass(frozen=True)
class TableResult:
    """A table ready to be rendered; ``standings`` by method and (dataset, backbone)."""

    name: str
    title: str
    unit: str
    digits: int
    baseline: str | None
    lines: tuple[Line, ...]
    caption: tuple[str, ...] = ()
    standings: Mapping[str, Mapping[tuple[str, str], Standing]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    metric: str = ""
    target: float | None = None

    def measured(self) -> TableResult:
        """The table without the cells that nothing is known of yet."""
        return replace(self, lines=tuple(line for line in self.lines if line.summary))

    def groups(self) -> list[tuple[str, str]]:
        """(dataset, backbone) of the lines, in order."""
        return list(dict.fromkeys((line.dataset, line.backbone) for line in self.lines))

    def methods(self) -> list[str]:
        """Methods of the lines, in order."""
        return list(dict.fromkeys(line.method for line in self.lines))

    def line(self, dataset: str, backbone: str, method: str) -> Line | None:
        """The line of one cell, if there is one."""
        place = dataset, backbone, method
        found = (x for x in self.lines if (x.dataset, x.backbone, x.method) == place)
        return next(found, None)


@dataclass(frozen=True)
class Cell:
    """One line of a table: the ``item`` whose rows the ``units`` of its runs make, itemless here.

    ``metric`` is its own, if it is not the table's.
    """

    dataset: str
    backbone: str
    method: str
    item: Any
    units: Mapping[Place, Unit]
    printed: Printed | None = None
    note: str = ""
    metric: str | None = None
    printed_runs: int = 0

    @cached_property
    def keys(self) -> Mapping[Place, str]:
        """Keys of the rows it is the mean of."""
        return {place: unit.key(self.item) for place, unit in self.units.items()}


@dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """A table of the paper: work to be done, and cells made of the rows that are there.

    It ``shows`` a ``metric`` of its rows in a ``unit`` ("percent" multiplies by 100). The other
    methods are compared with the ``baseline``; those ``judged`` are each held against all others
    but these, setting by setting. A ``caption`` tells what is shown, ``notes`` are for where the
    comparison and remarks stand. Methods of other packages join an ``open`` table by themselves. A
    ``target`` is what a mean is to reach; of several ``metrics``, `with_metric` shows another one.
    """

    name: str
    shows: str
    datasets: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ("gcn", "gat")
    metric: str = "ece"
    unit: str = "percent"
    digits: int = 2
    baseline: str | None = None
    judged: tuple[str, ...] = ()
    caption: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    open: bool = False
    target: float | None = None
    metrics: tuple[str, ...] = ()
    tells_runs: bool = False

    @property
    @abstractmethod
    def methods(self) -> tuple[str, ...]:
        """Names of the methods shown."""

    def needs(self) -> tuple[str, ...]:
        """Names of the datasets whose data must be there; the others are skipped."""
        return self.datasets

    @abstractmethod
    def cells(self, selection: Selection) -> list[Cell]:
        """Lines of the selected part of the table."""

    def units(self, selection: Selection) -> list[Unit]:
        """The work behind the selected part of the table."""
        work: dict[Unit, dict[Any, None]] = {}
        for cell in self.cells(selection):
            for unit in cell.units.values():
                work.setdefault(unit, {})[cell.item] = None
        return [unit.of(tuple(items)) for unit, items in work.items()]

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        """The selected part of the table, as far as its rows are in the store."""
        settings: dict[tuple[str, str], dict[str, _Sample]] = {}
        for cell in self.cells(selection):
            setting = settings.setdefault((cell.dataset, cell.backbone), {})
            setting[cell.method] = self._sample(store, cell)
        lines = [line for samples in settings.values() for line in self._lines(samples)]
        standings = {
            method: {
                place: self._standing(method, samples)
                for place, samples in settings.items()
                if method in samples
            }
            for method in self.judged
        }
        apart = [
            f"{name} on {dataset} {backbone.upper()} ({counted(len(places), 'run')})"
            for (dataset, backbone), samples in settings.items()
            for name, places in self._apart(samples).items()
        ]
        others = f"Measured on other logits than {self.baseline}, and not compared: "
        return TableResult(
            self.name,
            self.shows,
            self.unit,
            self.digits,
            self.baseline,
            tuple(lines),
            self.captions(lines),
            {m: found for m, found in standings.items() if any(x.runs for x in found.values())},
            metric=self.metric,
            target=self.target,
            remarks=(
                *([f"{others}{'; '.join(apart)}."] if apart else []),
                *self.notes,
                *self.remarks(store, selection),
            ),
        )

    def progress(self, store: ResultStore, absent: Iterable[str] = ()) -> str:
        """How many cells have all their runs in the store, without the graphs that are absent."""
        lacking = tuple(f"{name} " for name in absent)
        cells = [c for c in self.cells(Selection()) if not f"{c.dataset} ".startswith(lacking)]
        made = [(sum(key in store for key in c.keys.values()), len(c.keys)) for c in cells]
        begun = sum(0 < has < asked for has, asked in made)
        done = sum(has >= asked for has, asked in made)
        return f"{done} of {len(made)}" + (f", {begun} begun" if begun else "")

    def with_metric(self, metric: str) -> Table:
        """The same table of another metric."""
        raise ValueError(f"{self.name} shows one metric only, {self.metric}")

    def joined_by(self, guests: Iterable[str], datasets: Iterable[str] = ()) -> Table:
        """The table with further methods, and with ``datasets`` as far as it takes them at all."""
        return self

    def captions(self, lines: Sequence[Line]) -> tuple[str, ...]:
        """Sentences below the table."""
        made = runs_per_cell(lines) if self.tells_runs else ""
        return (*self.caption, *([f"{made}."] if made else []))

    def remarks(self, store: ResultStore, selection: Selection) -> list[str]:
        """Sentences on single cells that depend on what was measured."""
        return []

    def places(self, selection: Selection) -> Iterator[tuple[str, str]]:
        """The selected pairs of a dataset and a backbone."""
        return product(
            selected(selection.datasets, self.datasets),
            selected(selection.backbones, self.backbones),
        )

    def check(self, selection: Selection) -> Selection:
        """The selection with names as the table spells them; unknown names list the choices."""
        return Selection(
            choose("dataset", selection.datasets, self.datasets),
            choose("backbone", selection.backbones, self.backbones),
            choose("method", selection.methods, self.methods),
            selection.runs,
        )

    def _sample(self, store: ResultStore, cell: Cell) -> _Sample:
        rows = {place: store[key] for place, key in cell.keys.items() if key in store}
        metric = cell.metric or self.metric
        scale = 100.0 if self.unit in ("percent", "x100") else 1.0
        floors = [_number(row.get("noise_floor", {}).get("mean")) for row in rows.values()]
        floor = scale * pooled(floors) if metric == "ece" else math.nan
        return _Sample(
            cell,
            {place: scale * _number(row["metrics"].get(metric)) for place, row in rows.items()},
            {place: row.get("logits", "") for place, row in rows.items()},
            None if math.isnan(floor) else floor,
        )

    def _lines(self, samples: Mapping[str, _Sample]) -> list[Line]:
        base = samples.get(self.baseline or "")
        apart = self._apart(samples)
        return [
            Line(
                sample.cell.dataset,
                sample.cell.backbone,
                name,
                summarise(sample.values),
                sample.cell.printed,
                sample.floor,
                None
                if base is None or sample is base
                else paired(sample.values, base.values, apart.get(name, ())),
                sample.cell.note,
                len(sample.cell.keys),
                sample.cell.printed_runs or len(sample.cell.keys),
            )
            for name, sample in samples.items()
        ]

    def _apart(self, samples: Mapping[str, _Sample]) -> dict[str, set[Place]]:
        """By method, its runs that were measured on other logits than the baseline's."""
        base = samples.get(self.baseline or "")
        found = {
            name: differing(sample.logits, base.logits) if base else set()
            for name, sample in samples.items()
        }
        return {name: places for name, places in found.items() if places}

    def _standing(self, method: str, samples: Mapping[str, _Sample]) -> Standing:
        """Of a judged method among those shown; a rival must have as many runs at least."""
        others = {name for name in self.judged if name != method}
        return standing(
            method,
            {name: sample.values for name, sample in samples.items() if name not in others},
            least=max(len(samples[method].values), FEWEST_RUNS),
            logits={name: sample.logits for name, sample in samples.items()},
        )


@dataclass(frozen=True)
class _Sample:
    """What the rows of a cell say, by run."""

    cell: Cell
    values: Mapping[Place, float]
    logits: Mapping[Place, str]
    floor: float | None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def selected(chosen: Sequence[str] | None, everything: Iterable[str]) -> list[str]:
    """What is chosen of everything, in the table's order."""
    return [name for name in everything if chosen is None or name in chosen]


def choose(what: str, given: Sequence[str] | None, choices: Sequence[str]) -> Any:
    """Names as ``choices`` spell them; an unknown one is an error that lists the choices."""
    by_lower = {choice.lower(): choice for choice in choices}
    for name in given or ():
        if name.lower() not in by_lower:
            raise ValueError(unknown(what, name, choices))
    return None if given is None else tuple(by_lower[name.lower()] for name in given)


def counted(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def runs_per_cell(lines: Iterable[Line]) -> str:
    """How many runs the measured cells stand on, in words; "" without any."""
    made = [line.summary.runs for line in lines if line.summary]
    if not made:
        return ""
    least, most = min(made), max(made)
    return f"{'' if least == most else f'{least} to '}{counted(most, 'run')} per cell"
