"""`SimiMailbox` on blocks: the functions of every pass, and the order in which they are called.

What looks at all nodes is a function of a block. What looks at the calibration nodes, or at a few
numbers of every group, is the code of the calibrator itself.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.calibrators.simi_mailbox import NOBODY, joined, kept_labels
from simi_mailbox.calibrators.simi_mailbox import View as FewNodes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.graph import Graph
from simi_mailbox.grouping import (
    HISTOGRAM_ABOVE,
    Grouping,
    cell_means,
    find_groups,
    group_points,
    histogram_sums,
)
from simi_mailbox.prior.baseline import Baseline, blend
from simi_mailbox.prior.evidence import Frame, Known, frequencies
from simi_mailbox.scale import evidence
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.evidence import View
from simi_mailbox.scale.inputs import gather
from simi_mailbox.scale.limits import Facts, added, stacked
from simi_mailbox.scale.outputs import Output
from simi_mailbox.scale.plan import Plan
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import fingerprint, name
from simi_mailbox.softmax import LogitRange, keep_argmax, scaled_softmax
from simi_mailbox.temperature import ConfidenceCurve
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs

# --- functions of a block -------------------------------------------------------------------------


def view_block(store: Store, block: int, view: View, calibrator: SimiMailbox) -> list[Written]:
    """What the baseline makes of a block's nodes: scale of their logits, or new ones; points."""
    here = evidence.of_block(store, block, view, Frame.read(calibrator.evidence_))
    found = calibrator._view(here)
    made = {"moved": found.logits} if found.scale is None else {"scale": found.scale}
    if found.promised is not None:
        made["promised"] = found.promised
    return [
        *(store.put(name(kind, block), part.numpy()) for kind, part in made.items()),
        store.put(name("points", block), found.points(calibrator.uniform_weight, view.classes)),
    ]


def seen(store: Store, block: int, view: View) -> tuple[Tensor, Tensor | None]:
    """Logits of a block as the baseline has left them, and their scale, if they have one."""
    if view.moved:
        return torch.from_numpy(store.get(name("moved", block))), None
    return view.logits(store, block), torch.from_numpy(store.get(name("scale", block)))


def entries_of(store: Store, block: int) -> int:
    return int(store.get(name("degree", block)).sum())


def points_of(store: Store, block: int) -> Floats:
    return store.get(name("points", block))


def corners_of(store: Store, block: int) -> Floats:
    """Smallest and largest coordinates, [2, 2]."""
    points = store.get(name("points", block))
    return np.stack([points.min(axis=0), points.max(axis=0)])


def outer_corners(parts: list[Floats]) -> Floats:
    every = np.stack(parts)
    return np.stack([every[:, 0].min(axis=0), every[:, 1].max(axis=0)])


def point_sums(store: Store, block: int) -> Floats:
    return np.asarray(store.get(name("points", block)).sum(axis=0))


def point_scatter(store: Store, block: int, centre: Floats) -> Floats:
    return np.asarray(((store.get(name("points", block)) - centre) ** 2).sum(axis=0))


def cells_of(
    store: Store, block: int, shift: Floats, scale: Floats, low: Floats, high: Floats
) -> Floats:
    return histogram_sums((store.get(name("points", block)) - shift) / scale, low, high)


def assign_block(store: Store, block: int, grouping: Grouping) -> list[Written]:
    """The group of a block's nodes."""
    group = grouping.assign(store.get(name("points", block)))
    return [store.put(name("groups", block), group.astype(np.uint16))]


def sizes_of(store: Store, block: int, groups: int) -> Floats:
    return np.bincount(store.get(name("groups", block)), minlength=groups).astype(np.float64)


def promises_of(store: Store, block: int, groups: int) -> Floats:
    """Sums over the groups' nodes of what the evidence promises."""
    group, each = (store.get(name(kind, block)) for kind in ("groups", "promised"))
    return np.bincount(group, each, minlength=groups).astype(np.float64)


def curve_of(store: Store, block: int, view: View, theta: Floats, wanted: Bools | None) -> Floats:
    """Sums of confidence and its derivatives over the groups' nodes in a block."""
    group = torch.from_numpy(store.get(name("groups", block)).astype(np.int64))
    z, scale = seen(store, block, view)
    return ConfidenceCurve(z, group, len(theta), scale).sums(theta, wanted)


def probability_block(
    store: Store, block: int, view: View, factors: Floats, blind: float, keep: bool, out: Output
) -> list[Written]:
    """Calibrated probabilities of a block's nodes, and their groups, as finished shards."""
    (z, scale), group = seen(store, block, view), store.get(name("groups", block))
    each = torch.from_numpy(factors[group])
    probs = scaled_softmax(z, each if scale is None else each / scale)
    probs = blend(probs, blind, z.shape[1])
    if keep:
        keep_argmax(probs, z)
    probs = view.limits.restore(probs)
    return [out.probabilities(block, probs.numpy()), out.groups(block, group)]


