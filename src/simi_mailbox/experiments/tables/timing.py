"""The paper's time table, on synthetic graphs of exactly the published sizes."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

from simi_mailbox.experiments import printed
from simi_mailbox.experiments.calibration import versions
from simi_mailbox.experiments.compare import summarise
from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.large import SIZES, LargeProblem, make_large
from simi_mailbox.experiments.methods import Method, describe, find, names
from simi_mailbox.experiments.outcome import Failure, Outcome, Unit
from simi_mailbox.experiments.store import ResultStore, Row, row_key
from simi_mailbox.experiments.tables.base import Line, Selection, Table, TableResult, selected
from simi_mailbox.experiments.tables.registry import register

# Methods that stop after 100 epochs without progress cannot stop before epoch 101. Their first
# epochs are timed, and the least time of a whole fit follows from them.
FEWEST_EPOCHS = 101
TIMED_EPOCHS = 4

_METHODS: dict[str, tuple[Method, str | None]] = {
    "temperature": (Method.of("temperature"), None),
    "simi-mailbox": (Method.of("simi-mailbox"), "Simi-Mailbox"),
    "simi-mailbox-paper": (Method.of("simi-mailbox-paper"), "Simi-Mailbox"),
    "simi-mailbox-paper adam": (Method.of("simi-mailbox-paper", solver="adam"), "Simi-Mailbox"),
    "cagcn": (Method.of("cagcn"), "CaGCN"),
    "gats": (Method.of("gats"), "GATS"),
}
_BY_EPOCH = ("cagcn", "gats")
_EXPECTED = {"temperature": 1.0, "simi-mailbox": 3.0, "simi-mailbox-paper": 4.0, "cagcn": 60.0}


@dataclass(frozen=True)
class TimingUnit(Unit):
    """Fit one method on a synthetic graph and take the time.

    Processor time is taken: with one thread it is the wall-clock time of an idle machine, and other
    work on the machine does not disturb it.
    """

    size: str
    method: str
    repeat: int = 0

    @property
    def label(self) -> str:
        return f"{self.size} size: {self.method}, repeat {self.repeat}"

    def identity(self) -> dict[str, Any]:
        """Everything that decides about the row."""
        method = _METHODS[self.method][0]
        calibrator = find(method.name)(**dict(method.overrides))
        return {
            "task": "timing",
            "dataset": f"{self.size} size",
            "method": method.name,
            "revision": calibrator.version,
            "settings": {k: describe(v) for k, v in calibrator.get_params().items()},
            "split": 0,
            "fold": 0,
            "init": self.repeat,
        }

    def keys(self) -> list[str]:
        return [row_key(self.identity())]

    def pending(self, done: Container[str]) -> TimingUnit | None:
        return None if self.keys()[0] in done else self

    def seconds(self, durations: Durations) -> float:
        scale = SIZES[self.size].entries / SIZES["Arxiv"].entries
        return 5.0 + _EXPECTED.get(self.method, 180.0) * max(1.0, scale / 2)

    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        identity = self.identity()
        if skip(row_key(identity)):
            return
        try:
            yield {"key": row_key(identity), **identity, **self._measure(problem(self.size))}
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            yield Failure(self.label, words, traceback.format_exc())

    def _measure(self, given: LargeProblem) -> Row:
        method = _METHODS[self.method][0]
        if method.name in _BY_EPOCH:
            few, more = (self._fit(method, given, epochs) for epochs in (1, 1 + TIMED_EPOCHS))
            epoch = (more - few) / TIMED_EPOCHS
            if epoch <= 0:  # too small a graph to tell: count the preparation as epochs
                epoch = more / (1 + TIMED_EPOCHS)
            seconds = few + (FEWEST_EPOCHS - 1) * epoch
            return self._row(seconds, {"epoch": epoch, "epochs": float(FEWEST_EPOCHS)})
        return self._row(self._fit(method, given, None), {})

    def _fit(self, method: Method, given: LargeProblem, epochs: int | None) -> float:
        overrides = dict(method.overrides) | ({} if epochs is None else {"epochs": epochs})
        calibrator = find(method.name)(**overrides)
        inputs = {"graph": given.graph} if "graph" in calibrator.needs else {}
        stops = epochs is not None or overrides.get("solver") == "adam"
        holdout = given.train if stops else None
        started = time.process_time()
        calibrator.fit(given.logits, given.y, mask=given.val, holdout_mask=holdout, **inputs)
        return time.process_time() - started

    def _row(self, seconds: float, extra: dict[str, float]) -> Row:
        metrics = {"seconds": round(seconds, 4), **{k: round(v, 4) for k, v in extra.items()}}
        return {"metrics": metrics, "seconds": {"fit": round(seconds, 4)}, "versions": versions()}


@dataclass(frozen=True)
class TimingTable(Table):
    """Fitting time of calibrators, in seconds on one core of this machine."""

    name: str = "t2b"
    shows: str = "large graphs: fitting time, on synthetic graphs of exactly their size"
    datasets: tuple[str, ...] = tuple(SIZES)
    backbones: tuple[str, ...] = ("synthetic",)
    default_runs: int = 3

    @property
    def methods(self) -> tuple[str, ...]:
        known = names()
        return tuple(label for label, (method, _) in _METHODS.items() if method.name in known)

    def needs(self) -> tuple[str, ...]:
        return ()

    def units(self, selection: Selection) -> list[Unit]:
        return [
            TimingUnit(size, method, repeat)
            for size in selected(selection.datasets, self.datasets)
            for repeat in range(selection.runs or self.default_runs)
            for method in selected(selection.methods, self.methods)
        ]

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        cells = printed.cells(self.name)
        rows: dict[tuple[str, str], dict[tuple[int, int, int], float]] = {}
        for unit in self.units(selection):
            assert isinstance(unit, TimingUnit)
            values = rows.setdefault((unit.size, unit.method), {})
            key = unit.keys()[0]
            if key in store:
                values[0, 0, unit.repeat] = float(store[key]["metrics"]["seconds"])
        lines = []
        for (size, method), values in rows.items():
            line = Line(f"{size} size", "synthetic", method, summarise(values))
            shown = cells.get((size, "gcn", _METHODS[method][1] or ""))
            note = "least possible" if method in _BY_EPOCH else ""
            lines.append(replace(line, printed=shown and replace(shown, std=None), note=note))
        return TableResult(self.name, self.shows, "seconds", 2, None, tuple(lines), _CAPTION)


_CAPTION = (
    "Measured: processor time with one torch thread, random logits on a random graph with "
    "communities. Printed: the paper's GCN rows, on a GPU (RTX 2080 Ti or 3090 Ti); not the same "
    "machine, so only the order can be compared.",
    f"CaGCN and GATS: the time of one epoch is measured over {TIMED_EPOCHS} epochs; no fit can "
    f"stop before epoch {FEWEST_EPOCHS} (patience 100), and the time of that many epochs is shown.",
)


@functools.lru_cache(maxsize=1)
def problem(size: str) -> LargeProblem:
    """The synthetic graph of one size; the last one stays in memory."""
    return make_large(SIZES[size])


register(TimingTable())
