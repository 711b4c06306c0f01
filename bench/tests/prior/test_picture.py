"""The picture of what a prior is learned from."""

from __future__ import annotations

import numpy as np
import pytest

from past_run import past_run
from simi_mailbox_bench.prior.learning import residuals_of, vague
from simi_mailbox_bench.prior.looks import look_at
from simi_mailbox_bench.prior.picture import ResidualSums, draw


def test_the_picture_shows_sums_over_runs():
    look, belief = look_at(past_run(0, blind=0.15)), vague(("log_degree", "inverse_degree"))
    looked = residuals_of(look, lambda _: belief, keep_classes=True)
    one, two = ResidualSums.of("a", [looked]), ResidualSums.of("a", [looked, looked])
    seen = (looked.plain_confidence >= 0.2).sum()
    for name in ("plain", "overlap", "degree"):
        np.testing.assert_allclose(getattr(two, name), 2 * getattr(one, name))
        assert getattr(one, name)[1].sum() == seen
    total = looked.plain_residual[looked.plain_confidence >= 0.97].sum()
    assert one.plain[0][-1] == pytest.approx(total)
    figure = draw([one, two])
    *_, plain, baseline, _zero = figure.axes[0].get_lines()
    # Sure nodes are over-confident after temperature scaling, and less so after the baseline.
    at = np.flatnonzero(np.isfinite(baseline.get_ydata()))[-1]
    assert plain.get_ydata()[at] < -2
    assert abs(baseline.get_ydata()[at]) < abs(plain.get_ydata()[at])
