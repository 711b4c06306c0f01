"""What a table is: units of work to be done, and lines made of the rows that are there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simi_mailbox.experiments.compare import Paired, Standing, Summary
from simi_mailbox.experiments.outcome import Unit
from simi_mailbox.experiments.printed import Printed
from simi_mailbox.experiments.store import ResultStore
from simi_mailbox.experiments.words import counted
from simi_mailbox.suggestions import unknown


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

    @property
    def deviation(self) -> float | None:
        """(measured − printed) in units of the printed standard deviation."""
        if self.summary is None or self.printed is None or not self.printed.std:
            return None
        return (self.summary.mean - self.printed.mean) / self.printed.std

    @property
    def within(self) -> bool | None:
        """Whether measured and printed mean are at most one printed std apart: noise."""
        return None if self.deviation is None else abs(self.deviation) <= 1.0


@dataclass(frozen=True)
class TableResult:
    """A table ready to be rendered.

    ``standings`` holds, for tables that ask, where one method stands by (dataset, backbone);
    ``remarks`` are sentences on single cells, too many for a caption.
    """

    name: str
    title: str
    unit: str
    digits: int
    baseline: str | None
    lines: tuple[Line, ...]
    caption: tuple[str, ...] = ()
    standings: Mapping[tuple[str, str], Standing] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

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
        for line in self.lines:
            if (line.dataset, line.backbone, line.method) == (dataset, backbone, method):
                return line
        return None


class Table(ABC):
    """A table of the paper.

    Attributes
    ----------
    name, shows
        Name on the command line, and what it shows in a few words.
    datasets, backbones, methods
        What it can be restricted to.
    """

    name: str
    shows: str
    datasets: tuple[str, ...]
    backbones: tuple[str, ...]

    @property
    @abstractmethod
    def methods(self) -> tuple[str, ...]:
        """Names of the methods shown."""

    def needs(self) -> tuple[str, ...]:
        """Names of the datasets whose data must be there; the others are skipped."""
        return self.datasets

    @abstractmethod
    def units(self, selection: Selection) -> list[Unit]:
        """The work behind the selected part of the table."""

    @abstractmethod
    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        """The selected part of the table, as far as its rows are in the store."""

    def check(self, selection: Selection) -> Selection:
        """The selection with names as the table spells them; unknown names list the choices."""
        return Selection(
            choose("dataset", selection.datasets, self.datasets),
            choose("backbone", selection.backbones, self.backbones),
            choose("method", selection.methods, self.methods),
            selection.runs,
        )


def runs_per_cell(lines: Iterable[Line]) -> str:
    """How many runs the measured cells stand on, in words; "" without any.

    Examples
    --------
    >>> cell = Line("Cora", "gcn", "temperature", Summary(3.8, 1.2, 15, 5))
    >>> runs_per_cell([cell]), runs_per_cell([])
    ('15 runs per cell', '')
    """
    made = [line.summary.runs for line in lines if line.summary]
    if not made:
        return ""
    least, most = min(made), max(made)
    return f"{'' if least == most else f'{least} to '}{counted(most, 'run')} per cell"


def selected(chosen: Sequence[str] | None, everything: Iterable[str]) -> list[str]:
    """What is chosen of everything, in the table's order."""
    return [name for name in everything if chosen is None or name in chosen]


def choose(
    what: str, given: tuple[str, ...] | None, choices: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Names as ``choices`` spell them; an unknown one is an error that lists the choices."""
    if given is None:
        return None
    by_lower = {choice.lower(): choice for choice in choices}
    for name in given:
        if name.lower() not in by_lower:
            raise ValueError(unknown(what, name, choices))
    return tuple(by_lower[name.lower()] for name in given)
