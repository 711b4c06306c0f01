"""Units of work, and who runs them: this process or several."""

from __future__ import annotations

import functools
import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from simi_mailbox._extras import require
from simi_mailbox.calibrators import registry
from simi_mailbox_bench.store import ResultStore, Row, row_key


@dataclass(frozen=True)
class Failure:
    """A run that could not be made."""

    label: str
    error: str


Outcome = Row | Failure


class Unit(ABC):
    """Some items that share their preparation, and are done together in one process.

    A frozen, picklable dataclass that says what an item's row depends on (`identity`), what all
    items need (`prepare`), and what is measured (`measure`).
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

    def ready(self) -> bool:
        """Whether nothing has to be trained first."""
        return True

    def key(self, item: Any) -> str:
        """Key of an item's row."""
        return row_key(self.identity(item))

    def keys(self) -> list[str]:
        """Keys of the rows this unit makes."""
        return [self.key(item) for item in self.items]

    def of(self, items: tuple[Any, ...]) -> Self:
        """The same unit with other items."""
        made: Self = replace(cast(Any, self), items=items)
        return made

    def pending(self, done: Container[str]) -> Self | None:
        """The same unit without the rows that are there already; None if nothing is left."""
        left = tuple(item for item in self.items if self.key(item) not in done)
        return self.of(left) if left else None

    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        """Do the items; ``skip(key)`` tells, at the last moment, that someone else did one."""
        try:
            prepared = self.prepare()
        except Exception as error:
            yield Failure(self.label, f"{type(error).__name__}: {error}")
            return
        for item in self.items:
            try:
                identity = self.identity(item)
                key = row_key(identity)
                if not skip(key):
                    measured = self.measure(item, prepared)
                    yield {"key": key, **identity, **measured, "versions": versions()}
            except Exception as error:
                yield Failure(f"{self.label}: {item}", f"{type(error).__name__}: {error}")


@functools.cache
def versions() -> dict[str, str]:
    """Versions that a result may depend on."""
    import numpy
    import scipy
    import sklearn
    import torch

    import simi_mailbox

    return {
        "simi-mailbox": simi_mailbox.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
    }


GLANCE = 0.5
"""Seconds between two looks of a worker at its parent."""


class WorkerLostError(RuntimeError):
    """A worker process was killed; the rows that were finished are stored."""


@dataclass
class Report:
    """What a call of `run` did."""

    written: int = 0
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class RunPlan:
    """Units with something left to do, rows stored already, and rows without a trained backbone."""

    units: tuple[Unit, ...]
    already: int
    left_out: int = 0

    @property
    def rows(self) -> int:
        """Number of rows still to be made."""
        return sum(len(unit.items) for unit in self.units)


def plan(units: Iterable[Unit], store: ResultStore, *, only_ready: bool = False) -> RunPlan:
    """Leave out what is stored and, with ``only_ready``, what needs a training first."""
    store.refresh()
    left, already, left_out = [], 0, 0
    for unit in units:
        rest = unit.pending(store)
        already += len(unit.items) - (len(rest.items) if rest else 0)
        if rest is None:
            continue
        if rest.ready() or not only_ready:
            left.append(rest)
        else:
            left_out += len(rest.items)
    return RunPlan(tuple(left), already, left_out)


def run(
    planned: RunPlan, store: ResultStore, *, jobs: int = 1, advance: Callable[[Unit], object] = bool
) -> Report:
    """Do the planned work; every row is appended to the store as soon as it is there."""
    report = Report()
    if planned.units:
        store.prepare()  # here and not in a worker, so that the caller's store tells of it
    # Closed at once when anything is raised here, because then workers must not go on.
    with closing(_results(planned.units, str(store.path), jobs)) as results:
        for number, written, failures in results:
            report.written += written
            report.failures += failures
            advance(planned.units[number])
    store.refresh()
    return report


def guests_of(unit: Unit) -> tuple[str, ...]:
    """Methods of other packages that a unit measures, as ``module:Class``, for its process."""
    wanted = {getattr(item, "name", None) for item in unit.items}
    if wanted <= {None, *registry.METHODS}:
        return ()
    outside = registry.from_outside().items()
    return tuple(f"{cls.__module__}:{cls.__qualname__}" for name, cls in outside if name in wanted)


Done = tuple[int, int, list[Failure]]
"""Number of a unit, how many rows it wrote, and what failed."""


def work(
    number: int, unit: Unit, path: str, guests: Iterable[str] = (), parent: int | None = None
) -> Done:
    """Do one unit in this process, which ends when its ``parent`` does; rows are stored singly."""
    from simi_mailbox.softmax import threads_for

    if parent is not None:
        _end_with(parent)
    try:
        for target in guests:
            registry.plug_in(target)
    except ValueError as error:
        return number, 0, [Failure(unit.label, str(error))]
    store = _store(path)

    def skip(key: str) -> bool:
        store.refresh()
        return key in store

    written, failures = 0, []
    with threads_for(0):  # one thread
        for outcome in unit.execute(skip):
            if isinstance(outcome, Failure):
                failures.append(outcome)
            else:
                written += store.append(outcome)
    return number, written, failures


@functools.lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """Watch from a thread whether the parent is still there: one that was killed cannot tell.

    Linux would send a signal by itself, but when the parent's *thread* ends that started us.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(GLANCE)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _results(units: Sequence[Unit], path: str, jobs: int) -> Generator[Done, None, None]:
    if jobs == 1 or not units:
        for number, unit in enumerate(units):
            yield work(number, unit, path)
        return
    joblib = require("joblib", extra="bench")
    tasks = (
        joblib.delayed(work)(number, unit, path, guests_of(unit), os.getpid())
        for number, unit in enumerate(units)
    )
    with joblib.parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        made = joblib.Parallel(return_as="generator_unordered", batch_size=1)(tasks)
        try:
            for result in made:  # noqa: UP028 - `yield from` would close it where it warns
                yield result
        except BrokenExecutor as error:
            message = "a worker process was killed, by the system or by hand"
            raise WorkerLostError(message) from error
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of work left undone: that is what a stop means
                made.close()


_store = functools.lru_cache(maxsize=1)(ResultStore)
"""The store of this process; kept, so that only what is new is read again."""
