"""What a prior learns from a corpus, against known answers."""

from __future__ import annotations

import numpy as np
import pytest

from simi_mailbox.prior import Corpus, Equations, gather
from simi_mailbox.prior.between import between_groups
from simi_mailbox.prior.corpus import UNKNOWN, WEIGHT_SPREADS
from tests.prior.conftest import past_run, setting


def test_a_prior_recovers_the_law_that_all_graphs_obey(corpus):
    prior = corpus.prior()
    assert prior.slope == pytest.approx(-0.1, abs=1e-9)
    assert prior.luck == pytest.approx(2.0, abs=1e-7)
    assert prior.group_spread == pytest.approx(0.02)
    assert prior.weight == pytest.approx(1.0, abs=1e-6)
    assert prior.weight_spread == WEIGHT_SPREADS[0]


def test_equations_agree_with_least_squares_on_the_pooled_nodes():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=300), rng.random(300)], axis=1)
    r, w = rng.normal(size=300) - 0.5 * x[:, 1], rng.random(300)
    halves = [Equations.of(x[k], r[k], w[k]) for k in (slice(0, 150), slice(150, 300))]
    root = np.sqrt(np.r_[w[:150] / w[:150].sum(), w[150:] / w[150:].sum()])
    slope, level = np.linalg.lstsq(x * root[:, None], r * root, rcond=None)[0]
    assert level < 0
    assert Equations.mean(halves).solve() == pytest.approx((slope, -level))


def test_luck_is_never_negative():
    slope, luck = setting("a", -0.2, luck=-3.0).equations.solve()
    assert luck == 0
    assert np.isfinite(slope)


def test_relatives_leave_together(corpus):
    assert corpus.families == ["a", "b"]
    assert [s.graph for s in corpus.without("b").settings] == ["a"]
    assert len(corpus.without("unknown").settings) == 3
    with pytest.raises(ValueError, match="no graph is left"):
        corpus.without("a", "b")


def test_graphs_that_contradict_each_other_are_not_trusted_much():
    agree = Corpus(tuple(setting(str(k), -0.1 - 0.001 * k) for k in range(6))).prior()
    differ = Corpus(tuple(setting(str(k), -0.04 * k) for k in range(6))).prior()
    assert agree.weight_spread == WEIGHT_SPREADS[0]
    assert differ.weight_spread > 0.5


def test_one_family_says_nothing_about_another():
    prior = Corpus((setting("a", -0.1), setting("b", -0.2, family="a"))).prior()
    assert (prior.weight, prior.weight_spread) == (UNKNOWN, WEIGHT_SPREADS[1])


def test_a_known_surface_is_recovered_from_graphs():
    # Labels are drawn by the law itself, with slope -0.3; temperature scaling bends it a little.
    runs = [past_run(seed, slope=-0.3, name=str(seed)) for seed in range(6)]
    steep = Corpus(tuple(gather(runs))).prior()
    flat = Corpus(tuple(gather(past_run(seed, name=str(seed)) for seed in range(6)))).prior()
    assert abs(flat.slope) < 0.05
    assert steep.slope < flat.slope - 0.05


def test_runs_of_one_setting_are_averaged():
    one, two = past_run(0), past_run(1)
    (both,) = gather([one, two])
    parts = [next(iter(gather([run]))).equations.right for run in (one, two)]
    assert both.runs == 2
    np.testing.assert_allclose(both.equations.right, np.mean(parts, axis=0))


def test_training_and_unlabelled_nodes_are_not_looked_at():
    run = past_run(0)
    train = np.arange(1000, 1500)
    y = run.y.copy()
    y[train] = (y[train] + 1) % 4
    y[2000:2500] = -1
    base = {**vars(run), "train": train}
    known = type(run)(**{**base, "y": np.where(np.arange(3000) // 500 == 4, -1, run.y)})
    spoilt = type(run)(**{**base, "y": y})
    found = [next(iter(gather([r]))).equations.right for r in (known, spoilt)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(10)}, "labels of all 3000 nodes"),
        ({"train": np.arange(300, 3000)}, "no labelled node is left"),
    ],
)
def test_past_runs_that_teach_nothing_are_refused(change, message):
    run = past_run(0)
    with pytest.raises(ValueError, match=message):
        list(gather([type(run)(**{**vars(run), **change})]))


def test_variance_between_groups_is_found_and_chance_is_not():
    rng = np.random.default_rng(0)
    count = np.full(400, 200.0)
    noise = rng.normal(size=400) * np.sqrt(0.16 * count)
    truth = 0.05 * rng.normal(size=400)
    found, _ = between_groups(noise + count * truth, 0.16 * count, count)
    none, error = between_groups(noise, 0.16 * count, count)
    assert found == pytest.approx(0.05**2, rel=0.15)
    assert abs(none) < 3 * error


def test_variance_between_groups_about_a_line():
    x = np.linspace(0, 1, 30)
    count = np.full(30, 1000.0)
    found, _ = between_groups(0.2 * x * count, 0.1 * count, count, x)
    about_mean, _ = between_groups(0.2 * x * count, 0.1 * count, count)
    assert found < 0 < about_mean


def test_too_few_groups_say_nothing():
    assert between_groups(np.ones(2), np.ones(2), np.ones(2)) == (0.0, np.inf)
