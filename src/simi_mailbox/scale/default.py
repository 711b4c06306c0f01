"""`SimiMailbox` on blocks: passes supply sums over neighbours, all else is its own code.

What the passes leave in the store:

    probs       [n, K + 1]  p = softmax(z / T), and 1 / degree
    around      [n, K]      Σ p_j over neighbours j
    similarity  [n]         mean overlap with the neighbours
    back        [n]         chance to be back after two random steps
    beyond      [n, K]      means over two random steps of p, the own part taken out
    beside      [m]         nodes with a labelled neighbour: few, if few are labelled
    near        [m, K + 1]  of these, sums over neighbours of their label residuals
    far         [n, K + 1]  means over two random steps of the same, the own part taken out
    closeness   [n, K]      to the classes in the hidden layer, if there is one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.calibrators.features import nearness, prototype_sums, prototypes_of
from simi_mailbox.calibrators.simi_mailbox import evidence
from simi_mailbox.calibrators.simi_mailbox.calibrator import enough, sketch
from simi_mailbox.calibrators.simi_mailbox.evidence import Sums
from simi_mailbox.calibrators.simi_mailbox.prior import resolve
from simi_mailbox.grouping import Combine, Grouping, added, find_groups_in, nearest, stacked
from simi_mailbox.scale import tiles
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.inputs import gather, median
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Output, Store, Written
from simi_mailbox.scale.tiles import Plan, fingerprint, name
from simi_mailbox.softmax import LogitRange, keep_argmax, row_blocks, scaled_softmax
from simi_mailbox.validation import Labelled, NodeInputs

LABELLED, RESIDUALS = "labelled/00000", "residuals/00000"


@dataclass(frozen=True)
class View:
    """How blocks are looked at; ``labels`` is a digest of those in the store, empty if none is."""

    plan: Plan
    limits: LogitRange
    temperature: float
    labels: str = ""
    hidden: bool = False

    @property
    def classes(self) -> int:
        return len(self.limits.classes)

    def logits(self, store: Store, block: int, rows: Ints | slice = slice(None)) -> Tensor:
        return self.cut(np.array(store.view(name("logits", block))[rows]))

    def cut(self, logits: Array) -> Tensor:
        z = torch.from_numpy(logits)
        return self.limits.cut(z) if len(z) else z[:, self.limits.classes]


def tensor(store: Store, kind: str, block: int, rows: Ints | slice = slice(None)) -> Tensor:
    return torch.from_numpy(np.array(store.view(name(kind, block))[rows]))


def sums_of(store: Store, block: int, view: View, nodes: Ints | None = None) -> Sums:
    """What the passes have found of a block, or of those of some sorted ``nodes`` in it."""
    rows = slice(None) if nodes is None else view.plan.inside(block, nodes)[0]
    part = partial(tensor, store, block=block, rows=rows)
    z, probs, degree = view.logits(store, block, rows), part("probs")[:, :-1], part("degree")
    near = far = z.new_zeros(len(z), view.classes + 1)
    if view.labels:
        whole = np.zeros((view.plan.size(block), view.classes + 1), dtype=z.numpy().dtype)
        whole[store.get(name("beside", block))] = store.get(name("near", block))
        near, far = torch.from_numpy(whole[rows]), part("far")
    closeness = part("closeness") if view.hidden else None
    return Sums(z, probs, degree, part("around"), part("beyond"), near, far, closeness)


def stacked_sums(parts: list[Sums]) -> Sums:
    """Rows of all parts, in order."""
    columns: Any = zip(*(vars(part).values() for part in parts), strict=True)
    joined: Any = [None if each[0] is None else torch.cat(each) for each in columns]
    return Sums(*joined)


def totals_of(store: Store, block: int) -> Floats:
    probs, degree = tensor(store, "probs", block), tensor(store, "degree", block)
    return evidence.unit_totals(probs[:, :-1], degree, tensor(store, "similarity", block))


def probs_block(store: Store, block: int, view: View) -> list[Written]:
    z, degree = view.logits(store, block), tensor(store, "degree", block).clamp(min=1)
    inverse = degree.to(z.dtype).reciprocal()
    probs = torch.cat([scaled_softmax(z, view.temperature), inverse[:, None]], dim=1)
    return [store.put(name("probs", block), probs.numpy())]


def around_band(store: Store, band: int, view: View, bands: list[range]) -> list[Written]:
    """The first look at neighbours: sums of their probabilities, and the chance to be back."""

    def right(column: int) -> tuple[Array, None]:
        return store.get(name("probs", column)), None

    written, columns = [], view.classes + 1
    for block, found in tiles.neighbour_sums(store, bands[band], view.plan, columns, right):
        probs = store.get(name("probs", block))
        around = found[:, :-1].astype(probs.dtype)
        back = probs[:, -1] * found[:, -1].astype(probs.dtype)
        own, others = torch.from_numpy(probs[:, :-1]), torch.from_numpy(around)
        similarity = evidence.overlap(own, others, tensor(store, "degree", block))
        made = {"around": around, "back": back, "similarity": similarity.numpy()}
        written += [store.put(name(kind, block), part) for kind, part in made.items()]
    return written


def beyond_band(store: Store, band: int, view: View, bands: list[range]) -> list[Written]:
    """The second look: predictions around neighbours."""

    def right(column: int) -> tuple[Array, None]:
        inverse = np.array(store.view(name("probs", column))[:, -1:])
        return store.get(name("around", column)) * inverse, None  # as a random step

    written = []
    for block, sums in tiles.neighbour_sums(store, bands[band], view.plan, view.classes, right):
        probs, back = tensor(store, "probs", block), tensor(store, "back", block)
        found = torch.from_numpy(sums).to(probs.dtype).mul_(probs[:, -1:])
        second = evidence.without_own(found, probs[:, :-1], back)
        written.append(store.put(name("beyond", block), second.numpy()))
    return written


def near_block(store: Store, block: int, view: View) -> list[Written]:
    """What labels of neighbours tell."""
    residuals = store.get(RESIDUALS)

    def right(column: int) -> tuple[Array, Array]:
        nodes, rows = view.plan.inside(column, store.view(LABELLED))
        return residuals, _places(view.plan.size(column), nodes, rows.start)

    ((_, sums),) = tiles.neighbour_sums(store, [block], view.plan, residuals.shape[1], right)
    near = sums.astype(residuals.dtype)
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

    written, columns = [], view.classes + 1
    for block, sums in tiles.neighbour_sums(store, bands[band], view.plan, columns, right):
        inverse = np.array(store.view(name("probs", block))[:, -1:])
        found = sums.astype(inverse.dtype) * inverse
        nodes, rows = view.plan.inside(block, store.view(LABELLED))
        back = np.array(store.view(name("back", block))[nodes])
        found[nodes] -= back[:, None] * store.view(RESIDUALS)[rows]
        written.append(store.put(name("far", block), found))
    return written


def _places(size: int, nodes: Ints, first: int = 0) -> Array:
    """Row of each node of a block in a table of some ``nodes`` that begins at ``first``, or −1."""
    place = np.full(size, -1, dtype=np.int32)
    place[nodes] = np.arange(first, first + len(nodes))
    return place


def hidden_rows(hidden: Shards, start: int, stop: int) -> Array:
    x = hidden.read(start, stop).astype(np.float32)  # as in memory, whatever is given
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        where = hidden.where(start + int(bad.argmax()))
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
    probs = store.view(name("probs", block))[:, :-1]
    runs = _hidden_runs(block, plan, hidden)
    parts = [prototype_sums(x, probs[rows].astype(np.float64), mass) for rows, x in runs]
    return added_each(parts)


def added_each(parts: Sequence[Iterable[Floats]]) -> list[Floats]:
    """Sums of lists of arrays, place by place."""
    return [added(list(each)) for each in zip(*parts, strict=True)]


def closeness_block(
    store: Store, block: int, plan: Plan, hidden: Shards, prototypes: dict[str, Floats]
) -> list[Written]:
    dtype = store.view(name("probs", block)).dtype
    found = [nearness(x, **prototypes).astype(dtype) for _, x in _hidden_runs(block, plan, hidden)]
    return [store.put(name("closeness", block), np.concatenate(found))]


def points_block(store: Store, block: int, view: View, calibrator: SimiMailbox) -> list[Written]:
    degree, similarity = tensor(store, "degree", block), tensor(store, "similarity", block)
    points = calibrator._points(view.logits(store, block), degree, similarity)
    return [store.put(name("points", block), points)]


def of_points(store: Store, block: int, function: Callable[..., Any], *args: Any) -> Any:
    return function(store.get(name("points", block)), *args)


def nearest_block(store: Store, block: int, grouping: Grouping) -> list[Written]:
    found = nearest(grouping, store.get(name("points", block)))
    return [store.put(name("nearest", block), found)]


def identity_of(store: Store, _block: int, view: View) -> list[Any]:
    blocks = view.plan.blocks
    return [fingerprint(store, view.plan), sketch(view.logits(store, b) for b in blocks)]


def entries_of(store: Store, block: int) -> int:
    return int(store.get(name("degree", block)).sum())


def probability_block(
    store: Store, block: int, view: View, calibrator: SimiMailbox, out: Output
) -> list[Written]:
    """Calibrated probabilities of a block's nodes, and their groups, as finished shards."""
    sums = sums_of(store, block, view)
    groups = calibrator._soft.grouping.assign(calibrator._points_of(sums))
    probs = calibrator._probabilities(sums)
    if calibrator.keep_classes:
        keep_argmax(probs, sums.logits)
    return out.block(block, view.limits.restore(probs).numpy(), groups)


