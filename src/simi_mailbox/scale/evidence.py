"""`simi_mailbox.prior.evidence` on blocks: what every pass leaves, and how terms are read from it.

    probs       [n, K + 1]  softmax(z / T), and 1 / degree
    around      [n, K]      sums over neighbours of probs
    back        [n]         chance to be back after two random steps
    near        [n, w]      sums over neighbours of what labelled nodes say
    hearers     [m]         the nodes for which that is not nought: few, if few are labelled
    heard       [m, w + 1]  the same of these, and 1 / degree
    far         [n, w]      means over two random steps of the same, the own part taken out
    terms       [n, 3]      of the exponent, before they are centred
    similarity  [n]         mean overlap with the neighbours
    closeness   [n, K]      to the classes in the hidden layer, if there is one

What a calibration node says is its surprise (K + 1 numbers); what a training node says is its class
(K more numbers, if there are such nodes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.calibrators.parts.features import nearness, prototype_sums, prototypes_of
from simi_mailbox.prior.evidence import (
    Evidence,
    Frame,
    Known,
    Rows,
    exponent_terms,
    overlap,
    surprises,
)
from simi_mailbox.scale import tiles
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.limits import added
from simi_mailbox.scale.plan import Plan
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import name
from simi_mailbox.softmax import LogitRange, confidence, row_blocks, scaled_softmax

SPEAKERS = "labelled/00000"
"""Labelled nodes in the store, [m, 2]: the node, and its class among the possible ones."""
SAID = "said/00000"


@dataclass(frozen=True)
class View:
    """How blocks are looked at: within which limits, at which temperature, and what is known."""

    plan: Plan
    limits: LogitRange
    temperature: float
    labels: str = ""
    """Digest of the labels and what they say, which lie in the store."""
    counts: Floats | None = None
    """How often classes occur."""
    own: bool = True
    """Whether the labels in the store are among these."""
    hidden: bool = False
    """Whether there is a hidden layer."""
    moved: bool = False
    """Whether the baseline has made new logits, which lie in the store."""

    @property
    def classes(self) -> int:
        return len(self.limits.classes)

    def logits(self, store: Store, block: int) -> Tensor:
        return self.limits.cut(torch.from_numpy(store.get(name("logits", block))))


def hear(store: Store, view: View, known: Known, probs: Tensor) -> str:
    """Put labels into the store; ``probs`` are those of their nodes, calibration nodes first."""
    mine, theirs = known.calibration, known.trained
    said = surprises(probs[: len(mine)], mine.y)
    index, y = mine.index, mine.y
    if theirs is not None:
        ones = torch.nn.functional.one_hot(theirs.y, view.classes).to(said.dtype)
        wide = said.new_zeros(len(mine) + len(theirs), said.shape[1] + view.classes)
        wide[: len(mine), : said.shape[1]] = said
        wide[len(mine) :, said.shape[1] :] = ones
        said, index, y = wide, torch.cat([index, theirs.index]), torch.cat([y, theirs.y])
    order = index.argsort()
    files = [
        store.put(SPEAKERS, torch.stack([index, y], dim=1)[order].numpy()),
        store.put(SAID, said[order].contiguous().numpy()),
    ]
    return " ".join(file.digest for file in files)


def _speakers(store: Store, plan: Plan, block: int) -> tuple[Ints, slice, Ints]:
    """Labelled nodes of a block (numbers within it), their rows among all, and their classes."""
    start, stop = plan.span(block)
    speakers = store.view(SPEAKERS)
    low, high = np.searchsorted(speakers[:, 0], [start, stop])
    nodes, y = np.array(speakers[low:high]).T
    return nodes - start, slice(int(low), int(high)), y


# --- functions of a block -------------------------------------------------------------------------


def mass_of(store: Store, block: int) -> Floats:
    """Sums over a block of probabilities, [K]."""
    return np.asarray(store.get(name("probs", block))[:, :-1].sum(axis=0, dtype=np.float64))


def prototype_sums_of(
    store: Store, block: int, plan: Plan, hidden: Shards, mass: Floats
) -> list[Floats]:
    """What prototypes of classes are made of, summed over a block."""
    probs, found = store.view(name("probs", block)), list[list[Floats]]()
    for rows, x in _hidden_rows(block, plan, hidden):
        found.append(list(prototype_sums(x, probs[rows, :-1].astype(np.float64), mass)))
    return added_each(found)


def closeness_block(
    store: Store, block: int, plan: Plan, hidden: Shards, prototypes: tuple[Floats, Floats]
) -> list[Written]:
    dtype = store.view(name("probs", block)).dtype
    found = [nearness(x, *prototypes).astype(dtype) for _, x in _hidden_rows(block, plan, hidden)]
    return [store.put(name("closeness", block), np.concatenate(found))]


def _hidden_rows(block: int, plan: Plan, hidden: Shards) -> Iterator[tuple[slice, Floats]]:
    """Runs of a block's rows of the hidden layer, which may be much wider than logits."""
    start, stop = plan.span(block)
    for rows in row_blocks(stop - start, hidden.columns, elements=1 << 21):
        # In memory, too, the door makes float32 of whatever is given.
        x = hidden.read(start + rows.start, start + rows.stop).astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if len(bad):
            where = hidden.where(start + rows.start + int(bad[0]))
            raise ValueError(f"{where}: the hidden layer is NaN or infinite there")
        yield rows, x.astype(np.float64)


