"""From numbers to one HTML page: ``page/report.html`` arranges pictures and sentences."""

import base64
import hashlib
import math
import platform
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import torch

from simi_mailbox import __version__, plots
from simi_mailbox._arrays import Ints
from simi_mailbox._extras import require
from simi_mailbox.plots.picture import (
    Picture,
    Shapes,
    count,
    nodes,
    number,
    percent,
    percent_axis,
    points,
)
from simi_mailbox.plots.svg import Svg, attribute, legend, svg
from simi_mailbox.report import sentences
from simi_mailbox.report.content import COVERAGE, Acceptance, Content, MethodView, OneClass

MOST_CLASSES = 200
"""A page of thousands of rows helps nobody; the largest classes are shown."""


def render(content: Content) -> str:
    """The whole page; every name that users give is escaped by the template."""
    jinja2 = require("jinja2", extra="report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    words = (percent, points, count, nodes, number, svg, legend, attribute)
    environment.filters.update({function.__name__: function for function in words}, raw=_raw)
    last, scores = content.after.decisions, [view.scores for view in content.views if view.scores]
    shown: dict[str, Any] = {
        "start": 0 if last is None else opening_step(last.acceptances),
        "figures": _figures(content) if content.has_labels else [],
        "strip_top": max(max(s.ece.high, s.values["ece"], s.floor.mean, 0.01) for s in scores)
        if scores
        else 1.0,
        "packages": {
            "simi-mailbox": __version__,
            "Python": platform.python_version(),
            "PyTorch": torch.__version__,
            "NumPy": np.__version__,
        },
    }
    for name, file in (("style", "report.css"), ("script", "report.js")):
        text = _asset(file)
        # What the page's security policy names the one style sheet and the one script by.
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        shown |= {name: Svg(text), f"{name}_hash": f"sha256-{digest}"}
    page: str = environment.from_string(_asset("report.html")).render(
        content=content,
        plots=plots,
        sentences=sentences,
        largest_classes=_largest_classes,
        precision_recall=precision_recall,
        coverage=COVERAGE,
        **shown,
    )
    return page


def opening_step(steps: Sequence[Acceptance]) -> int:
    """Where the slider starts: the least error rate that accepts half of the nodes, or the most."""
    return int(np.argmax([min(step.share, 0.5) for step in steps]))


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


@cache
def _asset(name: str) -> str:
    return resources.files("simi_mailbox.report").joinpath("page", name).read_text("utf-8")


def _raw(value: float) -> str:
    """A number for sorting; nothing where it is not known."""
    return "" if math.isnan(value) else f"{value:.6g}"


def _largest_classes(view: MethodView) -> Ints:
    """Classes that are predicted for some node, at most so many, in their order."""
    counts = view.classes.counts
    order = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    return np.sort(order[counts[order] > 0])


def _figures(content: Content) -> list[tuple[str, str, str, str]]:
    """The large numbers at the top: name, before, after the last method, and a note."""
    before, after = content.before, content.after
    assert before.scores is not None
    assert after.scores is not None
    alone = after is before
    old, new, ece = before.scores.values, after.scores.values, after.scores.ece
    interval = f"{percent(ece.low)} to {percent(ece.high)}, {percent(ece.level, 0)} interval"
    kept = "of predicted classes" if after.changed else "no predicted class changes"
    accuracy = percent(old["accuracy"]) if after.changed else ""
    rows = []
    if content.of_class:
        was, now, what = content.of_class[0], content.of_class[-1], content.positive
        note = f"of {count(now.at.positives)}, by {count(now.at.alerts)} alerts"
        rows += [
            (f"Caught, {what}", f"{was.at.hits:,.0f}", f"{now.at.hits:,.0f}", note),
            (f"Missed, {what}", count(was.missed), count(now.missed), ""),
            ("ECE of P(class)", percent(was.ece), percent(now.ece), ""),
        ]
    rows += [
        ("Calibration error (ECE)", percent(old["ece"]), percent(new["ece"]), interval),
        ("Noise floor", "", percent(after.scores.floor.mean), "ECE of a calibrated model"),
        ("Log-loss", number(old["nll"]), number(new["nll"]), "lower is better"),
        ("Accuracy", accuracy, percent(new["accuracy"]), "" if alone else kept),
    ]
    return [(name, "" if alone else was, now, note) for name, was, now, note in rows]
