"""Pictures of what `simi_mailbox.analysis` and `metrics` compute, with matplotlib.

Every function takes an analysis object and the matplotlib axes to draw on (a new figure's if none
are given), and returns the axes. None shows a window and none changes matplotlib's settings.
Needs ``pip install 'simi-mailbox[plot]'``.
"""

from simi_mailbox.plots.comparison import method_comparison, sensitivity_curve
from simi_mailbox.plots.decisions import coverage_bars, risk_coverage_curve
from simi_mailbox.plots.figures import Column, observation_figure, sensitivity_figure
from simi_mailbox.plots.groups import group_scatter, temperature_histogram
from simi_mailbox.plots.reliability import reliability_diagram
from simi_mailbox.plots.similarity import heat_map, similarity_bar

__all__ = [
    "Column",
    "coverage_bars",
    "group_scatter",
    "heat_map",
    "method_comparison",
    "observation_figure",
    "reliability_diagram",
    "risk_coverage_curve",
    "sensitivity_curve",
    "sensitivity_figure",
    "similarity_bar",
    "temperature_histogram",
]
