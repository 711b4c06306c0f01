"""Blocks as suppliers of `Sums`: what every pass over the graph leaves in the store.

    probs       [n, K + 1]  p = softmax(z / T), and 1 / degree
    around      [n, K]      Σ p_j over neighbours j
    similarity  [n]         mean overlap with the neighbours
    back        [n]         chance to be back after two random steps
    beside      [m]         nodes with a labelled neighbour: few, if few are labelled
    near        [m, K + 1]  of these, sums over neighbours of their label residuals
    far         [n, K + 1]  means over two random steps of the same, the own part taken out
    closeness   [n, K]      to the classes in the hidden layer, if there is one

The formula that is made of them is that of `simi_mailbox.calibrators.simi_mailbox.evidence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.calibrators.parts.features import nearness, prototype_sums, prototypes_of
from simi_mailbox.calibrators.simi_mailbox.evidence import (
    Sums,
    label_residuals,
    overlap,
    unit_totals,
)
from simi_mailbox.grouping import added
from simi_mailbox.scale import tiles
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.plan import Plan
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import name
from simi_mailbox.softmax import LogitRange, row_blocks, scaled_softmax
from simi_mailbox.validation import Labelled

LABELLED, RESIDUALS = "labelled/00000", "residuals/00000"
"""Labelled nodes in the store, sorted, and their label residuals."""


@dataclass(frozen=True)
class View:
    """How blocks are looked at: within which limits, at which temperature, and what is known."""

    plan: Plan
    limits: LogitRange
    temperature: float
    labels: str = ""
    """Digest of the labels in the store; empty if there is none."""
    hidden: bool = False
    """Whether there is a hidden layer."""

    @property
    def classes(self) -> int:
        return len(self.limits.classes)

    def logits(self, store: Store, block: int, rows: Ints | slice = slice(None)) -> Tensor:
        """Of some nodes of a block, as a method sees them."""
        return self.cut(np.array(store.view(name("logits", block))[rows]))

    def cut(self, logits: Array) -> Tensor:
        z = torch.from_numpy(logits)
        return self.limits.cut(z) if len(z) else z[:, self.limits.classes]


def put_labels(store: Store, view: View, labelled: Labelled, logits: Tensor) -> View:
    """The same view, with these labels in the store; nodes are sorted, ``logits`` are theirs."""
    if not len(labelled):
        return view
    residuals = label_residuals(scaled_softmax(logits, view.temperature), labelled.y)
    files = [
        store.put(LABELLED, labelled.index.numpy()),
        store.put(RESIDUALS, residuals.numpy()),
    ]
    return replace(view, labels=" ".join(file.digest for file in files))


# --- functions of a block -------------------------------------------------------------------------


def sums_of(store: Store, block: int, view: View, rows: Ints | None = None) -> Sums:
    """What the passes have found of the nodes of a block, or of some ``rows`` of it."""
    some = slice(None) if rows is None else rows

    def part(kind: str) -> Tensor:
        return torch.from_numpy(np.array(store.view(name(kind, block))[some]))

    z, probs, degree = view.logits(store, block, some), part("probs")[:, :-1], part("degree")
    near = far = z.new_zeros(len(z), view.classes + 1)
    if view.labels:
        whole = np.zeros((view.plan.size(block), view.classes + 1), dtype=z.numpy().dtype)
        whole[store.get(name("beside", block))] = store.get(name("near", block))
        near, far = torch.from_numpy(whole[some]), part("far")
    return Sums(
        z, probs, degree, part("around"), near, far, part("closeness") if view.hidden else None
    )


def sums_of_nodes(store: Store, block: int, view: View, nodes: Ints) -> Sums:
    """Of those of some sorted nodes that lie in a block."""
    start, stop = view.plan.span(block)
    low, high = np.searchsorted(nodes, [start, stop])
    return sums_of(store, block, view, nodes[low:high] - start)


def stacked_sums(parts: list[Sums]) -> Sums:
    """Rows of all parts, in order."""
    columns: Any = zip(*(vars(part).values() for part in parts), strict=True)
    joined: Any = [None if each[0] is None else torch.cat(each) for each in columns]
    return Sums(*joined)


def totals_of(store: Store, block: int) -> Floats:
    """`unit_totals` of a block."""
    probs, degree, similarity = (
        torch.from_numpy(store.get(name(kind, block))) for kind in ("probs", "degree", "similarity")
    )
    return unit_totals(probs[:, :-1], degree, similarity)


def probs_block(store: Store, block: int, view: View) -> list[Written]:
    z = view.logits(store, block)
    right = torch.empty(len(z), z.shape[1] + 1, dtype=z.dtype)
    right[:, :-1] = scaled_softmax(z, view.temperature)
    degree = torch.from_numpy(store.get(name("degree", block)))
    right[:, -1] = degree.clamp(min=1).to(z.dtype).reciprocal()
    return [store.put(name("probs", block), right.numpy())]


def around_band(store: Store, band: int, view: View, bands: list[range]) -> list[Written]:
    """The first look at neighbours: sums of their probabilities, and the chance to be back."""

    def right(column: int) -> tuple[Array, None]:
        return store.get(name("probs", column)), None

    sums = tiles.neighbour_sums(store, bands[band], view.plan, view.classes + 1, right)
    written = []
    for block in bands[band]:
        found, probs = sums.pop(block), store.get(name("probs", block))
        around = found[:, :-1].astype(probs.dtype)
        back = probs[:, -1] * found[:, -1].astype(probs.dtype)
        degree = torch.from_numpy(store.get(name("degree", block)))
        similarity = overlap(torch.from_numpy(probs[:, :-1]), torch.from_numpy(around), degree)
        made = {"around": around, "back": back, "similarity": similarity.numpy()}
        written += [store.put(name(kind, block), part) for kind, part in made.items()]
    return written


def near_block(store: Store, block: int, view: View) -> list[Written]:
    """What labels of neighbours tell."""
    residuals = store.get(RESIDUALS)

    def right(column: int) -> tuple[Array, Array]:
        nodes, rows = _labelled(store, view.plan, column)
        return residuals, _places(view.plan.size(column), nodes, rows.start)

    sums = tiles.neighbour_sums(store, [block], view.plan, residuals.shape[1], right)
    near = sums.pop(block).astype(residuals.dtype)
    nodes = np.flatnonzero(near.any(axis=1))
    return [
        store.put(name("beside", block), nodes.astype(np.int32)),
        store.put(name("near", block), near[nodes]),
    ]


def far_band(store: Store, band: int, view: View, bands: list[range]) -> list[Written]:
    """The second look: labels near neighbours; most have none."""

    def right(column: int) -> tuple[Array, Array]:
        beside = store.get(name("beside", column))
        near = store.get(name("near", column))
        near *= store.view(name("probs", column))[beside, -1:]  # as a random step
        return near, _places(view.plan.size(column), beside)

    sums = tiles.neighbour_sums(store, bands[band], view.plan, view.classes + 1, right)
    written = []
    for block in bands[band]:
        inverse = np.array(store.view(name("probs", block))[:, -1:])
        found = sums.pop(block).astype(inverse.dtype) * inverse
        nodes, rows = _labelled(store, view.plan, block)
        back = np.array(store.view(name("back", block))[nodes])
        found[nodes] -= back[:, None] * store.view(RESIDUALS)[rows]
        written.append(store.put(name("far", block), found))
    return written


def _labelled(store: Store, plan: Plan, block: int) -> tuple[Ints, slice]:
    """Labelled nodes of a block (numbers within it), and their rows among all."""
    nodes, span = store.view(LABELLED), plan.span(block)
    low, high = np.searchsorted(nodes, span).tolist()
    return np.array(nodes[low:high]) - span[0], slice(low, high)


def _places(size: int, nodes: Ints, first: int = 0) -> Array:
    """Row of each node of a block in a table of some ``nodes`` that begins at ``first``, or −1."""
    place = np.full(size, -1, dtype=np.int32)
    place[nodes] = np.arange(first, first + len(nodes))
    return place


# --- the hidden layer -----------------------------------------------------------------------------


def hidden_rows(hidden: Shards, start: int, stop: int) -> Array:
    """Some rows, checked."""
    x = hidden.read(start, stop).astype(np.float32)  # as in memory, whatever is given
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        where = hidden.where(start + int(bad[0]))
        raise ValueError(f"{where}: the hidden layer is NaN or infinite there")
    return x


def _hidden_runs(block: int, plan: Plan, hidden: Shards) -> Iterator[tuple[slice, Floats]]:
    """Runs of a block's rows of the hidden layer, which may be much wider than logits."""
    start, stop = plan.span(block)
    for rows in row_blocks(stop - start, hidden.columns, elements=1 << 21):
        x = hidden_rows(hidden, start + rows.start, start + rows.stop)
        yield rows, x.astype(np.float64)


