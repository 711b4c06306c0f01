"""A unit that needs no data: rows are numbers, some fail, some take their time."""

import time
from dataclasses import dataclass
from typing import Any

from simi_mailbox_bench.runner import Durations, Unit
from simi_mailbox_bench.store import Row


@dataclass(frozen=True)
class FakeUnit(Unit):
    number: int
    items: tuple[str, ...] = ("a", "b", "c")
    pause: float = 0.0
    broken: str = ""

    @property
    def label(self) -> str:
        return f"unit {self.number}"

    def identity(self, item: str) -> dict[str, Any]:
        return {"number": self.number, "part": item}

    def seconds(self, durations: Durations) -> float:
        return 1.0

    def measure(self, item: str, prepared: None) -> Row:
        import torch

        time.sleep(self.pause)
        if item == self.broken:
            raise ValueError("on purpose")
        return {"metrics": {"value": self.number, "threads": torch.get_num_threads()}}
