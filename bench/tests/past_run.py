"""Past runs whose truth is known."""

from __future__ import annotations

from tests.prior.past_run import past_run as drawn

from simi_mailbox_bench.prior import PastRun


def past_run(seed, *, name="graph", **parameters):
    """A run whose labels are drawn from a baseline with these numbers."""
    run = drawn(seed, **parameters)
    return PastRun(name, "gcn", run.logits, run.y, run.graph, run.calibration)
