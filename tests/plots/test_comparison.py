"""Methods and hyper-parameters."""

import numpy as np

from simi_mailbox import plots


def test_comparison_and_sensitivity_place_the_values(objects):
    made = objects
    ax = plots.method_comparison(made["methods"])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), made["methods"].values)
    ax = plots.sensitivity_curve(made["sensitivity"])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1.5, 4.0])
