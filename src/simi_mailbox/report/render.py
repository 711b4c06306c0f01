"""From numbers to one HTML page."""

import base64
import hashlib
import math
from functools import cache
from importlib import resources
from types import SimpleNamespace
from typing import Any

import numpy as np

from simi_mailbox import __version__, plots
from simi_mailbox._arrays import Ints
from simi_mailbox._extras import require
from simi_mailbox.plots.picture import count, nodes, number, percent, points
from simi_mailbox.plots.svg import Svg, legend, svg, tag
from simi_mailbox.report import sentences
from simi_mailbox.report.content import Content, MethodView, versions
from simi_mailbox.report.deciding import opening_step
from simi_mailbox.report.one_class import platt_is_as_good, precision_recall


def score_strip(value: float, low: float, high: float, floor: float, top: float) -> Svg:
    """A calibration error on a line from 0 to ``top``, with its interval and the noise floor."""
    width, height, margin = 220.0, 26.0, 7.0
    y = {"y1": height / 2, "y2": height / 2}

    def x(share: float) -> float:
        return margin + (width - 2 * margin) * min(share / top, 1.0)

    return tag(
        "svg",
        tag("rect", x=margin, y=5.0, width=x(floor) - margin, height=height - 10, class_="floor"),
        tag("line", x1=margin, x2=width - margin, **y, class_="grid"),
        tag("line", x1=x(low), x2=x(high), **y, class_="band"),
        tag("circle", cx=x(value), cy=height / 2, r=5.0, class_="dot"),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_="strip",
        role="img",
        aria_label=f"{percent(value)}, interval {percent(low)} to {percent(high)}",
    )


def gap_bar(gap: float, limit: float) -> Svg:
    """A gap as a bar to the left (over-confident) or to the right (under-confident)."""
    if math.isnan(gap):
        return Svg("")
    width, height = 64.0, 12.0
    size = width / 2 * min(abs(gap) / limit, 1.0)
    left = width / 2 if gap > 0 else width / 2 - size
    style = "under" if gap > 0 else "over"
    return tag(
        "svg",
        tag("line", x1=width / 2, x2=width / 2, y1=0.0, y2=height, class_="base"),
        tag("rect", x=left, y=2.0, width=size, height=height - 4, class_=style),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_="gapbar",
        aria_hidden="true",
    )


TITLES = {
    "agreement": "Neighbours with the same predicted class",
    "degree": "Number of neighbours",
    "distance": "Steps to the nearest labelled node",
    "mailbox": "Confidence / neighbour agreement",
    "class": "Class",
    "size": "Classes in the set",
}
MOST_CLASSES = 200
"""A page of thousands of rows helps nobody; the largest classes are shown."""
ROWS = 20
"""Rows from which on a table scrolls in a box of its own."""


