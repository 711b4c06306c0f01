"""Plots draw where they are told, and change nothing else."""

import sys

import pytest

from simi_mailbox import plots

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is an optional extra")

DRAWN_BY = {
    "heat": plots.heat_map,
    "bar": plots.similarity_bar,
    "groups": plots.group_scatter,
    "methods": plots.method_comparison,
    "temperatures": plots.temperature_histogram,
    "sensitivity": plots.sensitivity_curve,
}


@pytest.mark.parametrize("name", DRAWN_BY)
def test_plot_draws_on_the_axes_given_and_opens_no_other_figure(objects, name):
    table, draw = objects[name], DRAWN_BY[name]
    plt.close("all")
    figure, (left, right) = plt.subplots(1, 2)
    assert draw(table, left) is left
    assert left.has_data()
    assert not right.has_data()
    assert plt.get_fignums() == [figure.number]
    assert draw(table) not in (left, right)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"palette": "rainbow"}, "palette must be one of"), ({"limit": 0.0}, "must be positive")],
)
def test_bad_options_are_refused(objects, options, message):
    with pytest.raises(ValueError, match=message):
        plots.heat_map(objects["heat"], **options)


def test_without_matplotlib_the_error_names_the_extra(objects, monkeypatch):
    table = objects["heat"]
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"simi-mailbox\[plot\]"):
        plots.heat_map(table)
