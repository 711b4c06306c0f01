"""The command `bench endless`: a table whose rows take their time. Run as a script."""

import sys
from dataclasses import dataclass

from fake import FakeUnit
from simi_mailbox_bench import tables
from simi_mailbox_bench.tables import Table


@dataclass(frozen=True, kw_only=True)
class EndlessTable(Table):
    name: str = "endless"
    shows: str = "rows that take their time"

    @property
    def methods(self):
        return ()

    def units(self, selection):
        parts = tuple(str(number) for number in range(300))
        return [FakeUnit(number, parts, pause=0.1) for number in range(4)]

    def cells(self, selection):
        raise AssertionError("nothing gets this far")


if __name__ == "__main__":
    from simi_mailbox_bench.commands.bench import bench

    tables.get = lambda name: EndlessTable()
    bench(["endless", *sys.argv[1:]])
