"""A unit that needs no data: rows are numbers, some fail, some take their time."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace

from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.outcome import Failure, Outcome, Unit
from simi_mailbox.experiments.store import row_key


@dataclass(frozen=True)
class FakeUnit(Unit):
    number: int
    parts: tuple[str, ...] = ("a", "b", "c")
    pause: float = 0.0
    broken: str = ""

    @property
    def label(self) -> str:
        return f"unit {self.number}"

    def key(self, part: str) -> str:
        return row_key({"number": self.number, "part": part})

    def keys(self) -> list[str]:
        return [self.key(part) for part in self.parts]

    def pending(self, done: Container[str]) -> FakeUnit | None:
        left = tuple(part for part in self.parts if self.key(part) not in done)
        return replace(self, parts=left) if left else None

    def seconds(self, durations: Durations) -> float:
        return 1.0

    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        import torch

        for part in self.parts:
            if skip(self.key(part)):
                continue
            time.sleep(self.pause)
            if part == self.broken:
                yield Failure(f"{self.label} {part}", "ValueError: on purpose")
            else:
                threads = torch.get_num_threads()
                metrics = {"value": self.number, "threads": threads}
                yield {"key": self.key(part), "metrics": metrics}
