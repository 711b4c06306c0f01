"""Plots draw exactly the arrays they are given, where they are told, and change nothing else."""

import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is an optional extra")
matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

from simi_mailbox import analysis, plots  # noqa: E402
from simi_mailbox.plots import style  # noqa: E402


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No window, no change of settings, no figure left open."""

    def refuse(*_args, **_kwargs):
        raise AssertionError("a plot must not call plt.show")

    monkeypatch.setattr(plt, "show", refuse)
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


@pytest.fixture
def case():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet([4.0, 1.0, 1.0], size=400)
    return probs, rng.integers(0, 3, 400), rng.random(400)


def objects(case):
    probs, y, similarity = case
    groups = np.arange(400) % 5
    return {
        "heat": analysis.similarity_confidence(probs, y, similarity),
        "bar": analysis.similarity_bar(probs, y, similarity),
        "groups": analysis.group_map(
            groups, probs, probs, similarity=similarity, temperatures=[1, 2, 0.5, 1, 3], y=y
        ),
        "methods": analysis.compare_methods({"a": probs, "b": probs[::-1]}, y, draws=20),
        "temperatures": analysis.temperature_histogram(np.exp(similarity - 0.5)),
        "sensitivity": analysis.sensitivity([5, 10], [[1, 2], [3, 5]], parameter="N"),
    }


DRAWN_BY = {
    "heat": plots.heat_map,
    "bar": plots.similarity_bar,
    "groups": plots.group_scatter,
    "methods": plots.method_comparison,
    "temperatures": plots.temperature_histogram,
    "sensitivity": plots.sensitivity_curve,
}


@pytest.mark.parametrize("name", DRAWN_BY)
def test_plot_draws_on_the_axes_given_and_opens_no_other_figure(case, name):
    table, draw = objects(case)[name], DRAWN_BY[name]
    plt.close("all")
    figure, (left, right) = plt.subplots(1, 2)
    assert draw(table, left) is left
    assert left.has_data()
    assert not right.has_data()
    assert plt.get_fignums() == [figure.number]
    assert draw(table) not in (left, right)


def test_heat_map_shows_the_gaps_and_leaves_empty_cells_blank(case):
    table = objects(case)["heat"]
    mesh = plots.heat_map(table, limit=0.5).collections[0]
    drawn = mesh.get_array()
    np.testing.assert_allclose(drawn.filled(np.nan).reshape(10, 10), table.gap)
    assert mesh.get_clim() == (-0.5, 0.5)
    mesh = plots.heat_map(table, fewest=5, numbers=True).collections[0]
    blank = mesh.get_array().mask.reshape(10, 10)
    np.testing.assert_array_equal(blank, table.counts < 5)


def test_zero_is_the_middle_and_signs_have_the_papers_colours():
    chart = style.diverging("red-green")
    red, green, middle = chart(1.0), chart(0.0), chart(0.5)
    assert red[0] > 0.6 > red[1]
    assert green[1] > 0.3 > green[0]
    assert min(middle[:3]) > 0.9
    blue, orange = style.diverging("blue-orange")(1.0), style.diverging("blue-orange")(0.0)
    assert blue[2] > blue[0]
    assert orange[0] > orange[2]


def test_reliability_diagram_joins_only_bins_with_enough_nodes(case):
    probs, y, _ = case
    curve = analysis.reliability_curve(probs, y)
    assert (curve.counts[curve.counts > 0] < 10).any()
    ax = plots.reliability_diagram(curve, label="before")
    plots.reliability_diagram(curve, ax, label="after", counts=False)
    diagonal, joined, hollow = ax.lines[:3]
    assert diagonal.get_gid() == "diagonal"
    assert sum(line.get_gid() == "diagonal" for line in ax.lines) == 1
    many = curve.counts >= 10
    np.testing.assert_array_equal(joined.get_ydata(), curve.accuracy[many])
    few = (curve.counts > 0) & ~many
    np.testing.assert_array_equal(hollow.get_xdata(), curve.confidence[few])
    heights = np.array([bar.get_height() for bar in ax.patches])
    np.testing.assert_allclose(heights / heights.max(), curve.counts / curve.counts.max())


def test_comparison_and_sensitivity_place_the_values(case):
    made = objects(case)
    ax = plots.method_comparison(made["methods"])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), made["methods"].values)
    ax = plots.sensitivity_curve(made["sensitivity"])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1.5, 4.0])
    ax = plots.temperature_histogram(made["temperatures"])
    assert [bar.get_height() for bar in ax.patches] == made["temperatures"].counts.tolist()


def test_group_scatter_places_groups_and_sizes(case):
    groups = objects(case)["groups"]
    marks = plots.group_scatter(groups).collections[0]
    np.testing.assert_allclose(
        marks.get_offsets(), np.stack([groups.similarity, groups.confidence], axis=1)
    )
    assert len(set(marks.get_sizes().tolist())) == 1  # five groups of 80 nodes each


@pytest.mark.parametrize(
    ("options", "message"),
    [({"palette": "rainbow"}, "palette must be one of"), ({"limit": 0.0}, "must be positive")],
)
def test_bad_options_are_refused(case, options, message):
    with pytest.raises(ValueError, match=message):
        plots.heat_map(objects(case)["heat"], **options)


def test_without_matplotlib_the_error_names_the_extra(case, monkeypatch):
    table = objects(case)["heat"]
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"simi-mailbox\[plot\]"):
        plots.heat_map(table)
