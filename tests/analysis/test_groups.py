"""What a calibrator did: groups and temperatures as arrays."""

import numpy as np
import pytest

from simi_mailbox.analysis import group_map, temperature_histogram


@pytest.fixture
def table(rng):
    n = 200
    before = rng.dirichlet([3.0, 1.0, 1.0], size=n)
    after = before**0.5 / (before**0.5).sum(1, keepdims=True)
    groups = rng.integers(0, 4, n)
    groups[groups == 2] = 3  # a group without nodes stays, with no mean
    y = rng.integers(0, 3, n)
    given = {
        "similarity": rng.random(n),
        "temperatures": np.array([1.0, 2.0, 3.0, 4.0])[groups],
        "calibration": np.arange(50),
        "nodes": np.arange(50, 200),
    }
    return groups, before, after, y, given


def test_group_map_against_loops(table):
    groups, before, after, y, given = table
    made = group_map(groups, before, after, y=y, **given)
    assert made.sizes.size == 4
    assert made.sizes.sum() == 200
    for k in range(4):
        everyone = np.flatnonzero(groups == k)
        judged = everyone[everyone >= 50]
        assert made.calibration_labels[k] == (everyone < 50).sum()
        assert made.judged[k] == len(judged)
        if len(everyone) == 0:
            assert np.isnan(made.confidence[k])
            continue
        right = after[judged].argmax(1) == y[judged]
        np.testing.assert_allclose(made.confidence[k], before[everyone].max(1).mean())
        np.testing.assert_allclose(made.similarity[k], given["similarity"][everyone].mean())
        np.testing.assert_allclose(made.accuracy[k], right.mean())
        np.testing.assert_allclose(made.gap_before[k], right.mean() - before[judged].max(1).mean())
        np.testing.assert_allclose(made.gap_after[k], right.mean() - after[judged].max(1).mean())
    mass = np.nan_to_num(np.abs(made.gap_after) * made.judged)
    assert made.worst(2).tolist() == np.argsort(-mass)[:2].tolist()
    assert 2 not in made.worst(10)


def test_group_map_without_labels(table):
    groups, before, after, _, given = table
    made = group_map(groups, before, after, **given)
    np.testing.assert_allclose(made.temperatures[[0, 1, 3]], [1.0, 2.0, 4.0])
    assert np.isnan(made.accuracy).all()
    assert made.worst().size == 0


def test_group_map_refuses_what_does_not_fit(table):
    groups, before, after, _, given = table
    with pytest.raises(ValueError, match="group number for each of 200"):
        group_map(groups[:9], before, after, **given)
    with pytest.raises(ValueError, match=r"temperatures has shape \[2\]; expected one value per"):
        group_map(groups, before, after, **{**given, "temperatures": [1.0, 2.0]})


def test_temperature_histogram_counts_every_node(rng):
    t = np.exp(rng.normal(size=500))
    table = temperature_histogram(t, bins=12)
    inside = np.histogram(t, bins=table.edges * np.r_[1 - 1e-12, np.ones(11), 1 + 1e-12])[0]
    assert table.counts.tolist() == inside.tolist()
    assert table.counts.sum() == 500
    assert (table.smallest, table.largest) == (t.min(), t.max())
    table = temperature_histogram(np.full(9, 1.7))
    assert table.counts.max() == 9
    assert table.edges[0] < 1.7 < table.edges[-1]


@pytest.mark.parametrize("bad", [[], [0.0, 1.0], [np.nan], [np.inf]])
def test_temperatures_must_be_positive(bad):
    with pytest.raises(ValueError, match="temperature"):
        temperature_histogram(np.array(bad))
