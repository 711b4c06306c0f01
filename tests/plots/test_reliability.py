"""The reliability diagram."""

import numpy as np

from simi_mailbox import analysis, plots


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
