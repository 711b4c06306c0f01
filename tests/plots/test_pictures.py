"""Pictures place the numbers they are given."""

import numpy as np
import pytest

from simi_mailbox import analysis, metrics, plots
from simi_mailbox.plots.picture import MINUS, THIN, count, nodes, number, percent, points


def shapes_of(picture, style):
    return next(shapes for shapes in picture.shapes if shapes.style == style)


def test_reliability_joins_only_bins_with_enough_nodes(case):
    probs, y, _ = case
    curve = analysis.reliability_curve(probs, y)
    many, few = curve.counts >= 10, (curve.counts > 0) & (curve.counts < 10)
    assert few.any()
    picture = plots.reliability_diagram(curve, label="GCN")
    line, hollow = shapes_of(picture, "curve"), shapes_of(picture, "dot few")
    np.testing.assert_array_equal(line.y, curve.accuracy[many])
    assert line.label == f"GCN, ECE {100 * curve.ece:.1f} %"
    np.testing.assert_array_equal(hollow.x, curve.confidence[few])
    bars = shapes_of(picture, "bar")
    tall = np.asarray(bars.y2) - bars.y
    np.testing.assert_allclose(
        tall / tall.max(), curve.counts[curve.counts > 0] / curve.counts.max()
    )
    band = shapes_of(picture, "band")
    np.testing.assert_array_equal(band.y, curve.low[many])
    np.testing.assert_array_equal(band.y2, curve.high[many])
    gaps = {s.style: np.asarray(s.y2) - s.y for s in picture.shapes if s.style in ("over", "under")}
    assert set(gaps) == {"over"}  # labels are drawn at random
    np.testing.assert_array_equal(gaps["over"], curve.gap[many])
    meek = analysis.reliability_curve(np.tile([0.6, 0.4], (50, 1)), np.zeros(50, dtype=int))
    assert shapes_of(plots.reliability_diagram(meek), "under").y2.tolist() == [1.0]
    assert "bar" not in {s.style for s in plots.reliability_diagram(curve, counts=False).shapes}


def test_heat_colours_are_the_gaps_up_to_the_limit_and_empty_cells_are_hatched(case):
    probs, y, similarity = case
    table = analysis.similarity_confidence(probs, y, similarity, cell="own")
    top = analysis.by_agreement(probs, y, similarity, slices=10)  # of all confidences
    gaps, counts = (
        np.vstack([cells, whole[:10]])
        for cells, whole in ((table.gap, top.gap), (table.counts, top.counts))
    )
    picture, drawn = plots.heat_map(table, limit=0.25), 0
    for style, sign in (("over", -1), ("under", 1)):
        boxes = shapes_of(picture, style)
        parts = (boxes.x, boxes.x2, boxes.y, boxes.y2, boxes.strength)
        for x, x2, y0, y2, strength in zip(*parts, strict=True):
            row, column = 10 if y2 > 1 else int((y0 + y2) * 5), int((x + x2) * 5)
            gap = gaps[row, column]
            assert sign * gap >= 0
            assert strength == pytest.approx(0.05 + 0.95 * min(abs(gap) / 0.25, 1.0))
            side = max(0.28, min(1.0, (counts[row, column] / 30) ** 0.5))
            assert (x2 - x) == pytest.approx(0.096 * side)
            drawn += 1
    assert drawn == (counts > 0).sum()
    assert len(shapes_of(picture, "empty").x) == (counts == 0).sum()
    blank = plots.heat_map(table, fewest=5)
    assert len(shapes_of(blank, "empty").x) == (counts < 5).sum()
    with pytest.raises(ValueError, match="must be positive"):
        plots.heat_map(table, limit=0.0)


