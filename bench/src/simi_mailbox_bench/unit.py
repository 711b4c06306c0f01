"""A unit of work: runs that share their preparation, their rows, and how long they take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Self, cast

from simi_mailbox_bench.store import Row, row_key


@dataclass(frozen=True)
class Failure:
    """A run that could not be made."""

    label: str
    error: str


Outcome = Row | Failure


class Unit(ABC):
    """Some items that share their preparation, and are done together in one process.

    A frozen, picklable dataclass. An experiment of another kind (self-training, detection of
    foreign nodes) joins the runner by a subclass that says what an item's row depends on
    (`identity`), what all items need (`prepare`), and what is measured (`measure`).
    """

    items: tuple[Any, ...]

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name for progress and errors."""

    @abstractmethod
    def identity(self, item: Any) -> dict[str, Any]:
        """Everything that decides about an item's row, in plain words and numbers."""

    def prepare(self) -> Any:
        """What all items need; made once."""
        return None

    @abstractmethod
    def measure(self, item: Any, prepared: Any) -> Row:
        """What an item's row holds besides its identity."""

    @abstractmethod
    def seconds(self, durations: Durations) -> float:
        """Expected time on one core."""

    def ready(self) -> bool:
        """Whether nothing has to be trained first."""
        return True

    def key(self, item: Any) -> str:
        """Key of an item's row."""
        return row_key(self.identity(item))

    def keys(self) -> list[str]:
        """Keys of the rows this unit makes."""
        return [self.key(item) for item in self.items]

    def pending(self, done: Container[str]) -> Self | None:
        """The same unit without the rows that are there already; None if nothing is left."""
        left = tuple(item for item in self.items if self.key(item) not in done)
        return replace(cast(Any, self), items=left) if left else None

    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        """Do the items; ``skip(key)`` tells, at the last moment, that someone else did one."""
        try:
            prepared = self.prepare()
        except Exception as error:
            yield _failure(self.label, error)
            return
        for item in self.items:
            try:
                identity = self.identity(item)
                key = row_key(identity)
                if not skip(key):
                    yield {"key": key, **identity, **self.measure(item, prepared)}
            except Exception as error:
                yield _failure(f"{self.label}: {item}", error)


def _failure(label: str, error: Exception) -> Failure:
    return Failure(label, f"{type(error).__name__}: {error}")


# Seconds on one core for a graph of Cora's size and for each further million of (nodes + edge
# entries), measured while this package was written; used only before anything is recorded.
_FALLBACK = {
    "uncalibrated": (0.02, 0.2),
    "temperature": (0.03, 0.3),
    "vector": (1.0, 3.0),
    "ensemble-temperature": (0.1, 1.0),
    "cagcn": (2.0, 60.0),
    "gats": (4.0, 120.0),
    "gets": (10.0, 200.0),
    "dcgc": (10.0, 200.0),
    "simcalib": (10.0, 120.0),
}
_OTHER = (0.2, 2.0)
_BACKBONE = {"gcn": (2.0, 200.0), "gat": (8.0, 600.0)}
_OTHER_BACKBONE = (3.0, 250.0)


class Durations:
    """Expected seconds of calibrator fits and of backbone training."""

    def __init__(self, rows: Iterable[Row]) -> None:
        fits: dict[tuple[str, ...], list[float]] = defaultdict(list)
        trainings: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in rows:
            seconds = row.get("seconds", {})
            where = (row.get("dataset", ""), row.get("backbone", ""))
            if "fit" in seconds:
                total = seconds["fit"] + seconds.get("predict", 0.0) + seconds.get("metrics", 0.0)
                fits[(row.get("method", ""), *where)].append(total)
            if seconds.get("backbone"):
                trainings[where].append(seconds["backbone"])
        self._fits = {key: median(values) for key, values in fits.items()}
        self._trainings = {key: median(values) for key, values in trainings.items()}

    def fit(self, method: str, dataset: str, backbone: str, size: int) -> float:
        """Expected seconds to fit, apply and measure a method once.

        ``size`` is the graph's number of nodes and edge entries.
        """
        known = self._fits.get((method, dataset, backbone))
        if known is None:
            known = self._fits.get((method, dataset, "gcn"))
        base, slope = _FALLBACK.get(method, _OTHER)
        return known if known is not None else base + slope * size / 1e6

    def training(self, dataset: str, backbone: str, size: int) -> float:
        """Expected seconds to train a backbone once."""
        known = self._trainings.get((dataset, backbone))
        base, slope = _BACKBONE.get(backbone, _OTHER_BACKBONE)
        return known if known is not None else base + slope * size / 1e6


def in_words(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
