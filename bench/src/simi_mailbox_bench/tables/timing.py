"""The paper's time table, on synthetic graphs of exactly the published sizes."""

import functools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Ints
from simi_mailbox.graph import Graph
from simi_mailbox_bench import paper_tables
from simi_mailbox_bench.backbones.cached_runs import digest
from simi_mailbox_bench.methods import Method, describe, find
from simi_mailbox_bench.paper_tables import Printed
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.store import Row
from simi_mailbox_bench.tables.base import Cell, Selection, Table, selected

_METHODS: dict[str, tuple[Method, str | None]] = {
    "temperature": (Method.of("temperature"), None),
    "simi-mailbox": (Method.of("simi-mailbox"), "Simi-Mailbox"),
    "simi-mailbox-paper": (Method.of("simi-mailbox-paper"), "Simi-Mailbox"),
    "simi-mailbox-paper exact": (
        Method.of("simi-mailbox-paper", solver="exact", selection="none"),
        "Simi-Mailbox",
    ),
    "cagcn": (Method.of("cagcn"), "CaGCN"),
    "gats": (Method.of("gats"), "GATS"),
}
_BY_EPOCH = ("cagcn", "gats")


@dataclass(frozen=True)
class LargeSize:
    """Counts of a graph; ``entries`` counts both directions of every edge."""

    nodes: int
    entries: int
    classes: int
    train: int
    val: int


# Nodes, entries and classes as published; splits of OGB and of GraphSAINT.
SIZES = {
    "Arxiv": LargeSize(169_343, 2_315_598, 40, 90_941, 29_799),
    "Reddit2": LargeSize(232_965, 23_213_838, 41, 153_932, 23_699),
}
_TINY = LargeSize(3_000, 20_000, 4, 500, 2_000)


@dataclass(frozen=True, eq=False)
class LargeProblem:
    """Logits and labels on a random graph with communities."""

    graph: Graph
    logits: npt.NDArray[np.float32]
    y: Ints
    train: Ints
    val: Ints


@functools.lru_cache(maxsize=2)
def make_large(size: LargeSize, *, seed: int = 0, homophily: float = 0.7) -> LargeProblem:
    """Draw a graph of exactly this size, with logits of about 70 % accuracy."""
    rng = np.random.default_rng(seed)
    y = rng.integers(size.classes, size=size.nodes)
    graph = Graph.from_edges(_edges(size, y, homophily, rng), num_nodes=size.nodes)
    logits = rng.standard_normal((size.nodes, size.classes), dtype=np.float32)
    logits[np.arange(size.nodes), y] += rng.gamma(3.0, 1.2, size.nodes).astype(np.float32)
    order = rng.permutation(size.nodes)
    train = np.sort(order[: size.train])
    val = np.sort(order[size.train : size.train + size.val])
    return LargeProblem(graph, logits, y, train, val)


