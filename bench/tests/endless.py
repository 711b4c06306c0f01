"""The command `bench endless`: a table whose rows take their time. Run as a script."""

import sys

from fake import FakeUnit
from simi_mailbox_bench import tables
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.tables import Cell, Selection, Table


class EndlessTable(Table):
    name = "endless"
    shows = "rows that take their time"
    datasets = ()
    backbones = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return ()

    def units(self, selection: Selection) -> list[Unit]:
        parts = tuple(str(number) for number in range(300))
        return [FakeUnit(number, parts, pause=0.1) for number in range(4)]

    def cells(self, selection: Selection) -> list[Cell]:
        raise AssertionError("nothing gets this far")


if __name__ == "__main__":
    from simi_mailbox_bench.commands.bench import bench

    tables.get = lambda name: EndlessTable()
    bench(["endless", *sys.argv[1:]])