# --- the whole ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockCurve:
    """`simi_mailbox.temperature.ConfidenceCurve`, its nodes in blocks."""

    engine: Engine
    view: View
    counts: Floats

    @property
    def n_groups(self) -> int:
        return len(self.counts)

    def __call__(self, theta: Floats, wanted: Bools | None = None) -> tuple[Floats, Floats, Floats]:
        blocks = self.view.plan.blocks
        sums = self.engine.total("solving", curve_of, added, blocks, self.view, theta, wanted)
        value, d1, d2 = sums / np.maximum(self.counts, 1.0)
        return value, d1, d2


def fit(
    engine: Engine,
    plan: Plan,
    facts: Facts,
    calibration: tuple[Ints, Ints],
    trained: tuple[Ints, Ints] | None,
    hidden: Shards | None,
    calibrator: SimiMailbox,
    *,
    used_for_selection: bool = True,
) -> View:
    """Fit a `SimiMailbox` on blocks; what is left is to write probabilities.

    ``calibration`` and ``trained`` are nodes, sorted, and their labels.
    """
    nodes, limits = calibration[0], facts.limits
    known = Known(
        _numbered(limits, calibration), None if trained is None else _numbered(limits, trained)
    )
    z = _gathered(engine, plan, ("logits",), nodes, limits)["logits"]
    y = known.calibration.y
    here = Labelled(torch.arange(len(nodes)), y)
    data = CalibrationData(
        logits=z,
        graph=Graph.empty(len(nodes)),
        calibration=here,
        used_for_selection=used_for_selection,
    )
    if hidden is not None:  # what is to be known of it is found by passes
        data = replace(data, hidden=torch.empty(0, hidden.columns))
    data = replace(data, trained=known.trained)
    prior, at_bound = calibrator._begin(data, plan.nodes * z.shape[1])
    view = _told(engine, View(plan, limits, calibrator.temperature_), known, None)
    frame = evidence.listen(engine, view)
    calibrator.evidence_ = _kept(engine, view, frame, known, hidden)
    baseline = calibrator._first_baseline(data, prior, at_bound)
    if baseline is None:
        assert prior is not None
        belief = prior.belief(hidden=hidden is not None, trained=trained is not None)
        if hidden is not None and "hidden" in belief.terms:
            view, found = _compared(engine, view, hidden, None)
            calibrator.evidence_ |= found
        rows = _gathered(engine, plan, evidence.kinds(view), nodes, limits)
        few = evidence.Rowwise(rows, z, y, frame, view)
        baseline = calibrator._fit_baseline(data, few, prior)
    calibrator.baseline_ = baseline.fields()
    view = _group(engine, view, calibrator, len(nodes))
    promising = bool(baseline.classes) and calibrator.keep_classes
    kinds = ("groups", "similarity", "moved" if view.moved else "scale")
    rows = _gathered(engine, plan, kinds + ("promised",) * promising, nodes, limits)
    calibrator.groups_ = rows.pop("groups").astype(np.int64)
    told = {kind: torch.from_numpy(part) for kind, part in rows.items()}
    few_nodes = FewNodes(
        told.get("moved", z), told.get("scale"), told["similarity"], told.get("promised")
    )
    groups, promised = len(calibrator.centroids_), None
    sizes = engine.total("groups", sizes_of, added, plan.blocks, groups)
    if promising:
        promised = engine.total("groups", promises_of, added, plan.blocks, groups)
    curve = BlockCurve(engine, view, sizes)
    calibrator._fit_groups(data, few_nodes, prior, at_bound, curve, promised)
    del calibrator.groups_  # of the calibration nodes only: those of all lie in the results
    calibrator.num_classes_, calibrator.classes_ = plan.classes, limits.classes
    calibrator.widest_ = limits.widest
    _tell_bounds(calibrator.at_bound_, sizes)
    return view


def look_again(
    engine: Engine,
    plan: Plan,
    calibrator: SimiMailbox,
    named: NodeInputs,
    hidden: Shards | None,
) -> View:
    """The passes of a fitted calibrator on blocks that it has perhaps never seen.

    ``named`` holds labels that are known by now, and training nodes, if there are any.
    """
    kept, limits = calibrator.evidence_, calibrator._logit_range
    parts = [kept_labels(kept, part) for part in ("calibration", "trained") if part in kept]
    if _fingerprint(engine, plan) != kept["graph"]:  # labels of fit are about other nodes
        parts = [NOBODY for _ in parts]
    known = joined(Known(*parts), named, "trained" in kept)
    view = View(plan, limits, calibrator.temperature_)
    view = _told(engine, view, known, kept["counts"])
    evidence.listen(engine, view, Frame.read(kept))
    if "prototypes" in kept:
        assert hidden is not None
        view, _ = _compared(engine, view, hidden, (kept["prototypes"], kept["precision"]))
    return _group(engine, view, calibrator, None)


def _numbered(limits: LogitRange, labelled: tuple[Ints, Ints]) -> Labelled:
    nodes, y = (torch.from_numpy(part) for part in labelled)
    return Labelled(nodes, limits.number(y))


