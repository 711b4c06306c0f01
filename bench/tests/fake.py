"""A unit that needs no data: rows are numbers, some fail, some take their time."""

import time
from dataclasses import dataclass

from simi_mailbox_bench.runner import Unit


@dataclass(frozen=True)
class FakeUnit(Unit):
    number: int
    items: tuple[str, ...] = ("a", "b", "c")
    pause: float = 0.0
    broken: str = ""

    @property
    def label(self):
        return f"unit {self.number}"

    def identity(self, item):
        return {"number": self.number, "part": item}

    def measure(self, item, prepared):
        import torch

        time.sleep(self.pause)
        if item == self.broken:
            raise ValueError("on purpose")
        return {"metrics": {"value": self.number, "threads": torch.get_num_threads()}}