def fit(
    engine: Engine,
    plan: Plan,
    limits: LogitRange,
    calibration: tuple[Ints, Ints],
    hidden: Shards | None,
    calibrator: SimiMailbox,
    *,
    used_for_selection: bool = True,
) -> View:
    """`SimiMailbox.fit` on blocks; ``calibration`` is nodes, sorted, and their labels."""
    prior, blocks = resolve(calibrator.prior), plan.blocks
    nodes, y = (torch.from_numpy(part) for part in calibration)
    labelled = Labelled(nodes, limits.number(y))
    z = _logits_of(engine, View(plan, limits, 1.0), nodes)
    chosen = enough(labelled, z)
    calibrator._take_base(z[torch.isin(nodes, chosen.index)].double().numpy(), chosen)
    view = View(plan, limits, calibrator.temperature_)
    _look_at_predictions(engine, view)
    totals = engine.total("units", totals_of, added, blocks)
    calibrator._take_units(totals)
    _group(engine, view, calibrator)
    if hidden is not None:
        given = (plan, hidden, totals[5:])
        sums = engine.total("hidden layer", prototype_sums_of, added_each, blocks, *given)
        found = prototypes_of(totals[5:], plan.nodes, *sums)
        calibrator.hidden_ = dict(zip(("means", "precision"), found, strict=True))
    view = _look_at_evidence(engine, view, labelled, z, hidden, calibrator)
    few = chosen.index.numpy()
    sums = engine.total("calibration nodes", sums_of, stacked_sums, blocks, view, few)
    calibrator._learn(sums, chosen, prior, selected=used_for_selection)
    calibrator._keep_labels(labelled, *_identity(engine, view))
    calibrator.num_classes_, calibrator.classes_ = plan.classes, limits.classes
    calibrator.widest_ = limits.widest
    return view


