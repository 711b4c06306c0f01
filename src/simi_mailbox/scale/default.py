"""`SimiMailbox` on blocks: the functions of every pass, and the order in which they are called.

What looks at all nodes is a function of a block. What looks at the calibration nodes, or at a few
numbers of every group, is the code of the calibrator itself.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.calibrators.base import keep_argmax
from simi_mailbox.calibrators.simi_mailbox import bounded_target
from simi_mailbox.calibrators.temperature import bound_message
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
from simi_mailbox.inputs import CalibrationData, Labelled
from simi_mailbox.prior.baseline import Baseline, blend, degree_terms, fit_baseline
from simi_mailbox.prior.files import resolve
from simi_mailbox.prior.model import Prior
from simi_mailbox.scale import tiles
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.inputs import gather
from simi_mailbox.scale.limits import Facts, added, stacked
from simi_mailbox.scale.outputs import Output
from simi_mailbox.scale.plan import Plan
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import name
from simi_mailbox.softmax import Limits, scaled_softmax
from simi_mailbox.temperature import (
    COLDEST,
    HOTTEST,
    ConfidenceCurve,
    fit_confidence,
    global_temperature,
)


@dataclass(frozen=True)
class View:
    """How blocks are looked at: within which limits, and with which baseline."""

    plan: Plan
    limits: Limits
    baseline: Baseline | None = None

    def logits(self, store: Store, block: int) -> Tensor:
        return self.limits.cut(torch.from_numpy(store.get(name("logits", block))))


def lonely(degree: Array) -> Graph:
    """A graph of which only the degrees are known, for what asks for no more."""
    indptr = torch.zeros(len(degree) + 1, dtype=torch.int64)
    torch.cumsum(torch.from_numpy(degree), 0, out=indptr[1:])
    return Graph(indptr, torch.empty(0, dtype=torch.int64))


# --- functions of a block -------------------------------------------------------------------------


def similarity_block(store: Store, block: int, view: View) -> list[Written]:
    """The mailbox of a block's nodes."""
    left = view.logits(store, block)
    onto = np.zeros(len(left))

    def add(entries: Array, right: Array) -> None:
        tiles.add_similarities(entries, left.numpy(), right, onto)

    tiles.neighbour_pass(store, block, view.plan, lambda s, j: view.logits(s, j).numpy(), add)
    onto /= np.maximum(store.get(name("degree", block)), 1)
    return [store.put(name("similarity", block), onto.astype(left.numpy().dtype))]


def degree_sums(store: Store, block: int) -> Floats:
    """Sums of the degree terms, and of the degrees."""
    degree = store.get(name("degree", block))
    return np.array([*degree_terms(lonely(degree)).sum(dim=0).tolist(), float(degree.sum())])


def point_block(store: Store, block: int, view: View) -> list[Written]:
    """(confidence, similarity) of a block's nodes."""
    z, graph = view.logits(store, block), lonely(store.get(name("degree", block)))
    sure = (view.baseline or Baseline(1.0)).confidence(z, graph).numpy()
    points = np.stack([sure, store.get(name("similarity", block)).astype(np.float64)], axis=1)
    return [store.put(name("points", block), points)]


def points_of(store: Store, block: int) -> Floats:
    return store.get(name("points", block))


def corners_of(store: Store, block: int) -> Floats:
    """Smallest and largest coordinates, [2, 2]."""
    points = store.get(name("points", block))
    return np.stack([points.min(axis=0), points.max(axis=0)])


def outer_corners(parts: list[Floats]) -> Floats:
    every = np.stack(parts)
    return np.stack([every[:, 0].min(axis=0), every[:, 1].max(axis=0)])


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


def curve_of(store: Store, block: int, view: View, theta: Floats, wanted: Bools | None) -> Floats:
    """Sums of confidence and its derivatives over the groups' nodes in a block."""
    z = view.logits(store, block)
    group = torch.from_numpy(store.get(name("groups", block)).astype(np.int64))
    scale = None
    if view.baseline is not None:
        scale = view.baseline.scale(lonely(store.get(name("degree", block))))
    return ConfidenceCurve(z, group, len(theta), scale).sums(theta, wanted)


