"""Past runs whose truth is known."""

import numpy as np

from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench.prior import PastRun


def past_run(seed, *, name="graph", uniform=0.0, inverse_degree=0.0, n=3000, labels=300):
    """A run whose labels are drawn from a model with these coefficients."""
    problem = calibration_problem(n, 4, seed=seed)
    rng = np.random.default_rng(seed)
    term = 1 / (1 + problem.graph.degree.numpy())
    scale = np.exp(inverse_degree * (term - term.mean()))
    y = (problem.logits * scale[:, None] + rng.gumbel(size=problem.logits.shape)).argmax(1)
    guess = rng.random(n) < uniform
    y[guess] = rng.integers(4, size=guess.sum())
    return PastRun(name, "gcn", problem.logits, y, problem.graph, np.arange(labels))
