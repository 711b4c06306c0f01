"""The paper's table of variances against loops."""

import numpy as np
import pytest

from simi_mailbox_bench.variance import variance_of_calibration_error


def test_variance_table_against_loops():
    rng = np.random.default_rng(0)
    n, bins = 400, 10
    probs = rng.dirichlet([1.0, 0.6, 0.3], size=n)
    y = rng.integers(0, 3, n)
    similarity = np.round(rng.random(n), 1)
    similarity[::17] = np.nan
    confidence, right = probs.max(1), probs.argmax(1) == y
    row = [min(int(c * bins), bins - 1) for c in confidence]
    accuracy = {m: np.mean([right[i] for i in range(n) if row[i] == m]) for m in set(row)}
    said = {m: np.mean([confidence[i] for i in range(n) if row[i] == m]) for m in set(row)}
    error = [abs(accuracy[row[i]] - confidence[i]) for i in range(n)]
    node_wise = np.var([abs(accuracy[m] - said[m]) for m in row], ddof=1)

    def mean_variance(key):
        cells = {}
        for i in range(n):
            if key(i) is not None:
                cells.setdefault(key(i), []).append(error[i])
        return np.mean([np.var(e, ddof=1) for e in cells.values() if len(e) > 1])

    def column(i):
        if np.isnan(similarity[i]):
            return None
        return row[i], min(round(similarity[i] * 10), bins - 1)

    table = variance_of_calibration_error(probs, y, similarity, bins=bins)
    np.testing.assert_allclose(table.node_wise, node_wise)
    np.testing.assert_allclose(table.confidence, mean_variance(lambda i: row[i]))
    np.testing.assert_allclose(table.similarity, mean_variance(column))


def test_variance_table_needs_labels():
    with pytest.raises(ValueError, match="needs labels"):
        variance_of_calibration_error([[0.9, 0.1]], None, [1.0])