def probability_block(
    store: Store, block: int, view: View, temperatures: Floats, out: Output
) -> list[Written]:
    """Calibrated probabilities of a block's nodes, and their groups, as finished shards."""
    z = view.logits(store, block)
    group = store.get(name("groups", block))
    baseline = view.baseline or Baseline(1.0)
    each = torch.from_numpy(temperatures[group])
    each /= baseline.scale(lonely(store.get(name("degree", block))))
    probs = blend(scaled_softmax(z, each), baseline.blind, z.shape[1])
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
    engine: Engine, plan: Plan, facts: Facts, nodes: Ints, y: Ints, calibrator: SimiMailbox
) -> View:
    """Fit a `SimiMailbox` on blocks; what is left is to assign groups and write probabilities.

    ``nodes`` are the calibration nodes, sorted, and ``y`` their labels.
    """
    view = View(plan, facts.limits)
    engine.write("neighbours", similarity_block, plan.blocks, view)
    sums = engine.total("degrees", degree_sums, added, plan.blocks)
    few = [
        engine.total("calibration nodes", gather, stacked, plan.blocks, plan, kind, nodes)
        for kind in ("logits", "degree")
    ]
    z, graph = facts.limits.cut(torch.from_numpy(few[0])), lonely(few[1])
    here = Labelled(torch.arange(len(nodes)), facts.limits.number(torch.from_numpy(y)))
    data = CalibrationData(logits=z, graph=graph, calibration=here)
    calibrator.temperature_, at_bound = global_temperature(z, here.y)
    if at_bound:
        warnings.warn(
            bound_message(data, calibrator.temperature_), CalibrationWarning, stacklevel=3
        )
    prior = None if calibrator.prior is None else resolve(calibrator.prior)
    if len(nodes) < calibrator.n_groups:
        prior = None
    baseline = _baseline(calibrator, data, prior, at_bound, sums[:2] / plan.nodes)
    calibrator.prior_ = {} if prior is None else prior.to_dict()
    calibrator.baseline_ = asdict(baseline)
    view = replace(view, baseline=None if prior is None else baseline)
    grouping = _group(engine, view, calibrator, len(nodes))
    calibrator.shift_, calibrator.scale_ = grouping.shift, grouping.scale
    calibrator.centroids_ = grouping.centroids
    groups = len(grouping.centroids)
    engine.write("groups", assign_block, plan.blocks, grouping)
    sizes = engine.total("groups", sizes_of, added, plan.blocks, groups)
    group = engine.total("groups", gather, stacked, plan.blocks, plan, "groups", nodes)
    calibrator.counts_ = np.bincount(group, minlength=groups)
    _solve(engine, view, calibrator, data, baseline, prior, sizes, group, facts.unit, at_bound)
    calibrator.num_classes_, calibrator.classes_ = plan.classes, facts.limits.classes
    calibrator.widest_ = facts.limits.widest
    return view


def _baseline(
    calibrator: SimiMailbox,
    data: CalibrationData,
    prior: Prior | None,
    at_bound: bool,
    means: Floats,
) -> Baseline:
    if prior is None or at_bound:
        return calibrator._fit_baseline(data, prior, at_bound)
    terms = degree_terms(data.neighbourhoods) - torch.from_numpy(means)
    found, _ = fit_baseline(data.logits, data.calibration.y, terms, calibrator.temperature_, prior)
    return replace(found, mean_log_degree=float(means[0]), mean_inverse_degree=float(means[1]))


def _group(engine: Engine, view: View, calibrator: SimiMailbox, labelled: int) -> Grouping:
    blocks, wanted = view.plan.blocks, calibrator.n_groups
    engine.write("points", point_block, blocks, view)
    if labelled < wanted:
        warnings.warn(
            f"{labelled} calibration nodes cannot support {wanted} groups: "
            "falling back to one temperature for all nodes",
            CalibrationWarning,
            stacklevel=4,
        )
        wanted = 1
    if view.plan.nodes <= HISTOGRAM_ABOVE:
        points = engine.total("groups", points_of, stacked, blocks)
        return find_groups(points, wanted, seed=calibrator.seed)
    low, high = engine.total("groups", corners_of, outer_corners, blocks)
    shift, scale = low, np.where(high > low, high - low, 1.0)
    ends = (low - shift) / scale, (high - shift) / scale
    cells = engine.total("groups", cells_of, added, blocks, shift, scale, *ends)
    return group_points(*cell_means(cells), wanted, shift, scale, calibrator.seed)


def _solve(
    engine: Engine,
    view: View,
    calibrator: SimiMailbox,
    data: CalibrationData,
    baseline: Baseline,
    prior: Prior | None,
    sizes: Floats,
    group: Ints,
    unit: float,
    at_bound: bool,
) -> None:
    groups = len(sizes)
    if groups == 1:
        calibrator.prior_means_ = np.zeros(1)
        calibrator.prior_strength_ = calibrator._plain_strength
        calibrator.temperatures_ = np.array([baseline.temperature])
        calibrator.at_bound_ = np.array([at_bound])
        return
    curve = BlockCurve(engine, view, sizes)
    theta = np.full(groups, -np.log(baseline.temperature))
    at_start = curve(theta)
    shift = calibrator._shift(data, baseline, at_start[0], group, prior)
    calibrator.prior_means_, calibrator.prior_strength_ = shift.means, shift.strength
    change = shift.value / (1.0 - baseline.blind)
    target = bounded_target(at_start[0], change, data.num_classes)
    unit = unit if unit > 1e-30 else 1.0
    bounds = -float(np.log(HOTTEST * unit)), -float(np.log(COLDEST * unit))
    solution = fit_confidence(curve, target, bounds, start=theta, at_start=at_start)
    calibrator.temperatures_, calibrator.at_bound_ = solution.temperatures, solution.at_bound
    stuck = solution.at_bound
    if stuck.any():
        warnings.warn(
            f"{int(stuck.sum())} of {groups} groups, with {int(sizes[stuck].sum())} of "
            f"{int(sizes.sum())} nodes, have their temperature on a bound",
            CalibrationWarning,
            stacklevel=4,
        )


def look_again(engine: Engine, plan: Plan, limits: Limits, calibrator: SimiMailbox) -> View:
    """The passes of a fitted calibrator on blocks that it has perhaps never seen."""
    baseline = Baseline.read(calibrator.baseline_) if calibrator.prior_ else None
    view = View(plan, limits, baseline)
    engine.write("neighbours", similarity_block, plan.blocks, view)
    engine.write("points", point_block, plan.blocks, view)
    engine.write("groups", assign_block, plan.blocks, calibrator.grouping_)
    return view
