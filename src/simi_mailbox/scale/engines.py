"""Who calls the functions of a pass: this process, or the workers of a Dask cluster.

A pass is a function of (store, block, …), called for every block. It writes arrays (`write`), or
returns something small, combined by a tree of fixed shape (`total`): in one order, whoever calls.
"""

import hashlib
import json
import operator
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from simi_mailbox._extras import require
from simi_mailbox.grouping import Combine
from simi_mailbox.scale.store import Store, Written

Progress = Callable[[str, int, int], None]
"""Called with the name of a pass, blocks done, blocks in all."""
Pass = Callable[..., Any]

FAN_IN = 8  # partial results that are combined at a time
PATIENCE = 30.0  # seconds to wait for a scheduler


def quiet(_step: str, _done: int, _total: int) -> None:
    """No progress is shown."""


class Journal:
    """What of a work folder is finished, and its checksums: kept line by line, read on restart."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.done: dict[tuple[str, int], list[Written]] = {}
        self._past = b""

    def resume(self, path: Path) -> None:
        """Keep it in a file, and believe what that says of files that are as they were written."""
        self.path = path
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
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


class Engine:
    """One block after the other in this process; threads work within a block."""

    def __init__(self, store: Store, progress: Progress = quiet) -> None:
        self.store, self.progress, self.journal = store, progress, Journal()
        self._call: Pass = operator.call
        self.cluster: dict[str, int] = {}
        """Tasks that a worker runs at a time, at most, and all of them, as `Plan.of` takes it."""

    def write(self, step: str, function: Pass, blocks: Sequence[int], *args: Any) -> list[Written]:
        """Everything that ``function(store, block, *args)`` wrote; finished blocks are left."""
        key = self.journal.enter(step, args)
        missing = [block for block in blocks if (key, block) not in self.journal.done]
        done = len(blocks) - len(missing)
        self.progress(step, done, len(blocks))
        calls = ((block, self._call(function, self.store, block, *args)) for block in missing)
        for block, files in self._finished(calls):
            self.journal.add(key, block, files)
            done += 1
            self.progress(step, done, len(blocks))
        return [file for block in blocks for file in self.journal.done[key, block]]

    def total(
        self, step: str, function: Pass, combine: Combine, blocks: Sequence[int], *args: Any
    ) -> Any:
        """``combine`` of what ``function(store, block, *args)`` returned for every block."""
        self.progress(step, 0, count := len(blocks))
        calls = (self._call(function, self.store, block, *args) for block in blocks)
        parts = self._combined(combine, calls)
        while (count := -(-count // FAN_IN)) > 1:
            parts = self._combined(combine, parts)
        ((_, result),) = self._finished([(0, next(parts))])
        self.progress(step, len(blocks), len(blocks))
        return result

    def _combined(self, combine: Combine, parts: Iterator[Any]) -> Iterator[Any]:
        """Parts in eights, as they come: few are held at a time."""
        while some := list(islice(parts, FAN_IN)):
            yield self._call(combine, some)

    def _finished(self, calls: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Numbered calls as they end, and what the functions returned."""
        return iter(calls)

    def close(self) -> None:
        """Nothing to let go of."""


class Dask(Engine):
    """Every block is a task of a Dask cluster, whose workers see the same folders."""

    def __init__(self, store: Store, progress: Progress, scheduler: str) -> None:
        super().__init__(store, progress)
        self.distributed, self.scheduler = require("distributed", extra="scale"), scheduler
        try:
            self.client = self.distributed.Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConnectionError(
                f"no Dask scheduler answers at {scheduler} ({error}); start one with "
                "`dask scheduler`, which prints its address"
            ) from error
        threads = [int(count) for count in self.client.nthreads().values()] or [1]
        self.cluster = {"tasks": max(threads), "slots": sum(threads)}
        # Not pure: the same call after a change of the store is another call.
        self._call = partial(self.client.submit, pure=False)

    def _finished(self, calls: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        number = {future: k for k, future in calls}
        errors = (OSError, TimeoutError, self.distributed.CancelledError)
        try:
            done = self.distributed.as_completed(
                number, loop=self.client.loop, with_results=True, raise_errors=True
            )
            for future, result in done:
                if isinstance(result, BaseException):
                    raise result
                yield number[future], result
        except errors as error:
            if self._answers():  # then it is what a worker has found
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
