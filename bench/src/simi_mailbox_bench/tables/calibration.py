"""Tables that compare calibrators on the logits of trained backbones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Self

from simi_mailbox_bench import methods, paper_tables
from simi_mailbox_bench.backbones.cached_runs import RunKey, Size, runs, size_of
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.tables.base import Cell, Line, Selection, Table, runs_per_cell, selected


@dataclass(frozen=True)
class Column:
    """One method of a table."""

    label: str
    method: Method
    printed: str | None = None
    metric: str | None = None
    backbones: tuple[str, ...] | None = None

    @classmethod
    def of(cls, name: str, as_printed: str | None = None, **overrides: object) -> Column:
        """A column named after its method."""
        return cls(name, Method.of(name, **overrides), as_printed)


@dataclass(frozen=True)
class CalibrationTable(Table):
    """A grid (graph, backbone) × methods, one metric, beside the printed numbers.

    Parameters
    ----------
    name, shows, datasets, backbones, metric, unit, digits, baseline, judged, caption, open
        See `Table`; baseline and judged are labels of columns.
    columns
        The methods.
    protocol
        Which splits, and how many runs.
    default_runs
        Runs per cell when none are asked for: a number, or one per dataset with "" for the rest;
        None for all runs of the protocol.
    sizes
        Datasets whose number of splits is not the protocol's usual one.
    paper_runs
        How many runs the paper makes, where they are not those of protocol and sizes.
    evaluation, quantity
        See `CalibrationUnit`.
    besides
        Datasets that are shown when they are named, and else not.
    """

    name: str
    shows: str
    datasets: tuple[str, ...]
    backbones: tuple[str, ...]
    columns: tuple[Column, ...]
    protocol: str = "folds"
    metric: str = "ece"
    unit: str = "percent"
    digits: int = 2
    default_runs: Mapping[str, int] | int | None = None
    sizes: Mapping[str, Size] = field(default_factory=dict)
    paper_runs: int | None = None
    evaluation: str = "test"
    quantity: str = "metrics"
    baseline: str | None = "temperature"
    judged: tuple[str, ...] = ()
    caption: tuple[str, ...] = ()
    open: bool = False
    besides: tuple[str, ...] = ()

    def shown_as(
        self, name: str, metric: str, what: str, unit: str = "percent", digits: int = 2
    ) -> Self:
        """The same rows in another metric, as a table of its own."""
        shows = f"{what}, on the rows of {self.name}"
        return replace(self, name=name, shows=shows, metric=metric, unit=unit, digits=digits)

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
        if limit is None:
            chosen = self.default_runs
            limit = chosen.get(dataset, chosen.get("")) if isinstance(chosen, Mapping) else chosen
        return runs(dataset, backbone, self.protocol, limit, self.sizes.get(dataset))

    def paper_runs_of(self, dataset: str) -> int:
        """How many runs the paper makes on a dataset."""
        return self.paper_runs or self.sizes.get(dataset, size_of(self.protocol)).runs

    def units(self, selection: Selection) -> list[Unit]:
        work: list[Unit] = []
        for dataset in selected(selection.datasets, self.datasets):
            for backbone in selected(selection.backbones, self.backbones):
                columns = self.columns_of(backbone, selection)
                wanted = tuple(dict.fromkeys(column.method for column in columns))
                if wanted:
                    cell_runs = self.runs_of(dataset, backbone, selection.runs)
                    work += [self.unit_of(run, wanted) for run in cell_runs]
        return work

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = paper_tables.cells(self.name)
        made = []
        for dataset, backbone in product(
            selected(selection.datasets, self.datasets),
            selected(selection.backbones, self.backbones),
        ):
            runs = self.runs_of(dataset, backbone, selection.runs)
            units = {run.place: self.unit_of(run) for run in runs}
            made += [
                Cell.of(
                    dataset,
                    backbone,
                    column.label,
                    column.method,
                    units,
                    printed=numbers.get((dataset, backbone, column.printed or "")),
                    note=methods.NOTES.get(column.method.name, ""),
                    metric=column.metric,
                    printed_runs=self.paper_runs_of(dataset),
                )
                for column in self.columns_of(backbone, selection)
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

    def columns_of(self, backbone: str, selection: Selection) -> list[Column]:
        """The selected columns that are shown for a backbone."""
        chosen = selected(selection.methods, self.methods)
        return [
            column
            for column in self.columns
            if column.label in chosen and (not column.backbones or backbone in column.backbones)
        ]

    def unit_of(self, run: RunKey, wanted: tuple[Method, ...] = ()) -> CalibrationUnit:
        """The work of some methods on one run."""
        return CalibrationUnit(run, wanted, self.evaluation, self.quantity)