def _edges(size: LargeSize, y: Ints, homophily: float, rng: np.random.Generator) -> Ints:
    wanted = size.entries // 2
    by_class = np.argsort(y, kind="stable")
    start = np.searchsorted(y[by_class], np.arange(size.classes + 1))
    codes = np.empty(0, dtype=np.int64)
    while codes.size < wanted:
        count = int((wanted - codes.size) * 1.1) + 100
        a = rng.integers(size.nodes, size=count)
        low, high = start[y[a]], start[y[a] + 1]
        mates = by_class[low + (rng.random(count) * (high - low)).astype(np.int64)]
        b = np.where(rng.random(count) < homophily, mates, rng.integers(size.nodes, size=count))
        new = np.minimum(a, b) * size.nodes + np.maximum(a, b)
        codes = np.unique(np.concatenate([codes, new[a != b]]))
    codes = rng.permutation(codes)[:wanted]
    return np.stack([codes // size.nodes, codes % size.nodes])


@dataclass(frozen=True)
class TimingUnit(Unit):
    """Fit methods on a synthetic graph and take processor and wall-clock time, in one repeat.

    First, untimed, every method is fitted to a tiny graph and one to the large one, so that no time
    contains an import or the first use of memory.
    """

    size: str
    items: tuple[str, ...]
    repeat: int = 0

    @property
    def label(self) -> str:
        return f"{self.size} size"

    def identity(self, item: str) -> dict[str, Any]:
        method = _METHODS[item][0]
        calibrator = find(method.name)(**dict(method.overrides))
        return {
            "task": "timing",
            "dataset": f"{self.size} size",
            "method": method.name,
            "revision": calibrator.version,
            "settings": {k: describe(v) for k, v in calibrator.get_params().items()},
            **({"stop": "published"} if method.name in _BY_EPOCH else {}),
            "split": 0,
            "fold": 0,
            "init": self.repeat,
        }

    def prepare(self) -> LargeProblem:
        tiny, large = make_large(_TINY), make_large(SIZES[self.size])
        for item in self.items:
            _fit(_METHODS[item][0], tiny)
        _fit(Method.of("temperature"), large)
        return large

    def measure(self, item: str, prepared: LargeProblem) -> Row:
        spent, epochs = _fit(_METHODS[item][0], prepared)
        processor, wall = (round(part, 4) for part in spent)
        return {
            "metrics": {
                "seconds": processor,
                "wall": wall,
                "epochs": epochs,
                "per_epoch": processor / epochs if epochs else None,
            },
            "seconds": {"fit": processor},
            "logits": digest(prepared.logits),
        }


def _fit(method: Method, given: LargeProblem) -> tuple[tuple[float, float], int]:
    """Processor and wall-clock seconds of a fit to its own stop, and epochs until then."""
    calibrator = find(method.name)(**dict(method.overrides))
    inputs = {"graph": given.graph} if "graph" in calibrator.required_inputs else {}
    holdout = given.train if method.name in _BY_EPOCH else None
    started = time.process_time(), time.perf_counter()
    calibrator.fit(given.logits, given.y, mask=given.val, early_stopping_mask=holdout, **inputs)
    spent = time.process_time() - started[0], time.perf_counter() - started[1]
    epochs = int(getattr(calibrator, "epochs_", 0))
    if epochs and method.name not in _BY_EPOCH:  # which counts the epochs that were kept
        epochs = min(epochs + calibrator.patience, calibrator.epochs)
    return spent, epochs


@dataclass(frozen=True, kw_only=True)
class TimingTable(Table):
    """Fitting time of calibrators, in seconds on one core of this machine."""

    datasets: tuple[str, ...] = tuple(SIZES)
    backbones: tuple[str, ...] = ("synthetic",)
    unit: str = "seconds"
    default_runs: int = 3

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(_METHODS)

    def needs(self) -> tuple[str, ...]:
        return ()

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = paper_tables.cells("t2b") if self.unit == "seconds" else {}
        repeats = range(selection.runs or self.default_runs)
        made = []
        for size, backbone in self.places(selection):
            units = {(0, 0, repeat): TimingUnit(size, (), repeat) for repeat in repeats}
            for method in selected(selection.methods, self.methods):
                found = numbers.get((size, "gcn", _METHODS[method][1] or ""))
                printed = Printed(found.mean, None) if found else None
                made.append(Cell(f"{size} size", backbone, method, method, units, printed))
        return made


_CAPTION = (
    "Measured: {} time with one torch thread, random logits on a random graph with "
    "communities. Printed: the paper's GCN rows, on a GPU (RTX 2080 Ti or 3090 Ti); not "
    "the same machine, so only the order can be compared.",
    "Every method is fitted to the stop that its paper prescribes: t2b-epochs has the "
    "epochs until then, t2b-per-epoch the processor time of one.",
)

TABLES = tuple(
    TimingTable(
        name=name,
        metric=metric,
        unit=unit,
        shows=shows,
        caption=tuple(
            text.format("wall-clock" if metric == "wall" else "processor") for text in _CAPTION
        ),
    )
    for name, metric, unit, shows in (
        (
            *("t2b", "seconds", "seconds"),
            "large graphs: fitting time, on synthetic graphs of exactly their size",
        ),
        ("t2b-wall", "wall", "seconds", "wall-clock time, on the rows of t2b"),
        ("t2b-epochs", "epochs", "epochs", "epochs, on the rows of t2b"),
        ("t2b-per-epoch", "per_epoch", "seconds each", "time of an epoch"),
    )
)