def added_each(parts: list[list[Floats]]) -> list[Floats]:
    """Sums of lists of arrays, place by place."""
    return [added(list(each)) for each in zip(*parts, strict=True)]


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
        found, inverse = sums.pop(block), store.view(name("probs", block))[:, -1]
        around = found[:, :-1].astype(inverse.dtype)
        back = inverse * found[:, -1].astype(inverse.dtype)
        written += [store.put(name("around", block), around), store.put(name("back", block), back)]
    return written


def near_block(store: Store, block: int, view: View) -> list[Written]:
    """What neighbours with a label say, and what is made of all neighbours."""
    said = store.get(SAID)

    def right(column: int) -> tuple[Array, Array]:
        nodes, rows, _ = _speakers(store, view.plan, column)
        return said, _places(view.plan.size(column), nodes, rows.start)

    heard = tiles.neighbour_sums(store, [block], view.plan, said.shape[1], right)
    near = heard.pop(block).astype(said.dtype)
    nodes = np.flatnonzero(near.any(axis=1))
    probs = torch.from_numpy(store.get(name("probs", block)))
    inverse = probs[:, -1].numpy()
    found = {
        "near": near,
        "hearers": nodes.astype(np.int32),
        "heard": np.concatenate([near[nodes], inverse[nodes, None]], axis=1),
    }
    written = [store.put(name(kind, block), array) for kind, array in found.items()]
    del found, near
    degree = torch.from_numpy(store.get(name("degree", block)))
    around = torch.from_numpy(store.get(name("around", block)))
    similarity = overlap(probs[:, :-1], around, degree)
    del probs, around
    terms = exponent_terms(degree, confidence(view.logits(store, block), view.temperature))
    written.append(store.put(name("similarity", block), similarity.numpy()))
    return [*written, store.put(name("terms", block), terms.numpy())]


def far_band(store: Store, band: int, view: View, bands: list[range]) -> list[Written]:
    """The second look: what was heard one step away, from there; most have heard nothing."""

    def right(column: int) -> tuple[Array, Array]:
        heard = store.get(name("heard", column)).astype(np.float64)
        heard[:, :-1] *= heard[:, -1:]
        place = _places(view.plan.size(column), store.get(name("hearers", column)))
        return heard[:, :-1], place

    width = store.view(SAID).shape[1]
    sums = tiles.neighbour_sums(store, bands[band], view.plan, width, right)
    written = []
    for block in bands[band]:
        found = sums.pop(block).astype(store.view(name("near", block)).dtype)
        found *= store.view(name("probs", block))[:, -1:]
        nodes, rows, _ = _speakers(store, view.plan, block)
        back = store.view(name("back", block))[nodes, None]
        found[nodes] -= back * np.array(store.view(SAID)[rows])
        written.append(store.put(name("far", block), found))
    return written


def _places(size: int, nodes: Ints, first: int = 0) -> Array:
    """Row of each node of a block in a table of some ``nodes`` that begins at ``first``, or −1."""
    place = np.full(size, -1, dtype=np.int32)
    place[nodes] = np.arange(first, first + len(nodes))
    return place


def frame_sums(store: Store, block: int) -> Floats:
    """Sums over a block of terms (3), overlaps, nodes with neighbours, and probabilities (K)."""
    degree = store.get(name("degree", block))
    similarity = store.get(name("similarity", block))
    parts = [
        store.get(name("terms", block)).sum(axis=0),
        [similarity.sum(), float((degree > 0).sum())],
        mass_of(store, block),
    ]
    return np.concatenate(parts)


