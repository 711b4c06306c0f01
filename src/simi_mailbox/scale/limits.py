"""What is left of logits before a method sees them, found block by block."""

from __future__ import annotations

import numpy as np

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.grouping import added, stacked
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.plan import Plan
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import name
from simi_mailbox.softmax import IMPOSSIBLE, VANISHING, WIDEST, LogitRange

CELLS = 1 << 12
FEW = 1 << 18
"""Numbers that may be sorted here."""


def facts_of(store: Store, block: int) -> Array:
    """The facts of `read_block`, as one row."""
    return store.get(name("facts", block))[None]


def find_limits(engine: Engine, plan: Plan, named: Ints) -> LogitRange:
    """As `LogitRange.of` finds it; a class that is ``named`` by a label is possible."""
    rows = engine.total("looking at logits", facts_of, stacked, plan.blocks)
    classes = plan.classes
    if rows[:, -1].all():
        raise ValueError(
            "every row of the logits lies in [0, 1] and sums to one: these are probabilities; "
            'say input_type="probabilities"'
        )
    each = rows[:, :classes]
    best, every = each.max(axis=0), np.arange(classes)
    some = np.isneginf(each).any(axis=0) & ~np.isneginf(best)
    if some.any():
        raise ValueError(
            f"class {int(np.flatnonzero(some)[0])} has logits −inf in some blocks of nodes and not "
            "in others; a class is masked by −inf on every node or on none"
        )
    doubtful = np.setdiff1d(every[best <= -VANISHING], named)
    kept, kind = every, "spread"
    if len(doubtful) and classes - len(doubtful) >= 2:
        kept = np.setdiff1d(every, doubtful)
        engine.write("looking at classes", spread_of, plan.blocks, kept)
        kind = "spread-kept"
        usual = median(engine, plan, kind)
        kept = np.setdiff1d(every, doubtful[best[doubtful] <= -IMPOSSIBLE * usual])
    else:
        usual = median(engine, plan, kind)
    if not np.isfinite(best[kept]).all():
        lost = kept[~np.isfinite(best[kept])][0]
        raise ValueError(
            f"the logits of class {lost} are −inf on every node, but a label names this class or "
            "no two others are left: give it finite logits"
        )
    return LogitRange(classes, kept, WIDEST * usual if usual > 0 else np.inf)


def spread_of(store: Store, block: int, kept: Ints) -> list[Written]:
    """Mean distance of some classes to the top of their node."""
    z = store.get(name("logits", block))[:, kept].astype(np.float64)
    return [store.put(name("spread-kept", block), z.max(axis=1) - z.mean(axis=1))]


# --- the median of numbers that are nowhere together ----------------------------------------------


def median(engine: Engine, plan: Plan, kind: str, step: str = "looking at logits") -> float:
    """The median of a number per node, exactly: histograms zoom in until few are left."""
    low, high, below = -np.inf, np.inf, 0
    middle = (plan.nodes - 1) // 2, plan.nodes // 2
    ends = engine.total(step, extent, _wider, plan.blocks, kind)
    low, high = float(ends[0]), float(ends[1])
    while True:
        edges = np.linspace(low, high, CELLS + 1)
        counts = engine.total(step, histogram, added, plan.blocks, kind, edges)
        reached = below + np.cumsum(counts)
        first, last = (int(np.searchsorted(reached, at, side="right")) for at in middle)
        inside = int(reached[last] - (reached[first - 1] if first else below))
        if inside <= FEW or high - low <= 1e-12 * max(1.0, abs(high)):
            break
        below = int(reached[first - 1]) if first else below
        low, high = float(edges[first]), float(edges[last + 1])
    below = int(reached[first - 1]) if first else below
    bounds = (edges[first], edges[last + 1], last + 1 == CELLS)
    found = np.sort(engine.total(step, between, stacked, plan.blocks, kind, *bounds))
    return float((found[middle[0] - below] + found[middle[1] - below]) / 2)


def extent(store: Store, block: int, kind: str) -> Floats:
    numbers = store.get(name(kind, block))
    return np.array([numbers.min(), numbers.max()])


def _wider(parts: list[Floats]) -> Floats:
    low, high = np.stack(parts).T
    return np.array([low.min(), high.max()])


def histogram(store: Store, block: int, kind: str, edges: Floats) -> Ints:
    numbers = store.get(name(kind, block))
    # Not numpy.histogram, whose last cell is closed: cells of a later look must be the same.
    place = np.searchsorted(edges, numbers, side="right") - 1
    place[numbers == edges[-1]] = CELLS - 1
    inside = (place >= 0) & (place < CELLS)
    return np.bincount(place[inside], minlength=CELLS)


def between(store: Store, block: int, kind: str, low: float, high: float, closed: bool) -> Floats:
    numbers = store.get(name(kind, block))
    return np.asarray(numbers[(numbers >= low) & ((numbers < high) | (closed & (numbers == high)))])