def _gathered(
    engine: Engine, plan: Plan, kinds: tuple[str, ...], nodes: Ints, limits: LogitRange
) -> dict[str, Any]:
    """Rows of some nodes, by kind; logits within their limits."""
    step = "calibration nodes"
    found = {
        kind: engine.total(step, gather, stacked, plan.blocks, plan, kind, nodes) for kind in kinds
    }
    if "logits" in found:
        z = torch.from_numpy(found["logits"])
        found["logits"] = limits.cut(z) if len(z) else z[:, limits.classes]
    return found


def _told(engine: Engine, view: View, known: Known, counts: Floats | None) -> View:
    """The same view, with labels in the store; ``counts`` are those of an earlier fit."""
    parts = [part for part in (known.calibration, known.trained) if part is not None]
    probs = []
    for part in parts:
        order = part.index.argsort()
        nodes = part.index[order].numpy()
        z = _gathered(engine, view.plan, ("logits",), nodes, view.limits)["logits"]
        p = torch.empty_like(z)
        p[order] = scaled_softmax(z, view.temperature)
        probs.append(p)
    digest = evidence.hear(engine.store, view, known, torch.cat(probs))
    found, ours = frequencies(known, view.classes, counts)
    return replace(view, labels=digest, counts=found.numpy(), own=ours)


def _compared(
    engine: Engine, view: View, hidden: Shards, prototypes: tuple[Floats, Floats] | None
) -> tuple[View, dict[str, Floats]]:
    """The same view, with the hidden layer, and what is kept of it."""
    found = evidence.compare(engine, view, hidden, prototypes)
    return replace(view, hidden=True), dict(zip(("prototypes", "precision"), found, strict=True))


def _fingerprint(engine: Engine, plan: Plan) -> str:
    return str(engine.total("graph", fingerprint, _first, [0], plan))


def _first(parts: list[Any]) -> Any:
    return parts[0]


def _kept(
    engine: Engine, view: View, frame: Frame, known: Known, hidden: Shards | None
) -> dict[str, Any]:
    """What prediction needs of the evidence, as a file can hold it."""
    kept = asdict(frame)
    kept["graph"], kept["counts"] = _fingerprint(engine, view.plan), view.counts
    kept["width"] = 0 if hidden is None else hidden.columns
    for part, found in (("calibration", known.calibration), ("trained", known.trained)):
        if found is not None:
            kept[part], kept[f"{part}_labels"] = found.index.numpy(), found.y.numpy()
    return kept


def _group(engine: Engine, view: View, calibrator: SimiMailbox, labelled: int | None) -> View:
    """Points of all nodes, and their groups; these are found if ``labelled`` nodes are to fit."""
    blocks, bare = view.plan.blocks, _bare(calibrator)
    engine.write("points", view_block, blocks, view, bare)
    if labelled is not None:
        grouping = _find_groups(engine, view, calibrator, labelled)
        calibrator.shift_, calibrator.scale_ = grouping.shift, grouping.scale
        calibrator.centroids_ = grouping.centroids
    engine.write("groups", assign_block, blocks, calibrator.grouping_)
    classes = Baseline.read(calibrator.baseline_).classes
    return replace(view, moved=bool(classes) and not calibrator.keep_classes)


def _bare(calibrator: SimiMailbox) -> SimiMailbox:
    """Only what the view of a node depends on."""
    bare = type(calibrator)(**calibrator.get_params())
    for part in ("temperature_", "baseline_", "evidence_"):
        setattr(bare, part, getattr(calibrator, part))
    return bare


def _find_groups(engine: Engine, view: View, calibrator: SimiMailbox, labelled: int) -> Grouping:
    blocks, wanted = view.plan.blocks, calibrator._supported_groups(labelled)
    if view.plan.nodes <= HISTOGRAM_ABOVE:
        points = engine.total("groups", points_of, stacked, blocks)
        return find_groups(points, wanted, scaling=calibrator.scaling, seed=calibrator.seed)
    low, high = engine.total("groups", corners_of, outer_corners, blocks)
    shift, scale = low, high - low
    if calibrator.scaling == "standard":
        shift = engine.total("groups", point_sums, added, blocks) / view.plan.nodes
        scatter = engine.total("groups", point_scatter, added, blocks, shift)
        scale = np.sqrt(scatter / view.plan.nodes)
    scale = np.where(scale > 0, scale, 1.0)
    ends = (low - shift) / scale, (high - shift) / scale
    cells = engine.total("groups", cells_of, added, blocks, shift, scale, *ends)
    return group_points(*cell_means(cells), wanted, shift, scale, calibrator.seed)


def _tell_bounds(stuck: Bools, sizes: Floats) -> None:
    if stuck.any() and len(stuck) > 1:
        warnings.warn(
            f"{int(stuck.sum())} of {len(stuck)} groups, with {int(sizes[stuck].sum())} of "
            f"{int(sizes.sum())} nodes, have their temperature on a bound",
            CalibrationWarning,
            stacklevel=4,
        )
