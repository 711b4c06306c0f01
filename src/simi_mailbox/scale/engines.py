"""Who calls the functions of a pass: this process, or the workers of a Dask cluster.

A pass is a function of (store, block, …), called for every block. It writes arrays (`write`), or
returns something small that is combined by a tree of fixed shape (`total`): the same numbers are
added in the same order whoever calls.
"""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simi_mailbox._extras import require
from simi_mailbox.grouping import Combine
from simi_mailbox.scale.store import Store, Written

Progress = Callable[[str, int, int], None]
"""Called with the name of a pass, blocks done, blocks in all."""

FAN_IN = 8
"""Partial results that are combined at a time."""
PATIENCE = 30.0
"""Seconds to wait for a scheduler."""
FAILURES = 10
"""Times that a block may lose its worker."""


def quiet(_step: str, _done: int, _total: int) -> None:
    """Say nothing."""


class Journal:
    """What of a work folder is finished, and its checksums: kept line by line, read on restart."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.done = path, dict[tuple[str, int], list[Written]]()
        self._past = b""
        if path is None or not path.exists():
            return
        for line in path.read_text("utf-8").splitlines():
            try:
                entry = json.loads(line)
                files = [Written(**file) for file in entry["files"]]
            except (ValueError, TypeError, KeyError):
                continue  # the line that a kill has cut
            if all(file.is_there() for file in files):
                self.done[entry["step"], entry["block"]] = files

    def enter(self, step: str, args: tuple[Any, ...]) -> str:
        """Name of a pass in the journal, which stands for all that it and those before it read."""
        self._past = hashlib.sha256(self._past + pickle.dumps((step, args), 4)).digest()
        return f"{step} {self._past.hex()[:16]}"

    def add(self, step: str, block: int, files: list[Written]) -> None:
        self.done[step, block] = files
        if self.path is not None:
            entry = {"step": step, "block": block, "files": [asdict(file) for file in files]}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


class Tree:
    """Combines what comes in eights, as it comes, and the results in eights again."""

    def __init__(self, combine: Combine) -> None:
        self.combine, self.levels = combine, list[list[Any]]()

    def add(self, part: Any, level: int = 0) -> None:
        if level == len(self.levels):
            self.levels.append([])
        self.levels[level].append(part)
        if len(self.levels[level]) == FAN_IN:
            full, self.levels[level] = self.levels[level], []
            self.add(self.combine(full), level + 1)

    def result(self) -> Any:
        carried: list[Any] = []
        for level in self.levels:
            parts = level + carried
            carried = [self.combine(parts)] if parts else []
        return carried[0]


class Engine:
    """One block after the other in this process; threads work within a block."""

    def __init__(
        self, store: Store, journal: Path | None = None, progress: Progress = quiet
    ) -> None:
        self.store, self.progress = store, progress
        self.journal = Journal(journal)

    def write(
        self, step: str, function: Callable[..., list[Written]], blocks: Sequence[int], *args: Any
    ) -> list[Written]:
        """Everything that ``function(store, block, *args)`` wrote; finished blocks are left."""
        key = self.journal.enter(step, args)
        missing = [block for block in blocks if (key, block) not in self.journal.done]
        done = len(blocks) - len(missing)
        self.progress(step, done, len(blocks))
        for block, files in self._each(function, missing, args):
            self.journal.add(key, block, files)
            done += 1
            self.progress(step, done, len(blocks))
        return [file for block in blocks for file in self.journal.done[key, block]]

    def total(
        self,
        step: str,
        function: Callable[..., Any],
        combine: Combine,
        blocks: Sequence[int],
        *args: Any,
    ) -> Any:
        """``combine`` of what ``function(store, block, *args)`` returned for every block."""
        tree = Tree(combine)
        for count, (_, part) in enumerate(self._each(function, blocks, args)):
            self.progress(step, count, len(blocks))
            tree.add(part)
        self.progress(step, len(blocks), len(blocks))
        return tree.result()

    def _each(
        self, function: Callable[..., Any], blocks: Sequence[int], args: tuple[Any, ...]
    ) -> Iterator[tuple[int, Any]]:
        """Blocks as they are finished, and what the function returned."""
        return ((block, function(self.store, block, *args)) for block in blocks)

    def close(self) -> None:
        """Nothing to let go of."""


class Dask(Engine):
    """Every block is a task of a Dask cluster, whose workers see the same folders."""

    def __init__(
        self, store: Store, journal: Path, scheduler: str, progress: Progress = quiet
    ) -> None:
        super().__init__(store, journal, progress)
        distributed = require("distributed", extra="scale")
        self.scheduler = scheduler
        try:
            self.client = distributed.Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConnectionError(
                f"no Dask scheduler answers at {scheduler} ({error}); start one with "
                "`dask scheduler`, which prints its address"
            ) from error

    @property
    def tasks(self) -> int:
        """Tasks that a worker runs at a time, at most."""
        return max([1, *self._threads()])

    @property
    def slots(self) -> int:
        """Tasks that the cluster runs at a time."""
        return max(1, sum(self._threads()))

    def _threads(self) -> list[int]:
        return [int(count) for count in self.client.nthreads().values()]

    def _each(
        self, function: Callable[..., Any], blocks: Sequence[int], args: tuple[Any, ...]
    ) -> Iterator[tuple[int, Any]]:
        futures = self._submit(function, blocks, args)
        place = {future.key: block for future, block in zip(futures, blocks, strict=True)}
        for future, result in self._finished(futures):
            yield place[future.key], result

    def total(
        self,
        step: str,
        function: Callable[..., Any],
        combine: Combine,
        blocks: Sequence[int],
        *args: Any,
    ) -> Any:
        """As of `Engine`; the tree is made of tasks, and its root comes here."""
        level = self._submit(function, blocks, args)
        self.progress(step, 0, len(blocks))
        while len(level) > 1:
            level = [
                self.client.submit(combine, level[k : k + FAN_IN], pure=False)
                for k in range(0, len(level), FAN_IN)
            ]
        if len(blocks) == 1:
            level = [self.client.submit(combine, level, pure=False)]
        (_, result), *_ = self._finished(level)
        self.progress(step, len(blocks), len(blocks))
        return result

    def _submit(
        self, function: Callable[..., Any], blocks: Sequence[int], args: tuple[Any, ...]
    ) -> list[Any]:
        # Not pure: the same call after a change of the store is another call.
        return [self.client.submit(function, self.store, b, *args, pure=False) for b in blocks]

    def _finished(self, futures: list[Any]) -> Iterable[tuple[Any, Any]]:
        distributed = require("distributed", extra="scale")
        try:
            done = distributed.as_completed(
                futures, loop=self.client.loop, with_results=True, raise_errors=True
            )
            for future, result in done:
                if isinstance(result, BaseException):
                    raise result
                yield future, result
        except (distributed.KilledWorker, MemoryError):
            raise
        except (OSError, TimeoutError, distributed.CancelledError) as error:
            if isinstance(error, OSError) and self.client.status == "running" and error.filename:
                raise
            if self._answers():
                raise
            raise ConnectionError(
                f"the Dask scheduler at {self.scheduler} does not answer any more; start again: "
                "what is finished is kept"
            ) from error

    def _answers(self) -> bool:
        try:
            self.client.sync(self.client.scheduler.identity, callback_timeout=5)
        except Exception:
            return False
        return True

    def close(self) -> None:
        """Leave the cluster, which stays."""
        self.client.close(timeout=5)