def look_again(
    engine: Engine, plan: Plan, calibrator: SimiMailbox, named: NodeInputs, hidden: Shards | None
) -> View:
    """The passes of a fitted calibrator; ``named``: labels known by now, and training nodes."""
    view = View(plan, calibrator._logit_range, calibrator.temperature_)
    _look_at_predictions(engine, view)
    known = calibrator._known(named, lambda: _identity(engine, view))
    order = known.index.argsort()
    known = Labelled(known.index[order], known.y[order])
    logits = _logits_of(engine, view, known.index)
    return _look_at_evidence(engine, view, known, logits, hidden, calibrator)


def write(engine: Engine, view: View, calibrator: SimiMailbox, out: Output) -> list[Written]:
    given = (view.plan.blocks, view, _without_labels(calibrator), out)
    return engine.write("writing", probability_block, *given)


def _look_at_predictions(engine: Engine, view: View) -> None:
    engine.write("probabilities", probs_block, view.plan.blocks, view)
    bands = _bands(engine, view)
    engine.write("neighbours", around_band, range(len(bands)), view, bands)
    engine.write("two steps away", beyond_band, range(len(bands)), view, bands)


def _look_at_evidence(
    engine: Engine,
    view: View,
    labelled: Labelled,
    logits: Tensor,
    hidden: Shards | None,
    calibrator: SimiMailbox,
) -> View:
    """The view with labels (of sorted nodes, ``logits`` theirs) and the hidden layer."""
    plan = view.plan
    if len(labelled):
        residuals = evidence.label_residuals(calibrator._base.probabilities(logits), labelled.y)
        parts = {LABELLED: labelled.index, RESIDUALS: residuals}
        files = [engine.store.put(kind, part.numpy()) for kind, part in parts.items()]
        view = replace(view, labels=" ".join(file.digest for file in files))
        engine.write("neighbouring labels", near_block, plan.blocks, view)
        bands = _bands(engine, view)
        engine.write("labels two steps away", far_band, range(len(bands)), view, bands)
    if hidden is not None:
        engine.write("nearness", closeness_block, plan.blocks, plan, hidden, calibrator.hidden_)
        view = replace(view, hidden=True)
    return view


def _bands(engine: Engine, view: View) -> list[range]:
    columns, item = view.classes + 1, engine.store.view(name("logits", 0)).itemsize
    return view.plan.bands(columns, 3 * item * columns)


def _logits_of(engine: Engine, view: View, nodes: Tensor) -> Tensor:
    given = (view.plan.blocks, view.plan, "logits", nodes.numpy())
    return view.cut(engine.total("calibration nodes", gather, stacked, *given))


def _identity(engine: Engine, view: View) -> Any:
    return engine.total("identity", identity_of, added, [0], view)


def _group(engine: Engine, view: View, cal: SimiMailbox) -> None:
    blocks = view.plan.blocks

    def total(function: Callable[..., Any], combine: Combine, *args: Any) -> Any:
        return engine.total("groups", of_points, combine, blocks, function, *args)

    engine.write("points", points_block, blocks, view, _without_labels(cal))
    grouping = find_groups_in(total, view.plan.nodes, cal.n_groups, cal.scaling, cal.seed)
    engine.write("bandwidth", nearest_block, blocks, grouping)
    cal._take_groups(grouping, median(engine, view.plan, "nearest", "bandwidth"))


def _without_labels(calibrator: SimiMailbox) -> SimiMailbox:
    """A copy for the functions of a block, without what is as large as the graph."""
    bare = type(calibrator)(**calibrator.get_params())
    for part, value in calibrator._state().items():
        if part not in ("labels_", "late_", "reference_", "groups_", "similarity_"):
            setattr(bare, part, value)
    return bare
