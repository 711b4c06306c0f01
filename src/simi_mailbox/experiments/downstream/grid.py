"""A table whose cells are means of stored rows, whatever the experiment behind them."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from simi_mailbox.experiments.compare import Place, paired, summarise
from simi_mailbox.experiments.printed import Printed
from simi_mailbox.experiments.store import ResultStore
from simi_mailbox.experiments.tables.base import Line, Selection, Table, TableResult

SEEDS_ARE_UNITS = (
    "All runs of a cell share one split and differ in their seed; the unit of the comparison "
    "against the baseline is here the seed, so its interval says nothing about other splits."
)


@dataclass(frozen=True)
class Cell:
    """One line of a table and the rows it is the mean of.

    Parameters
    ----------
    dataset, backbone, method
        As shown.
    keys
        Key of the row of every run.
    printed
        The paper's number, if it has one.
    note
        Shown beside the method.
    """

    dataset: str
    backbone: str
    method: str
    keys: dict[Place, str]
    printed: Printed | None = None
    note: str = ""


class GridTable(Table):
    """Base of the tables here: a subclass names its cells and its work.

    Attributes
    ----------
    metric
        Which number of a row is shown, in percent.
    baseline
        Method that the others are compared with.
    caption
        Sentences on what is shown.
    notes
        Sentences on the comparison with the baseline and on the remarks, for where these stand.
    """

    metric: str
    baseline: str | None
    caption: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @abstractmethod
    def cells(self, selection: Selection) -> list[Cell]:
        """Lines of the selected part of the table."""

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        cells = self.cells(selection)
        values = {id(cell): self._values(store, cell) for cell in cells}
        bases = {
            (cell.dataset, cell.backbone): values[id(cell)]
            for cell in cells
            if cell.method == self.baseline
        }
        lines = []
        for cell in cells:
            own, base = values[id(cell)], bases.get((cell.dataset, cell.backbone), {})
            against = None if cell.method == self.baseline else paired(own, base)
            lines.append(
                Line(
                    cell.dataset,
                    cell.backbone,
                    cell.method,
                    summarise(own),
                    cell.printed,
                    paired=against,
                    note=cell.note,
                )
            )
        return TableResult(
            self.name,
            self.shows,
            "percent",
            2,
            self.baseline,
            tuple(lines),
            self.caption,
            remarks=(*self.notes, *self.remarks(store, selection)),
        )

    def remarks(self, store: ResultStore, selection: Selection) -> list[str]:
        """Sentences below the table that depend on what was measured."""
        return []

    def _values(self, store: ResultStore, cell: Cell) -> dict[Place, float]:
        found = {}
        for place, key in cell.keys.items():
            if key in store:
                value = store[key]["metrics"].get(self.metric)
                found[place] = math.nan if value is None else 100.0 * float(value)
        return found
