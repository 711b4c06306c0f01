"""What a report says of one class: caught, missed, workload, and what that costs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox import metrics
from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.plots.picture import Picture, Shapes, count, nodes, percent, percent_axis

TOP = 10
CURVE = 400


@dataclass(frozen=True)
class OneClass:
    """The test nodes by P(class) of one method.

    ``at`` is what nodes with P(class) ≥ ``threshold`` hold, ``top`` what as many nodes of highest P
    hold as are of the class by their probabilities; ``highest`` are places, P and truth of the
    first nodes, ``cost`` what misses and reviews cost.
    """

    name: str
    threshold: float
    at: metrics.Alerts
    top: metrics.Alerts
    expected: float
    ece: float
    precision: float
    curve: tuple[Floats, Floats]
    highest: tuple[tuple[str, float, bool], ...]
    nll: Floats
    cost: float | None = None

    @property
    def missed(self) -> int:
        return round(self.at.positives - self.at.hits)


def one_class(
    name: str, p: Floats, is_class: Bools, names: Any, costs: tuple[float, float] | None = None
) -> OneClass:
    """P(class) of some nodes judged; ``costs`` are of a miss and of a review."""
    threshold = 0.5 if costs is None else min(costs[1] / costs[0], 1.0)
    at = metrics.alerts(p, is_class, threshold=threshold)
    expected = float(p.sum())
    order = np.argsort(-p, kind="stable")
    hits = np.cumsum(is_class[order])
    last = np.flatnonzero(np.r_[np.diff(p[order]) != 0, True])
    last = last[np.linspace(0, len(last) - 1, min(CURVE, len(last))).astype(int)]
    return OneClass(
        name=name,
        threshold=threshold,
        at=at,
        top=metrics.alerts(p, is_class, top=min(max(round(expected), 1), len(p))),
        expected=expected,
        ece=metrics.class_ece(p, is_class),
        precision=metrics.average_precision(p, is_class),
        curve=(hits[last] / max(hits[-1], 1), hits[last] / (last + 1)),
        highest=tuple((str(names[k]), float(p[k]), bool(is_class[k])) for k in order[:TOP]),
        nll=-np.log(np.maximum(np.where(is_class, p, 1 - p), 1e-300)),
        cost=None if costs is None else np.dot(costs, (at.positives - at.hits, at.alerts)),
    )


def first_sentence(what: str, before: OneClass, after: OneClass) -> str:
    """Caught, missed and workload, before and after; accuracy is not what counts here."""
    told = f"Of {count(before.at.positives)} {what} among {nodes(before.at.nodes)}, "
    told += f"{_caught(before)}."
    if after is not before:
        told += f" After {after.name}: {_caught(after)}."
    hits, missed = after.top.hits, after.top.positives - after.top.hits
    told += (
        f" The {nodes(after.top.alerts)} of highest probability, as many as are expected to be "
        f"{what}, hold {hits:,.0f} of them and miss {missed:,.0f}."
    )
    if before.cost is not None and after.cost is not None:
        told += f" Misses and reviews cost {before.cost:,.4g} before and {after.cost:,.4g} after."
    return told


def _caught(view: OneClass) -> str:
    return (
        f"{view.at.hits:,.0f} are caught by {count(view.at.alerts)} alerts (P ≥ "
        f"{percent(view.threshold, 0)}) and {count(view.missed)} missed"
    )


def platt_is_as_good(views: tuple[OneClass, ...]) -> str:
    """Whether Platt scaling predicts the class as well as the last method, by log-loss."""
    platt = next((view for view in views if view.name == "platt"), None)
    if platt is None or platt is views[-1]:
        return ""
    gap = platt.nll - views[-1].nll
    if gap.mean() > 2 * gap.std() / np.sqrt(len(gap)):
        return ""
    return f"Platt scaling is as good here as {views[-1].name}, by the log-loss of P(class)."


def precision_recall(view: OneClass, what: str) -> Picture:
    """Precision against recall, with the operating point."""
    point = view.at if view.at.alerts else view.top
    alerts = f"{count(point.alerts)} alerts"
    named = f"{view.name}, AUPRC {percent(view.precision)}"
    shapes = [
        Shapes("line", "curve", *view.curve, label=named),
        Shapes("dots", "over", [point.recall], [point.precision], label=alerts, tips=[alerts]),
    ]
    x = percent_axis("recall: share of the class that is caught", grid=True)
    y = percent_axis("precision: share of the class among alerts", grid=True)
    return Picture(f"Precision and recall of {what}, {view.name}", x, y, shapes, square=True)
