"""A table as its rows fill it: lines, how far it is, and words on its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from simi_mailbox.experiments.compare import Paired, Standing, Summary
from simi_mailbox.experiments.printed import Printed

SLACK = 0.7
"""By so much a mean over runs may miss a promise by chance, in points."""


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
class Progress:
    """Cells of a table: with all their runs, with some of them, on graphs whose data are there.

    ``absent`` names the graphs of the other cells.

    Examples
    --------
    >>> str(Progress(done=12, begun=3, possible=16, absent=("CoraFull",)))
    '12 of 16, 3 begun'
    """

    done: int
    begun: int
    possible: int
    absent: tuple[str, ...] = ()

    @classmethod
    def of(cls, made: Iterable[tuple[str, int, int]], absent: Iterable[str]) -> Progress:
        """From (graph, runs made, runs wanted) of cells; a cell may say more than its graph."""
        lacking = tuple(dict.fromkeys(absent))
        begins = tuple(f"{name} " for name in lacking)
        runs = [(has, asked) for name, has, asked in made if not f"{name} ".startswith(begins)]
        done = sum(has >= asked for has, asked in runs)
        begun = sum(0 < has < asked for has, asked in runs)
        return cls(done, begun, len(runs), lacking)

    def __str__(self) -> str:
        return f"{self.done} of {self.possible}" + (f", {self.begun} begun" if self.begun else "")


@dataclass(frozen=True)
class TableResult:
    """A table ready to be rendered.

    ``standings`` holds, for each method that is judged, where it stands by (dataset, backbone);
    ``remarks`` are sentences on single cells, too many for a caption. ``promised`` is what a mean
    must reach, but for `SLACK`, where the table tells of promises.
    """

    name: str
    title: str
    unit: str
    digits: int
    baseline: str | None
    lines: tuple[Line, ...]
    caption: tuple[str, ...] = ()
    standings: Mapping[str, Mapping[tuple[str, str], Standing]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    best: str = ""
    promised: float | None = None

    def kept(self, method: str) -> tuple[int, int]:
        """In how many settings the mean of a method is what was promised, and of how many."""
        assert self.promised is not None
        means = [x.summary.mean for x in self.lines if x.method == method and x.summary]
        return sum(mean >= self.promised - SLACK for mean in means), len(means)

    def measured(self) -> TableResult:
        """The table without the cells that nothing is known of yet."""
        return replace(self, lines=tuple(line for line in self.lines if line.summary))

    def progress(self, absent: Iterable[str]) -> Progress:
        """How many of its cells have all their runs, without the graphs that are absent."""
        made = [(x.dataset, x.summary.runs if x.summary else 0, x.wanted) for x in self.lines]
        return Progress.of(made, absent)

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


def counts(result: TableResult, labels: tuple[str, ...]) -> tuple[int, int]:
    """How many cells of some methods lie within one printed std, and of how many measured."""
    judged = [line.within for line in result.lines if line.method in labels]
    known = [within for within in judged if within is not None]
    return sum(known), len(known)


def counted(number: int, noun: str) -> str:
    """A number of things, in words.

    Examples
    --------
    >>> counted(1, "run"), counted(2, "run"), counted(0, "run")
    ('1 run', '2 runs', '0 runs')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
