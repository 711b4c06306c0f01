"""From numbers to one HTML page."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable
from functools import cache
from importlib import resources
from types import SimpleNamespace
from typing import Any

import numpy as np

from simi_mailbox import __version__
from simi_mailbox._arrays import Ints
from simi_mailbox._extras import require
from simi_mailbox.report import charts, deciding, formatting, sentences
from simi_mailbox.report.content import Content, View

MOST_CLASSES = 200
"""A page of thousands of rows helps nobody; the largest classes are shown."""

_COVERAGE_TITLES = {
    "degree": "Number of neighbours",
    "mailbox": "Sure and unsure, among whom",
    "class": "Class",
    "size": "Classes in the set",
}
_SLICE_TITLES = {
    "agreement": "Neighbours given the same class",
    "degree": "Number of neighbours",
}


def render(content: Content) -> str:
    """The whole page; every name that users give is escaped by the template."""
    panels, classes = _panels(content), [view.classes for view in content.views]
    style, script = _asset("report.css"), _asset("report.js")
    html: str = _template().render(
        content=SimpleNamespace(
            title=content.title,
            wrong=content.wrong,
            missing=content.missing,
            has_labels=content.has_labels,
            views=panels,
        ),
        facts=_facts(content),
        verdict=sentences.verdict(content),
        figures=_figures(content) if content.has_labels else [],
        judged=len(content.before.judged),
        best=_best(content.views) if content.has_labels else {},
        strip_top=_strip_top(content.views) if content.has_labels else 1.0,
        opened=content.views[-1].key,
        grouped=_grouped(content, panels),
        gap_limit=charts.gap_limit(((c.gap, c.counts) for c in classes), 0.05, otherwise=0.1),
        classes=classes,
        largest=_largest_classes(content.views),
        class_rest=content.inputs.num_classes
        if content.inputs.num_classes > MOST_CLASSES
        else None,
        tempered=[panel for panel in panels if panel.temperatures is not None],
        settings=_settings(content),
        version=__version__,
        style=charts.Svg(style),
        script=charts.Svg(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return html


def _template() -> Any:
    jinja2 = require("jinja2", extra="report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        percent=formatting.percent,
        points=formatting.points,
        count=formatting.count,
        nodes=formatting.nodes,
        number=formatting.number,
        raw=_raw,
    )
    environment.globals.update(gap_bar=charts.gap_bar, score_strip=charts.score_strip)
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


def _label(view: View, content: Content) -> str:
    if view is not content.before:
        return view.name
    return "Before" if len(content.views) > 1 else "The model"


def _panels(content: Content) -> list[SimpleNamespace]:
    heats = [view.heat for view in content.views if view.heat is not None]
    limit = charts.gap_limit(((heat.gap, heat.counts) for heat in heats), 0.1, 0.5)
    return [_panel(view, content, limit) for view in content.views]


def _panel(view: View, content: Content, limit: float) -> SimpleNamespace:
    first, label = content.before, _label(view, content)
    known = content.has_labels
    heat = None
    if view.heat is not None and view.bar is not None:
        heat = charts.heat_chart(view.heat, view.bar, label, limit)
    spread = (
        view.temperatures is not None
        and view.temperatures.largest > (1 + 1e-6) * view.temperatures.smallest
    )
    return SimpleNamespace(
        key=view.key,
        label=label,
        said=view.said,
        scores=view.scores,
        warnings=view.warnings,
        heat=view.heat,
        slices=view.slices,
        temperatures=view.temperatures,
        uniform_weight=view.uniform_weight,
        temperature_chart=charts.histogram(view.temperatures, label)
        if spread and view.temperatures is not None
        else None,
        reliability=charts.confidence_chart(view.histogram, label)
        if view.curve is None
        else charts.reliability_chart(view.curve, label, None if view is first else first.curve),
        examples=sentences.examples(view) if known else [],
        direction=sentences.direction(view) if known else "",
        standing=sentences.standing(view) if known else "",
        change="" if view is first else sentences.change(first, view),
        bins=_bin_rows(view),
        heat_chart=heat,
        heat_reading=sentences.corners(view),
        decisions=_decisions(view, label),
        slice_charts=[
            (_slice_title(table.by, content), charts.slice_chart(table, label))
            for table in view.slices
        ],
    )


def _decisions(view: View, label: str) -> SimpleNamespace | None:
    found = view.decisions
    if found is None:
        return None
    return SimpleNamespace(
        chart=charts.acceptance_chart(found.acceptances, deciding.FIRST, label),
        first=deciding.FIRST,
        last=len(found.acceptances) - 1,
        rows=[
            SimpleNamespace(step=step, told=sentences.accepted(step)) for step in found.acceptances
        ],
        promise=sentences.promise(found),
        sets=sentences.sets(found.sets),
        slices=[
            SimpleNamespace(
                title=_COVERAGE_TITLES[table.by],
                chart=charts.coverage_chart(table, found.sets.promised, label),
                told=sentences.for_whom(table),
            )
            for table in found.sets.slices
        ],
    )


def _slice_title(by: str, content: Content) -> str:
    return _SLICE_TITLES.get(by, f"Steps to the nearest {content.labelled} node")


def _bin_rows(view: View) -> list[SimpleNamespace]:
    bins = len(view.histogram)
    return [
        SimpleNamespace(
            range=f"{100 * b / bins:.0f}–{formatting.percent((b + 1) / bins, 0)}",
            count=int(view.histogram[b]),
            said=math.nan if view.curve is None else float(view.curve.confidence[b]),
            right=math.nan if view.curve is None else float(view.curve.accuracy[b]),
        )
        for b in np.flatnonzero(view.histogram)
    ]


def _facts(content: Content) -> list[str]:
    inputs = content.inputs
    facts = [formatting.nodes(inputs.num_nodes), f"{formatting.count(inputs.num_classes)} classes"]
    if inputs.graph is not None:
        share = 1 if inputs.graph.is_directed else 2
        facts.insert(1, f"{formatting.count(inputs.graph.num_entries // share)} edges")
    if inputs.calibration is not None:
        facts.append(f"calibrated on {formatting.count(inputs.calibration.size)}")
    if content.has_labels:
        facts.append(f"judged on {formatting.count(len(content.before.judged))}")
    return facts


def _figures(content: Content) -> list[SimpleNamespace]:
    """The large numbers at the top: before, and the last method after."""
    before, after = content.before, content.views[-1]
    assert before.scores is not None
    assert after.scores is not None
    alone = after is before
    old, new = before.scores.values, after.scores.values
    ece, same = after.scores.ece, alone or after.changed == 0
    level = f"{100 * ece.level:.0f}{formatting.THIN}% interval"
    percent, number = formatting.percent, formatting.number
    kept = "no predicted class changes" if same else "of predicted classes"
    rows = [
        (
            "Calibration error",
            "" if alone else percent(old["ece"]),
            percent(new["ece"]),
            f"{percent(ece.low)} to {percent(ece.high)}, {level}",
        ),
        (
            "By chance alone",
            "",
            percent(after.scores.floor.mean),
            "for a perfectly calibrated model",
        ),
        ("Log-loss", "" if alone else number(old["nll"]), number(new["nll"]), "lower is better"),
        (
            "Accuracy",
            "" if same else percent(old["accuracy"]),
            percent(new["accuracy"]),
            "" if alone else kept,
        ),
    ]
    return [
        SimpleNamespace(name=name, old=was, new=now, note=note) for name, was, now, note in rows
    ]


def _best(views: Iterable[View]) -> dict[str, list[str]]:
    """Keys of the views with the lowest value of each metric, as it is printed."""
    best = {}
    for metric, digits in (("ece", 3), ("nll", 3), ("brier", 3)):
        values = {v.key: round(v.scores.values[metric], digits) for v in views if v.scores}
        lowest = min(values.values())
        best[metric] = [key for key, value in values.items() if value == lowest]
    return best


def _strip_top(views: Iterable[View]) -> float:
    return max(
        [0.01]
        + [
            max(v.scores.ece.high, v.scores.values["ece"], v.scores.floor.mean)
            for v in views
            if v.scores
        ]
    )


def _grouped(content: Content, panels: list[SimpleNamespace]) -> list[SimpleNamespace]:
    """Groups of every method that has them; the first stands in for views without groups."""
    owners = [view.key for view in content.views if view.groups is not None]
    others = [view.key for view in content.views if view.groups is None]
    made = []
    for view, panel in zip(content.views, panels, strict=True):
        if view.groups is None:
            continue
        first = view.key == owners[0]
        judged = [(view.groups.gap_before, view.groups.judged)]
        limit = charts.gap_limit(judged, 0.05, 0.5, otherwise=0.2)
        after = [view.key, *(key for key in others if first and key != content.before.key)]
        made.append(
            SimpleNamespace(
                label=panel.label,
                shown_in=" ".join([*after, content.before.key] if first else after),
                shown_after=" ".join(after),
                before_chart=charts.group_chart(view.groups, panel.label, after=False, limit=limit)
                if first
                else None,
                after_chart=charts.group_chart(view.groups, panel.label, after=True, limit=limit),
                worst=sentences.worst_groups(view) if content.has_labels else [],
                groups=view.groups,
                there=np.flatnonzero(view.groups.sizes),
            )
        )
    return made


def _largest_classes(views: tuple[View, ...]) -> Ints:
    return np.sort(np.argsort(-views[0].classes.counts, kind="stable")[:MOST_CLASSES])


def _settings(content: Content) -> list[tuple[str, str]]:
    inputs = content.inputs
    rows = [(_label(view, content), view.settings) for view in content.views]
    for name, index in (("Calibration nodes", inputs.calibration), ("Judged on", inputs.test)):
        rows.append((name, "not given" if index is None else formatting.nodes(index.size)))
    if inputs.graph is not None:
        rows.append(("Graph", f"{inputs.graph!r}, fingerprint {inputs.graph.fingerprint()}"))
    rows.append(("Bins", "15 of equal width for errors and curves, 10 × 10 for the heat map"))
    if content.has_labels:
        rows.append(
            ("Intervals", "bootstrap over nodes, 95 %; too narrow where neighbours err together")
        )
    return [*rows, *content.versions]
