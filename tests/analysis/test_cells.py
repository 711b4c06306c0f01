"""Sums over cells against loops."""

import numpy as np

from simi_mailbox import metrics
from simi_mailbox.analysis.judged import counts_of, ece_of, mean_of, unit_bins


def test_cells_against_loops(rng):
    cell, values = rng.integers(0, 4, 60), rng.random(60)
    cell[cell == 2] = 3  # one cell is empty
    inside = [values[cell == k] for k in range(5)]
    assert counts_of(cell, 5).tolist() == [len(v) for v in inside]
    for k, own in enumerate(inside):
        if not len(own):
            assert np.isnan(mean_of(cell, values, 5)[k])
            continue
        np.testing.assert_allclose(mean_of(cell, values, 5)[k], own.mean())


def test_the_error_inside_a_cell_is_the_metric_of_its_nodes(rng):
    probs, y = rng.dirichlet([2.0, 1.0], size=90), rng.integers(0, 2, 90)
    cell, right = np.arange(90) % 3, (probs.argmax(1) == y).astype(float)
    found = ece_of(cell, probs.max(1), right, 4)
    for k in range(3):
        np.testing.assert_allclose(found[k], metrics.ece(probs[cell == k], y[cell == k]))
    assert np.isnan(found[3])


def test_one_falls_into_the_last_interval():
    assert unit_bins(np.array([0.0, 0.5, 0.999, 1.0]), 2).tolist() == [0, 1, 1, 1]
