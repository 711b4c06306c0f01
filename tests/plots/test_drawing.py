"""Every picture comes out alike as SVG and on matplotlib axes, and changes nothing else."""

import re
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest

from simi_mailbox import metrics, plots
from simi_mailbox.plots.draw import STYLES, UNSEEN
from simi_mailbox.plots.svg import legend

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is an optional extra")

SHEET = Path(__file__).parents[2] / "src/simi_mailbox/report/page/report.css"
KINDS = ("reliability", "confidence", "heat", "amounts", "groups", "temperatures", "risk")
KINDS += ("coverage", "slices", "acceptance")


@pytest.mark.parametrize("kind", KINDS)
def test_plot_draws_on_the_axes_given_what_the_svg_has_and_opens_no_other_figure(pictures, kind):
    plt.close("all")  # those of other tests
    picture = pictures[kind]
    figure, (left, right) = plt.subplots(1, 2)
    assert picture.plot(left) is left
    assert left.has_data()
    assert not right.has_data()
    assert plt.get_fignums() == [figure.number]
    assert picture.plot() not in (left, right)
    ax, root = picture.plot(), ElementTree.fromstring(picture.svg())
    texts = [text.text or "" for text in root.iter("text")]
    ticks = [label.get_text() for label in ax.get_xticklabels() + ax.get_yticklabels()]
    titles = [ax.get_xlabel()] + ([ax.get_ylabel()] if picture.y.label else [])
    assert sorted(ticks + titles) == sorted(texts)
    items = ElementTree.fromstring(legend(picture)).iter("li")
    named = ["".join(item.itertext()) for item in items]
    assert named == [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_shape_is_drawn_within_the_field_in_a_known_style(pictures, kind):
    picture = pictures[kind]
    root = ElementTree.fromstring(picture.svg())
    width, height = (float(n) for n in root.get("viewBox").split()[2:])
    marks = [e for e in root if e.tag in ("rect", "circle", "line", "polyline", "polygon")]
    ticks = sum(axis.grid * len(axis.ticks) for axis in (picture.x, picture.y))
    drawn = [
        1 if s.kind in ("line", "area") else len(s.columns()[0]) for s in picture.shapes if s.points
    ]
    assert len(marks) == sum(drawn) + ticks
    for mark in marks:
        for names, end in ((("x", "cx", "x1"), width), (("y", "cy", "y1"), height)):
            assert all(-1 <= float(mark.get(name, 0)) <= end + 1 for name in names)
    known = set(re.findall(r"\.([a-z]+)", SHEET.read_text("utf-8")))
    for shapes in picture.shapes:  # each style is known to both
        assert shapes.style == UNSEEN or shapes.style in STYLES
        assert set(shapes.style.split()) <= known


def test_tips_tell_every_mark_and_are_escaped(pictures):
    for kind in ("reliability", "heat", "groups", "coverage", "slices"):
        root = ElementTree.fromstring(pictures[kind].svg())
        tips = [e.get("data-tip") for e in root if e.get("data-tip")]
        assert tips
        assert all("node" in tip for tip in tips)


def test_legends_stand_above_the_axes_and_nothing_warns(pictures):
    figure = plt.Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots(1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ax, kind in zip(axes, ("reliability", "heat"), strict=True):
            pictures[kind].plot(ax)
        figure.draw_without_rendering()
    for ax in axes:
        assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1


def test_a_second_picture_on_the_axes_keeps_the_first_in_the_legend(case):
    probs, y, _ = case
    curve = metrics.risk_coverage(probs, y)
    ax = plots.risk_coverage_curve(curve, label="one").plot()
    plots.risk_coverage_curve(curve, label="two").plot(ax, colors={"accent": "#000000"})
    names = [text.get_text().split(",")[0] for text in ax.get_legend().get_texts()]
    assert names == ["95 % interval", "one", "two"]
    assert [line.get_color() for line in ax.lines] == ["#0f766e", "#000000"]


def test_mistakes_and_a_missing_matplotlib_are_told_and_svg_still_works(pictures, monkeypatch):
    with pytest.raises(ValueError, match="expected some of accent, over, under"):
        pictures["heat"].plot(colors={"red": "#ff0000"})
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"simi-mailbox\[plot\]"):
        pictures["heat"].plot()
    assert pictures["heat"].svg().startswith("<svg")