def test_groups_lie_at_their_means_and_areas_are_nodes(case):
    probs, y, similarity = case
    groups = np.repeat([0, 1, 2], [300, 75, 25])
    where = {"similarity": similarity, "temperatures": np.array([1.0, 2.0, 0.5])[groups]}
    table = analysis.group_map(groups, probs, probs, y=y, **where)
    picture = plots.group_scatter(table)
    dots = [s for s in picture.shapes if s.kind == "dots"]
    places = sorted((float(a), float(b)) for s in dots for a, b in zip(s.x, s.y, strict=True))
    expected = sorted(zip(table.similarity.tolist(), table.confidence.tolist(), strict=True))
    np.testing.assert_allclose(places, expected)
    radius = sorted(float(r) for s in dots for r in s.radius)
    np.testing.assert_allclose(np.square(radius) / radius[-1] ** 2, [25 / 300, 75 / 300, 1.0])
    unknown = plots.group_scatter(analysis.group_map(groups, probs, probs, **where))
    assert [s.style for s in unknown.shapes] == ["amount group"]


def test_temperatures_are_counted_and_ticks_of_a_narrow_range_differ(case):
    table = analysis.temperature_histogram(np.exp(case[2] - 0.5))
    picture = plots.temperature_histogram(table)
    assert shapes_of(picture, "bar").y2.tolist() == table.counts.tolist()
    assert shapes_of(picture, "diagonal").x == [0.0, 0.0]  # log of T = 1
    found = analysis.temperature_histogram(np.linspace(1.25, 1.33, 50))
    words = [word for _, word in plots.temperature_histogram(found).x.ticks]
    assert len(set(words)) == len(words) == 5


def test_risk_and_its_band(case):
    probs, y, _ = case
    curve = metrics.risk_coverage(probs, y)
    picture = plots.risk_coverage_curve(curve, label="before")
    line, band = shapes_of(picture, "curve"), shapes_of(picture, "band")
    assert (line.x[-1], line.y[-1]) == (1.0, curve.risk[-1])
    assert line.label == f"before, AURC {100 * curve.aurc:.1f} %"
    half = len(band.y) // 2
    assert (band.y[:half] <= line.y).all()
    assert (line.y <= band.y[half:][::-1]).all()


def test_bars_are_the_coverages_with_their_counts(case):
    probs, y, _ = case
    table = analysis.covered_by("class", probs > 0.2, y, class_names=["a", "b" * 40, "c"])
    picture = plots.coverage_bars(table, target=0.9)
    np.testing.assert_array_equal(shapes_of(picture, "bar").x2, table.found.coverage)
    assert shapes_of(picture, "diagonal").label.replace("\u202f", " ") == "target, 90 %"
    names = [words for _, words in picture.y.ticks]
    assert names[0] == f"a ({table.found.counts[0]:,})"
    assert names[1] == f"{'b' * 23}… ({table.found.counts[1]:,})"


def test_slices_show_confidence_accuracy_and_error(case):
    probs, y, _ = case
    table = analysis.by_class(probs, y)
    picture = plots.slice_dots(table)
    np.testing.assert_array_equal(shapes_of(picture, "dot").x, table.accuracy)
    np.testing.assert_array_equal(shapes_of(picture, "dot confidence").x, table.confidence)
    alone = plots.slice_dots(analysis.by_class(probs, None))
    assert [s.style for s in alone.shapes] == ["dot confidence", "column"]


def test_acceptance_has_an_even_axis_and_a_dot():
    picture = plots.acceptance_bars([0.01, 0.02, 0.03], [0.0, 0.4, 0.7], here=1)
    bars, dot = shapes_of(picture, "bar"), shapes_of(picture, "dot here")
    np.testing.assert_allclose(np.diff(np.asarray(bars.x)), 0.01)
    assert (dot.x, dot.y) == ([0.02], [0.4])


def test_numbers_are_written_as_people_write_them():
    unknown = float("nan")
    found = percent(0.9012), percent(0.5, 0), percent(unknown)
    assert found == (f"90.1{THIN}%", f"50{THIN}%", "–")
    assert (points(0.031), points(-0.031), points(-0.0001)) == ("+3.1", f"{MINUS}3.1", "0.0")
    assert (count(169343), nodes(1), nodes(2000)) == ("169,343", "1 node", "2,000 nodes")
    assert (number(0.95234), number(unknown), points(unknown)) == ("0.952", "–", "–")
