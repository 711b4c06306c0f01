"""What comes back from a unit of work: rows, or failures in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.store import Row


@dataclass(frozen=True)
class Failure:
    """A run that could not be made."""

    label: str
    error: str
    details: str = ""


Outcome = Row | Failure


class Unit(ABC):
    """Some runs that share their preparation, and are done together in one process.

    Must be picklable. An experiment of another kind (self-training, detection of foreign nodes)
    joins the runner by a class of its own.
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name for progress and errors."""

    @abstractmethod
    def keys(self) -> list[str]:
        """Keys of the rows this unit makes."""

    @abstractmethod
    def pending(self, done: Container[str]) -> Unit | None:
        """The same unit without the rows that are there already; None if nothing is left."""

    @abstractmethod
    def seconds(self, durations: Durations) -> float:
        """Expected time on one core."""

    def ready(self) -> bool:
        """Whether nothing has to be trained first."""
        return True

    @abstractmethod
    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        """Do the runs; ``skip(key)`` tells, at the last moment, that someone else did one."""