def render(content: Content) -> str:
    """The whole page; every name that users give is escaped by the template."""
    style, script = _asset("report.css"), _asset("report.js")
    last = content.after.decisions
    start = 0 if last is None else opening_step(last.acceptances)
    panels = [_panel(view, content, start) for view in content.views]
    html: str = _template().render(
        content=content,
        views=panels,
        facts=_facts(content),
        verdict=sentences.verdict(content),
        figures=_figures(content) if content.has_labels else [],
        best=_best(content) if content.has_labels else {},
        strip_top=_strip_top(content) if content.has_labels else 1.0,
        start=start,
        grouped=_grouped(content, panels),
        rows=ROWS,
        settings=_settings(content),
        version=__version__,
        style=Svg(style),
        script=Svg(script),
        of_class=_of_class(content),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return html


def _template() -> Any:
    jinja2 = require("jinja2", extra="report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=percent, points=points, count=count, nodes=nodes)
    environment.filters.update(number=number, raw=_raw, svg=svg, legend=legend)
    environment.globals.update(gap_bar=gap_bar, score_strip=score_strip)
    return environment.from_string(_asset("report.html"))


@cache
def _asset(name: str) -> str:
    return resources.files("simi_mailbox.report").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    """What the page's security policy names the one style sheet and the one script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _raw(value: float) -> str:
    """A number for sorting; nothing where it is not known."""
    return "" if math.isnan(value) else f"{value:.6g}"


def _label(view: MethodView, content: Content) -> str:
    if view is not content.before:
        return view.name
    return "uncalibrated" if len(content.views) > 1 else "model"


def _panel(view: MethodView, content: Content, start: int) -> SimpleNamespace:
    """A view with its pictures and sentences."""
    first, label, known = content.before, _label(view, content), content.has_labels
    if view.curve is None:
        reliability = plots.confidence_histogram(view.histogram, label=label)
    else:
        behind = None if view is first else first.curve
        reliability = plots.reliability_diagram(view.curve, label=label, before=behind)
    t = view.temperatures
    spread = t is not None and t.largest > (1 + 1e-6) * t.smallest
    return SimpleNamespace(
        **vars(view),
        label=label,
        confidence=view.confidence,
        reliability=reliability,
        examples=sentences.examples(view) if known else [],
        direction=sentences.direction(view) if known else "",
        standing=sentences.standing(view) if known else "",
        change="" if view is first else sentences.change(first, view),
        bins=_bin_rows(view),
        heat_chart=None if view.heat is None else plots.heat_map(view.heat, label=label),
        corners=sentences.corners(view),
        decided=_decisions(view, label, start),
        slice_charts=[(TITLES[t.by], plots.slice_dots(t, label=label)) for t in view.slices],
        temperature_chart=plots.temperature_histogram(t, label=label) if spread and t else None,
        largest=_largest_classes(view),
    )


def _largest_classes(view: MethodView) -> Ints:
    """Classes that are predicted for some node, at most so many, in their order."""
    counts = view.classes.counts
    order = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    return np.sort(order[counts[order] > 0])


def _decisions(view: MethodView, label: str, start: int) -> SimpleNamespace | None:
    found = view.decisions
    if found is None:
        return None
    steps, target = found.acceptances, found.sets.target
    rates, shares = [step.allowed for step in steps], [step.share for step in steps]
    return SimpleNamespace(
        chart=plots.acceptance_bars(rates, shares, here=start, label=label),
        last=len(steps) - 1,
        rows=[SimpleNamespace(step=step, told=sentences.accepted(step)) for step in steps],
        guarantee=sentences.guarantee(found),
        sets=sentences.sets(found.sets),
        slices=[
            SimpleNamespace(
                title=TITLES[table.by],
                chart=plots.coverage_bars(table, target=target, label=label),
                told=sentences.undercoverage(table),
            )
            for table in found.sets.slices
        ],
    )


def _bin_rows(view: MethodView) -> list[SimpleNamespace]:
    bins, curve = len(view.histogram), view.curve
    return [
        SimpleNamespace(
            range=f"{100 * b / bins:.0f}–{percent((b + 1) / bins, 0)}",
            count=int(view.histogram[b]),
            confidence=math.nan if curve is None else float(curve.confidence[b]),
            accuracy=math.nan if curve is None else float(curve.accuracy[b]),
        )
        for b in np.flatnonzero(view.histogram)
    ]


def _facts(content: Content) -> list[str]:
    inputs = content.inputs
    facts = [nodes(inputs.num_nodes), f"{count(inputs.num_classes)} classes"]
    if inputs.graph is not None:
        share = 1 if inputs.graph.is_directed else 2
        facts.insert(1, f"{count(inputs.graph.num_entries // share)} edges")
    if inputs.calibration is not None:
        facts.append(f"{count(inputs.calibration.size)} calibration nodes")
    if content.has_labels:
        facts.append(f"{count(len(content.before.judged))} test nodes")
    return facts


def _figures(content: Content) -> list[SimpleNamespace]:
    """The large numbers at the top: before, and the last method after."""
    before, after = content.before, content.after
    assert before.scores is not None
    assert after.scores is not None
    alone = after is before
    old, new, ece = before.scores.values, after.scores.values, after.scores.ece
    same = alone or after.changed == 0
    interval = f"{percent(ece.low)} to {percent(ece.high)}, {percent(ece.level, 0)} interval"
    kept = "no predicted class changes" if same else "of predicted classes"
    rows = []
    if content.of_class:
        was, now = content.of_class[0], content.of_class[-1]
        rows += [
            (f"Caught, {content.positive}", f"{was.at.hits:,.0f}", f"{now.at.hits:,.0f}",
             f"of {count(now.at.positives)}, by {count(now.at.alerts)} alerts"),
            (f"Missed, {content.positive}", count(was.missed), count(now.missed), ""),
            ("ECE of P(class)", percent(was.ece), percent(now.ece), ""),
        ]  # fmt: skip
    rows += [
        ("Calibration error (ECE)", percent(old["ece"]), percent(new["ece"]), interval),
        ("Noise floor", "", percent(after.scores.floor.mean), "ECE of a calibrated model"),
        ("Log-loss", number(old["nll"]), number(new["nll"]), "lower is better"),
        (
            "Accuracy",
            "" if same else percent(old["accuracy"]),
            percent(new["accuracy"]),
            "" if alone else kept,
        ),
    ]
    return [
        SimpleNamespace(name=name, old="" if alone else was, new=now, note=note)
        for name, was, now, note in rows
    ]


def _of_class(content: Content) -> SimpleNamespace | None:
    """The section of the class that is acted on."""
    if not content.of_class:
        return None
    return SimpleNamespace(
        name=content.positive,
        rows=content.of_class,
        chart=precision_recall(content.of_class[-1], content.positive),
        highest=content.of_class[-1].highest,
        platt=platt_is_as_good(content.of_class),
        cost=content.of_class[-1].cost,
    )


def _best(content: Content) -> dict[str, list[str]]:
    """Keys of the views with the lowest value of each metric, as it is printed."""
    best = {}
    for metric in ("ece", "nll", "brier"):
        values = {v.key: round(v.scores.values[metric], 3) for v in content.views if v.scores}
        lowest = min(values.values())
        best[metric] = [key for key, value in values.items() if value == lowest]
    return best


def _strip_top(content: Content) -> float:
    scores = [view.scores for view in content.views if view.scores]
    return max([0.01, *(max(s.ece.high, s.values["ece"], s.floor.mean) for s in scores)])


def _grouped(content: Content, panels: list[SimpleNamespace]) -> list[SimpleNamespace]:
    """Groups of every method that has them; the first stands in for views without groups."""
    owners = [panel for panel in panels if panel.groups is not None]
    others = [panel.key for panel in panels if panel.groups is None]
    made = []
    for view, panel in zip(content.views, panels, strict=True):
        if view.groups is None:
            continue
        keys = [panel.key, *(others if panel is owners[0] else [])]
        made.append(
            SimpleNamespace(
                label=panel.label,
                shown_in=" ".join(keys),
                shown_after=" ".join(key for key in keys if key != content.before.key),
                before_chart=plots.group_scatter(view.groups, label=panel.label, after=False)
                if panel is owners[0]
                else None,
                after_chart=plots.group_scatter(view.groups, label=panel.label),
                worst=sentences.worst_groups(view) if content.has_labels else [],
                groups=view.groups,
                there=np.flatnonzero(view.groups.sizes),
            )
        )
    return made


def _settings(content: Content) -> list[tuple[str, str]]:
    inputs = content.inputs
    rows = [(_label(view, content), view.settings) for view in content.views]
    for name, index in (("Calibration nodes", inputs.calibration), ("Test nodes", inputs.test)):
        rows.append((name, "not given" if index is None else nodes(index.size)))
    if inputs.graph is not None:
        rows.append(("Graph", f"{inputs.graph!r}, fingerprint {inputs.graph.fingerprint()}"))
    rows.append(("Bins", "15 of equal width for errors and curves, 10 × 10 for the heat map"))
    if content.has_labels:
        note = "bootstrap over nodes, 95 %; too narrow where neighbours err together"
        rows.append(("Intervals", note))
    return [*rows, *versions()]
