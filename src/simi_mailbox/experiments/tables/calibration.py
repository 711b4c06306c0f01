"""Tables that compare calibrators on the logits of trained backbones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from simi_mailbox.experiments import methods, printed
from simi_mailbox.experiments.calibration import CalibrationUnit
from simi_mailbox.experiments.compare import (
    Place,
    Standing,
    Summary,
    paired,
    pooled,
    standing,
    summarise,
)
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.outcome import Unit
from simi_mailbox.experiments.printed import Printed
from simi_mailbox.experiments.protocol import Run, Size, runs, size_of
from simi_mailbox.experiments.store import ResultStore, Row
from simi_mailbox.experiments.tables.base import (
    Line,
    Selection,
    Table,
    TableResult,
    runs_per_cell,
    selected,
)

FEWEST_RUNS = 15
"""Runs below which no method is called best, tied or behind: five splits of three folds."""


@dataclass(frozen=True)
class Column:
    """One method of a table.

    Parameters
    ----------
    label
        How the line is called; also its name for ``--methods``.
    method
        What is run.
    printed
        Name of the paper's column to compare with; None if the paper has none.
    metric
        Metric of this column, where it is not the table's.
    backbones
        Backbones on which the method is shown; None for all.

    Examples
    --------
    >>> Column.of("temperature", "TS").printed
    'TS'
    """

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
    name, shows, datasets, backbones
        See `Table`.
    columns
        The methods.
    protocol
        Which splits, and how many runs.
    metric, unit, digits
        Which metric of a row; "percent" multiplies by 100.
    default_runs
        Runs per cell when none are asked for: a number, or one per dataset with "" for the rest;
        None for all runs of the protocol.
    sizes
        Datasets whose number of splits is not the protocol's usual one.
    evaluation, measure
        See `CalibrationUnit`.
    baseline
        Label of the column that the others are compared with.
    judged
        Label of the column that is held against all others, setting by setting; None for none.
    caption
        Sentences below the table.

    Examples
    --------
    >>> columns = (Column.of("uncalibrated"), Column.of("temperature"))
    >>> table = CalibrationTable("mine", "mine", ("Digits",), ("gcn",), columns, "sparse")
    >>> [str(unit.run) for unit in table.units(Selection(runs=2))]
    ['Digits/gcn sparse 0.0.0', 'Digits/gcn sparse 1.0.0']
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
    evaluation: str = "test"
    measure: str = "metrics"
    baseline: str | None = "temperature"
    judged: str | None = None
    caption: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(column.label for column in self.columns)

    @property
    def scale(self) -> float:
        """Factor from a row's metric to the table's unit."""
        return {"percent": 100.0, "x100": 100.0}.get(self.unit, 1.0)

    def runs_of(self, dataset: str, backbone: str, limit: int | None) -> list[Run]:
        """Runs of one cell."""
        if limit is None:
            chosen = self.default_runs
            limit = chosen.get(dataset, chosen.get("")) if isinstance(chosen, Mapping) else chosen
        return runs(dataset, backbone, self.protocol, limit, self.sizes.get(dataset))

    def units(self, selection: Selection) -> list[Unit]:
        work: list[Unit] = []
        for dataset in selected(selection.datasets, self.datasets):
            for backbone in selected(selection.backbones, self.backbones):
                wanted = tuple(dict.fromkeys(c.method for c in self._columns(backbone, selection)))
                if wanted:
                    cell_runs = self.runs_of(dataset, backbone, selection.runs)
                    work += [self._unit(run, wanted) for run in cell_runs]
        return work

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        lines: list[Line] = []
        standings: dict[tuple[str, str], Standing] = {}
        cells = printed.cells(self.name)
        for dataset in selected(selection.datasets, self.datasets):
            for backbone in selected(selection.backbones, self.backbones):
                cell_runs = self.runs_of(dataset, backbone, selection.runs)
                columns = self._columns(backbone, selection)
                rows = {c.label: self._rows(store, cell_runs, c.method) for c in columns}
                base = self._values(rows, self._baseline(columns))
                for column in columns:
                    shown = cells.get((dataset, backbone, column.printed or ""))
                    lines.append(self._line(cell_runs[0], column, rows, base, shown))
                found = self._standing(columns, rows, len(cell_runs))
                if found is not None:
                    standings[dataset, backbone] = found
        caption = (*self.caption, *self._coverage(lines))
        return TableResult(
            self.name,
            self.shows,
            self.unit,
            self.digits,
            self.baseline,
            tuple(lines),
            caption,
            standings,
        )

    def _coverage(self, lines: list[Line]) -> list[str]:
        """How many runs the shown numbers stand on, in words, beside those of the paper if any."""
        made = runs_per_cell(lines)
        whole = {self.sizes.get(name, size_of(self.protocol)).runs for name in self.datasets}
        paper = f"; the paper makes {max(whole)}" if printed.cells(self.name) else ""
        sentences = [f"{made}{paper}."] if made else []
        measured = {line.dataset for line in lines if line.summary}
        absent = [name for name in dict.fromkeys(x.dataset for x in lines) if name not in measured]
        if absent:
            sentences.append(f"Not measured: {', '.join(absent)}.")
        return sentences

    # --- inside --------------------------------------------------------------------------------

    def _columns(self, backbone: str, selection: Selection) -> list[Column]:
        chosen, known = selected(selection.methods, self.methods), methods.names()
        return [
            column
            for column in self.columns
            if column.label in chosen
            and column.method.name in known
            and (not column.backbones or backbone in column.backbones)
        ]

    def _baseline(self, columns: list[Column]) -> Column | None:
        return next((column for column in columns if column.label == self.baseline), None)

    def _unit(self, run: Run, wanted: tuple[Method, ...]) -> CalibrationUnit:
        return CalibrationUnit(run, wanted, self.evaluation, self.measure)

    def _rows(self, store: ResultStore, cell: list[Run], method: Method) -> dict[Place, Row]:
        found = {}
        for run in cell:
            key = self._unit(run, (method,)).key(method)
            if key in store:
                found[run.split, run.fold, run.init] = store[key]
        return found

    def _values(
        self, rows: Mapping[str, dict[Place, Row]], column: Column | None
    ) -> dict[Place, float]:
        if column is None:
            return {}
        metric = column.metric or self.metric
        return {
            place: self.scale * _number(row["metrics"].get(metric))
            for place, row in rows[column.label].items()
        }

    def _standing(
        self, columns: list[Column], rows: Mapping[str, dict[Place, Row]], runs: int
    ) -> Standing | None:
        """Of the judged column among those shown; a method must have all runs to be a rival."""
        if self.judged is None or self.judged not in rows:
            return None
        values = {column.label: self._values(rows, column) for column in columns}
        return standing(self.judged, values, least=max(runs, FEWEST_RUNS))

    def _line(
        self,
        run: Run,
        column: Column,
        rows: Mapping[str, dict[Place, Row]],
        base: dict[Place, float],
        shown: Printed | None,
    ) -> Line:
        values = self._values(rows, column)
        line = Line(run.dataset, run.backbone, column.label, summarise(values), shown)
        line = replace(line, note=methods.NOTES.get(column.method.name, ""))
        if (column.metric or self.metric) == "ece":
            floors = (
                _number(r.get("noise_floor", {}).get("mean")) for r in rows[column.label].values()
            )
            floor = pooled(floors) * self.scale
            line = replace(line, floor=None if math.isnan(floor) else floor)
        if base and column.label != self.baseline:
            line = replace(line, paired=paired(values, base))
        return line


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def counts(result: TableResult, labels: tuple[str, ...]) -> tuple[int, int]:
    """How many cells of some methods lie within one printed std, and of how many measured."""
    judged = [line.within for line in result.lines if line.method in labels]
    known = [within for within in judged if within is not None]
    return sum(known), len(known)


__all__ = ["CalibrationTable", "Column", "Summary", "counts"]
