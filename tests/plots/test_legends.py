"""A legend covers no data, and drawing many bins of many nodes warns of nothing."""

import warnings

import numpy as np
from matplotlib.figure import Figure

from simi_mailbox import analysis, plots


def test_legends_stand_above_the_axes():
    probs = np.tile([[0.9, 0.1], [0.7, 0.3]], (200, 1))
    y = np.tile([0, 0, 1, 0], 100)
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.reliability_diagram(analysis.reliability_curve(probs, y), left, label="before")
        plots.method_comparison(analysis.compare_methods({"before": probs}, y), right)
        figure.draw_without_rendering()
    for ax in (left, right):
        legend, data = ax.get_legend().get_window_extent(), ax.get_window_extent()
        assert legend.y0 >= data.y1
