"""The command `bench endless`: a table whose rows take their time. Run as a module."""

from __future__ import annotations

import sys

from simi_mailbox.experiments.outcome import Unit
from simi_mailbox.experiments.store import ResultStore
from simi_mailbox.experiments.tables import Selection, Table, TableResult, register

from .fake import FakeUnit


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

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        raise AssertionError("nothing gets this far")


if __name__ == "__main__":
    from simi_mailbox.cli.bench import bench

    register(EndlessTable())
    bench(["endless", *sys.argv[1:]])