def prototype_sums_of(
    store: Store, block: int, plan: Plan, hidden: Shards, mass: Floats
) -> list[Floats]:
    """What prototypes of classes are made of, summed over a block."""
    probs = store.view(name("probs", block))
    return added_each(
        [
            list(prototype_sums(x, probs[rows, :-1].astype(np.float64), mass))
            for rows, x in _hidden_runs(block, plan, hidden)
        ]
    )


def added_each(parts: list[list[Floats]]) -> list[Floats]:
    """Sums of lists of arrays, place by place."""
    return [added(list(each)) for each in zip(*parts, strict=True)]


def closeness_block(
    store: Store, block: int, plan: Plan, hidden: Shards, prototypes: tuple[Floats, Floats]
) -> list[Written]:
    dtype = store.view(name("probs", block)).dtype
    found = [nearness(x, *prototypes).astype(dtype) for _, x in _hidden_runs(block, plan, hidden)]
    return [store.put(name("closeness", block), np.concatenate(found))]


# --- all passes -----------------------------------------------------------------------------------


def pass_predictions(engine: Engine, view: View) -> None:
    """Probabilities, and their sums over neighbours."""
    plan, columns = view.plan, view.classes + 1
    engine.write("probabilities", probs_block, plan.blocks, view)
    bands = plan.bands(columns, 3 * _item(engine) * columns)
    engine.write("neighbours", around_band, range(len(bands)), view, bands)


def pass_labels(engine: Engine, view: View) -> None:
    """What the labels in the store tell, one and two steps away."""
    if not view.labels:
        return
    plan, columns = view.plan, view.classes + 1
    engine.write("labels nearby", near_block, plan.blocks, view)
    bands = plan.bands(columns, 3 * _item(engine) * columns)
    engine.write("labels two steps away", far_band, range(len(bands)), view, bands)


def _item(engine: Engine) -> int:
    return int(engine.store.view(name("logits", 0)).itemsize)


def find_prototypes(
    engine: Engine, view: View, hidden: Shards, mass: Floats
) -> tuple[Floats, Floats]:
    """Means of the classes in the hidden layer, and its precision; ``mass`` is Σ p."""
    given = (view.plan.blocks, view.plan, hidden, mass)
    sums = engine.total("hidden layer", prototype_sums_of, added_each, *given)
    return prototypes_of(mass, view.plan.nodes, *sums)


def pass_hidden(
    engine: Engine, view: View, hidden: Shards, prototypes: tuple[Floats, Floats]
) -> View:
    """The same view, with the nearness of nodes to the classes in the hidden layer."""
    engine.write("nearness", closeness_block, view.plan.blocks, view.plan, hidden, prototypes)
    return replace(view, hidden=True)
