"""A unit of work: some runs that share their preparation, and the rows or failures they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from simi_mailbox_bench.durations import Durations
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

    Attributes
    ----------
    items
        One row is made of each; their names tell them apart in messages.
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