def scatter_of(store: Store, block: int, centre: float) -> float:
    """Σ (sure − centre)² over a block."""
    return float(((store.get(name("terms", block))[:, 2] - centre) ** 2).sum())


# --- all of it ------------------------------------------------------------------------------------


def listen(engine: Engine, view: View, frame: Frame | None = None) -> Frame:
    """All passes over the graph; the frame is found here if it is not known."""
    blocks = view.plan.blocks
    engine.write("probabilities", probs_block, blocks, view)
    width, item = engine.store.view(SAID).shape[1], engine.store.view(SAID).itemsize
    bands = view.plan.bands(view.classes + 1, 2 * item * (view.classes + 1))
    engine.write("neighbours", around_band, range(len(bands)), view, bands)
    engine.write("labels nearby", near_block, blocks, view)
    bands = view.plan.bands(width, (8 + item) * (width + 1))
    engine.write("second neighbours", far_band, range(len(bands)), view, bands)
    if frame is not None:
        return frame
    n, k = view.plan.nodes, view.classes
    sums = engine.total("units", frame_sums, added, blocks)
    centre, spread = sums[:3] / n, np.ones(3)
    found = float(np.sqrt(engine.total("units", scatter_of, added, blocks, centre[2]) / n))
    spread[2] = found if found > 1e-9 else 1.0
    alone = float(sums[3] / sums[4]) if sums[4] else 0.0
    return Frame(view.temperature, centre, spread, (sums[5:] + 1.0) / (n + k), alone)


def compare(
    engine: Engine, view: View, hidden: Shards, prototypes: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats]:
    """How near nodes are to the classes in the hidden layer; prototypes are found if not given."""
    plan = view.plan
    if prototypes is None:
        mass = engine.total("hidden layer", mass_of, added, plan.blocks)
        given = (plan.blocks, plan, hidden, mass)
        sums = engine.total("hidden layer", prototype_sums_of, added_each, *given)
        prototypes = prototypes_of(mass, plan.nodes, *sums)
    engine.write("nearness", closeness_block, plan.blocks, plan, hidden, prototypes)
    return prototypes


class Rowwise(Evidence):
    """The evidence on some rows whose sums over neighbours are known."""

    def __init__(
        self, rows: dict[str, Array], z: Tensor, own: Tensor, frame: Frame, view: View
    ) -> None:
        self.logits, self.frame = z, frame
        self.sure = confidence(z, frame.temperature)
        degree = torch.from_numpy(rows["degree"])
        neighbours: Any = SimpleNamespace(degree=degree)
        self.neighbours = neighbours
        found = {part: torch.from_numpy(rows[part]) for part in ("around", "near", "far")}
        self._around = found["around"]
        centre, spread = (torch.from_numpy(x) for x in (frame.centre, frame.spread))
        self.terms = (torch.from_numpy(rows["terms"]) - centre).div_(spread)
        similarity = torch.from_numpy(rows["similarity"])
        self.similarity = similarity.masked_fill(degree == 0, frame.alone)
        self.closeness = torch.from_numpy(rows["closeness"]) if view.hidden else None
        width = z.shape[1] + 1
        mine: Any = _Steps(found["near"][:, :width], found["far"][:, :width])
        theirs: Any = _Steps(found["near"][:, width:], found["far"][:, width:])
        self._surprise, self._trained = mine, theirs
        assert view.counts is not None
        self._own, self._frequency = own, torch.from_numpy(view.counts)

    def hear(self, known: Known, counts: Floats | None = None, *, part: bool = False) -> None:
        """Nothing: it was heard when the passes were made."""

    def _without_own(self, rows: Rows, heard: Any) -> Tensor:
        found: Tensor = heard.far[rows]
        return found.clone()


@dataclass(frozen=True)
class _Steps:
    """What was heard one and two steps away."""

    sums: Tensor
    far: Tensor


def kinds(view: View) -> tuple[str, ...]:
    """What `Rowwise` reads."""
    more = ("closeness",) if view.hidden else ()
    return ("degree", "around", "near", "far", "terms", "similarity", *more)


def of_block(store: Store, block: int, view: View, frame: Frame) -> Rowwise:
    """The evidence on the nodes of a block."""
    rows = {kind: store.get(name(kind, block)) for kind in kinds(view)}
    own = torch.full((view.plan.size(block),), -1, dtype=torch.int64)
    if view.own:
        nodes, _, y = _speakers(store, view.plan, block)
        own[torch.from_numpy(nodes)] = torch.from_numpy(y)
    return Rowwise(rows, view.logits(store, block), own, frame, view)
