"""`SimiMailbox` on blocks: passes supply sums over neighbours, all else is its own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.calibrators.simi_mailbox.calibrator import enough, sketch
from simi_mailbox.calibrators.simi_mailbox.groups import nearest
from simi_mailbox.calibrators.simi_mailbox.model import reference_temperature
from simi_mailbox.calibrators.simi_mailbox.prior import resolve
from simi_mailbox.grouping import Combine, Grouping, added, find_groups_in, stacked
from simi_mailbox.scale import evidence
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.evidence import View
from simi_mailbox.scale.inputs import gather
from simi_mailbox.scale.limits import median
from simi_mailbox.scale.outputs import Output
from simi_mailbox.scale.plan import Plan
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import fingerprint, name
from simi_mailbox.softmax import LogitRange, keep_argmax
from simi_mailbox.validation import Labelled, NodeInputs

# --- functions of a block -------------------------------------------------------------------------


def points_block(store: Store, block: int, view: View, calibrator: SimiMailbox) -> list[Written]:
    """What the nodes of a block are grouped by."""
    degree, similarity = (
        torch.from_numpy(store.get(name(kind, block))) for kind in ("degree", "similarity")
    )
    points = calibrator._points(view.logits(store, block), degree, similarity)
    return [store.put(name("points", block), points)]


def of_points(store: Store, block: int, function: Callable[..., Any], *args: Any) -> Any:
    return function(store.get(name("points", block)), *args)


def nearest_block(store: Store, block: int, grouping: Grouping) -> list[Written]:
    found = nearest(grouping, store.get(name("points", block)))
    return [store.put(name("nearest", block), found)]


def identity_of(store: Store, _block: int, view: View) -> tuple[str, Floats]:
    """What graph and logits are known again by, as of nodes in memory."""
    plan = view.plan
    return fingerprint(store, plan), sketch(view.logits(store, b) for b in plan.blocks)


def entries_of(store: Store, block: int) -> int:
    return int(store.get(name("degree", block)).sum())


def probability_block(
    store: Store, block: int, view: View, calibrator: SimiMailbox, out: Output
) -> list[Written]:
    """Calibrated probabilities of a block's nodes, and their groups, as finished shards."""
    sums = evidence.sums_of(store, block, view)
    groups = calibrator._soft.grouping.assign(calibrator._points_of(sums))
    probs = calibrator._probabilities(sums)
    if calibrator.keep_classes:
        keep_argmax(probs, sums.logits)
    return out.block(block, view.limits.restore(probs).numpy(), groups)


# --- the whole ------------------------------------------------------------------------------------


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
    prior = resolve(calibrator.prior)
    nodes, y = (torch.from_numpy(part) for part in calibration)
    labelled = Labelled(nodes, limits.number(y))
    z = _logits_of(engine, View(plan, limits, 1.0), nodes)
    chosen = enough(labelled, z)
    few = z[torch.isin(nodes, chosen.index)].double().numpy()
    calibrator.temperature_ = reference_temperature(few, chosen.y.numpy())
    view = View(plan, limits, calibrator.temperature_)
    evidence.pass_predictions(engine, view)
    totals = engine.total("units", evidence.totals_of, added, plan.blocks)
    calibrator._take_units(totals)
    _group(engine, view, calibrator)
    view = evidence.put_labels(engine.store, view, labelled, z)
    evidence.pass_labels(engine, view)
    if hidden is not None:
        means, precision = evidence.find_prototypes(engine, view, hidden, totals[5:])
        calibrator.hidden_ = {"means": means, "precision": precision}
        view = evidence.pass_hidden(engine, view, hidden, (means, precision))
    given = (plan.blocks, view, chosen.index.numpy())
    step, look = "calibration nodes", evidence.sums_of_nodes
    sums = engine.total(step, look, evidence.stacked_sums, *given)
    calibrator._fit_model(
        calibrator._nodes(sums), chosen.y.numpy(), prior, selected=used_for_selection
    )
    calibrator._keep_labels(labelled, *_identity(engine, view))
    calibrator.num_classes_, calibrator.classes_ = plan.classes, limits.classes
    calibrator.widest_ = limits.widest
    return view


def look_again(
    engine: Engine, plan: Plan, calibrator: SimiMailbox, named: NodeInputs, hidden: Shards | None
) -> View:
    """The passes of a fitted calibrator on blocks that it has perhaps never seen.

    ``named`` holds labels that are known by now, and training nodes, if there are any.
    """
    view = View(plan, calibrator._logit_range, calibrator.temperature_)
    evidence.pass_predictions(engine, view)
    known = calibrator._known(named, lambda: _identity(engine, view))
    order = known.index.argsort()
    known = Labelled(known.index[order], known.y[order])
    view = evidence.put_labels(engine.store, view, known, _logits_of(engine, view, known.index))
    evidence.pass_labels(engine, view)
    if hidden is not None:
        kept = calibrator.hidden_
        view = evidence.pass_hidden(engine, view, hidden, (kept["means"], kept["precision"]))
    return view


def write(engine: Engine, view: View, calibrator: SimiMailbox, out: Output) -> list[Written]:
    """Probabilities and groups of all nodes."""
    given = (view.plan.blocks, view, _without_labels(calibrator), out)
    return engine.write("writing", probability_block, *given)


def _logits_of(engine: Engine, view: View, nodes: Tensor) -> Tensor:
    given = (view.plan.blocks, view.plan, "logits", nodes.numpy())
    return view.cut(engine.total("calibration nodes", gather, stacked, *given))


def _identity(engine: Engine, view: View) -> tuple[str, Floats]:
    found: tuple[str, Floats] = engine.total("identity", identity_of, _only, [0], view)
    return found


def _only(parts: list[Any]) -> Any:
    return parts[0]


def _group(engine: Engine, view: View, calibrator: SimiMailbox) -> None:
    """Groups, from the points of all nodes."""
    blocks, cal = view.plan.blocks, calibrator

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
        if part not in ("labels_", "groups_", "similarity_"):
            setattr(bare, part, value)
    return bare
