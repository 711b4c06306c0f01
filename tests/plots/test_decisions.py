"""Curves and bars of decisions draw the numbers they are given."""

import numpy as np

from simi_mailbox import analysis, metrics, plots


def test_curve_and_band_are_the_risks(case):
    probs, y, _ = case
    curve = metrics.risk_coverage(probs, y)
    ax = plots.risk_coverage_curve(curve, label="before")
    plots.risk_coverage_curve(curve, ax, label="after", band=False)
    first, second = ax.lines
    np.testing.assert_array_equal(first.get_xydata(), second.get_xydata())
    share, risk = first.get_xydata()[-1]
    assert (share, risk) == (1.0, curve.risk[-1])
    assert len(ax.collections) == 1
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() <= risk <= band.max()


def test_bars_are_the_coverages_with_their_counts(case):
    probs, y, _ = case
    table = analysis.covered_by_class(probs > 0.2, y)
    ax = plots.coverage_bars(table, promised=0.9)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, table.found.coverage)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == f"{table.labels[0]} ({table.found.counts[0]:,})"
