"""Figures of several pictures."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is an optional extra")
from scipy.special import softmax

from simi_mailbox import analysis, plots
from simi_mailbox.synthetic import calibration_problem


@pytest.fixture(scope="module")
def column():
    problem = calibration_problem(600, 3, temperature=2.0, seed=1)
    probs, y, nodes = softmax(np.asarray(problem.logits), axis=1), problem.y, range(250, 600)
    similarity = analysis.neighbour_agreement(probs, problem.graph)
    return plots.Column(
        "one",
        analysis.reliability_curve(probs, y, nodes=nodes),
        analysis.similarity_bar(probs, y, similarity, nodes=nodes),
        analysis.similarity_confidence(probs, y, similarity, nodes=nodes),
    )


def test_maps_of_one_figure_share_their_colours(column):
    strong = column
    weak = plots.Column(
        "weak",
        strong.curve,
        strong.bar,
        analysis.SimilarityConfidence(**{**vars(strong.heat), "gap": strong.heat.gap / 10}),
    )
    made = plots.observation_figure([strong, weak], rows=["heat"], title="t")
    limits = [ax.collections[0].get_clim() for ax in made.axes[:2]]
    assert limits[0] == limits[1]
    assert limits[0][1] >= np.nanmax(np.abs(strong.heat.gap)) - 1e-12
    drawn = made.axes[1].collections[0].get_array().filled(np.nan).reshape(10, 10)
    np.testing.assert_allclose(drawn, strong.heat.gap / 10)
    assert [ax.get_title() for ax in made.axes[:2]] == ["one", "weak"]


def test_figures_refuse_nothing_and_nonsense(column):
    with pytest.raises(ValueError, match="no method"):
        plots.observation_figure([])
    with pytest.raises(ValueError, match="some of curve, bar and heat"):
        plots.observation_figure([column], rows=["pie"])
    with pytest.raises(ValueError, match="no dataset"):
        plots.sensitivity_figure({})


def test_a_method_has_one_colour_in_all_panels_and_one_legend():
    def curve(level):
        return analysis.sensitivity([5, 10], [[level], [level]], parameter="N")

    made = plots.sensitivity_figure(
        {"Cora": {"N": [("a", curve(1)), ("b", curve(2))], "λ": [("b", curve(3))]}}
    )
    top, bottom = made.axes
    assert top.lines[1].get_color() == bottom.lines[0].get_color()
    assert top.lines[0].get_color() != top.lines[1].get_color()
    assert [text.get_text() for text in made.legends[0].get_texts()] == ["a", "b"]
