"""Units of work, and who runs them: this process, several, or a Dask cluster."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
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

    A frozen, picklable dataclass. An experiment of another kind (self-training, detection of
    OOD nodes) joins the runner by a subclass that says what an item's row depends on
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


Advance = Callable[[str, float], None]
"""Told after every unit: its label and its expected seconds."""

PATIENCE = 5.0
"""Seconds that a Dask scheduler has to answer."""

GLANCE = 0.5
"""Seconds between two looks of a worker at its parent."""


class NoSchedulerError(ConnectionError):
    """No Dask scheduler answers at the address given."""


class WorkerLostError(RuntimeError):
    """A worker process was killed; the rows that were finished are stored."""


@dataclass
class Report:
    """What a call of `run` did."""

    written: int = 0
    already: int = 0
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class RunPlan:
    """What would run: units with something left to do, and their expected seconds on one core.

    ``already`` counts the rows that are stored, ``left_out`` those whose backbone is not trained.
    """

    units: tuple[Unit, ...]
    seconds: tuple[float, ...]
    already: int
    left_out: int = 0

    @property
    def rows(self) -> int:
        """Number of rows still to be made."""
        return sum(len(unit.keys()) for unit in self.units)

    @property
    def total_seconds(self) -> float:
        """Expected time on one core."""
        return sum(self.seconds)


def plan(units: Iterable[Unit], store: ResultStore, *, only_ready: bool = False) -> RunPlan:
    """Leave out what is in the store, and say how long the rest should take.

    With ``only_ready``, units whose backbone would have to be trained first are left out too.
    """
    store.refresh()
    durations = Durations(store.rows())
    left, already, left_out = [], 0, 0
    for unit in units:
        rest = unit.pending(store)
        already += len(unit.keys()) - (len(rest.keys()) if rest else 0)
        if rest is None:
            continue
        if rest.ready() or not only_ready:
            left.append(rest)
        else:
            left_out += len(rest.keys())
    seconds = tuple(unit.seconds(durations) for unit in left)
    return RunPlan(tuple(left), seconds, already, left_out)


def run(
    planned: RunPlan,
    store: ResultStore,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    advance: Advance | None = None,
) -> Report:
    """Do the planned work and append every row to the store as soon as it is there."""
    report = Report(already=planned.already)
    if planned.units:
        store.prepare()  # here and not in a worker, so that the caller's store tells of it
    expected = {id(unit): cost for unit, cost in zip(planned.units, planned.seconds, strict=True)}
    # Workers on other machines may not see the store's file, so their rows come back to be written.
    path = None if scheduler is not None else str(store.path)
    # Closed at once when anything is raised here, because then workers must not go on.
    with closing(_results(planned.units, path, jobs, scheduler)) as results:
        for number, outcomes in results:
            for outcome in outcomes:
                if isinstance(outcome, Failure):
                    report.failures.append(outcome)
                elif path is not None or store.append(outcome):
                    report.written += 1
            if advance is not None:
                unit = planned.units[number]
                advance(unit.label, expected[id(unit)])
    store.refresh()
    return report


Guests = tuple[tuple[str, int], ...]
"""Methods of other packages: ``module:Class``, and the version that is to be measured."""


def guests_of(unit: Unit) -> Guests:
    """Methods of other packages that a unit measures, for the process that does it."""
    wanted = {getattr(item, "name", None) for item in unit.items}
    if wanted <= {None, *registry.METHODS}:
        return ()
    outside = registry.from_outside()
    return tuple(
        (f"{cls.__module__}:{cls.__qualname__}", cls.version)
        for name, cls in outside.items()
        if name in wanted
    )


def work(
    number: int, unit: Unit, path: str | None, guests: Guests = (), parent: int | None = None
) -> tuple[int, list[Outcome]]:
    """Do one unit in this process; with ``path`` rows are appended there one by one.

    With ``parent``, this process ends when that one does, whatever ended it.
    """
    from simi_mailbox.softmax import threads_for

    if parent is not None:
        _end_with(parent)
    try:
        _welcome(guests)
    except ValueError as error:
        return number, [Failure(unit.label, str(error))]
    store = _store(path) if path is not None else None

    def skip(key: str) -> bool:
        if store is None:
            return False
        store.refresh()
        return key in store

    done: list[Outcome] = []
    with threads_for(0):  # one thread
        for outcome in unit.execute(skip):
            if store is None or isinstance(outcome, Failure):
                done.append(outcome)
            elif store.append(outcome):
                done.append({"key": outcome["key"]})
    return number, done


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


def _welcome(guests: Guests) -> None:
    """Make methods of other packages known in this process, in the version that was planned."""
    for target, version in guests:
        found = registry.plug_in(target).version
        if found != version:
            raise ValueError(
                f"{target} is of version {found} in the worker and of version {version} where the "
                "work was planned: start the workers anew"
            )


def _results(
    units: Sequence[Unit], path: str | None, jobs: int, scheduler: str | None
) -> Generator[tuple[int, list[Outcome]], None, None]:
    if not units:
        return
    if scheduler is None and jobs == 1:
        for number, unit in enumerate(units):
            yield work(number, unit, path)
        return
    joblib = require("joblib", extra="bench")
    parent = os.getpid() if scheduler is None else None
    tasks = (
        joblib.delayed(work)(number, unit, path, guests_of(unit), parent)
        for number, unit in enumerate(units)
    )
    with _backend(joblib, jobs, scheduler):
        made = joblib.Parallel(return_as="generator_unordered", batch_size=1)(tasks)
        try:
            for result in made:  # noqa: UP028 - `yield from` would close it where it warns
                yield result
        except BrokenExecutor as error:
            raise WorkerLostError(
                "a worker process was killed, by the system or by hand"
            ) from error
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of work left undone: that is what a stop means
                made.close()


@contextmanager
def _backend(joblib: Any, jobs: int, scheduler: str | None) -> Iterator[None]:
    if scheduler is None:
        with joblib.parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            yield
        return
    distributed = require("distributed", extra="bench")
    check_scheduler(scheduler)
    with distributed.Client(scheduler, timeout=PATIENCE), joblib.parallel_config("dask"):
        yield


def check_scheduler(address: str) -> None:
    """Raise `NoSchedulerError` unless a Dask scheduler answers at an address, such as tcp://host:8786."""
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook's own thread runs a loop already
            thread.submit(asyncio.run, _greet(address)).result()
    except (OSError, ValueError) as error:
        raise NoSchedulerError(
            f"no Dask scheduler answers at {address!r} ({error}); start one with "
            "`dask scheduler`, which prints its address"
        ) from None


async def _greet(scheduler: str) -> None:
    """Connect and part again; a client that cannot connect would make noise for much longer."""
    distributed = require("distributed", extra="bench")
    comm = require("distributed.comm", extra="bench")
    settings = distributed.Security().get_connection_args("client")
    connection = await comm.connect(scheduler, timeout=PATIENCE, **settings)
    await connection.close()


@functools.lru_cache(maxsize=1)
def _store(path: str) -> ResultStore:
    """The store of this process; kept, so that only what is new is read again."""
    return ResultStore(Path(path))
