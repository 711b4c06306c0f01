"""What a prior learns from a corpus, against known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.prior import Corpus, gather
from simi_mailbox.prior.between import between_groups
from simi_mailbox.prior.corpus import NARROWEST, VAGUE, weighted_median
from simi_mailbox.prior.past import look_at
from tests.prior.conftest import past_run, setting


def test_a_prior_is_the_mean_of_its_settings(corpus):
    prior = corpus.prior()
    assert prior.blind == pytest.approx(-1.5)
    assert prior.blind_spread == pytest.approx(np.std([-1.0, -2.0, -1.5]))
    assert prior.few == pytest.approx(-0.7)
    assert prior.few_spread == pytest.approx(np.std([-0.5, -0.9, -0.7]))
    assert prior.many == pytest.approx(0.05)
    assert prior.many_spread == NARROWEST["many"]
    assert prior.luck == pytest.approx(2.0)
    assert prior.pseudo_labels == pytest.approx(200)
    assert prior.fewest_labels == 100


def test_luck_is_decided_by_those_who_can_tell_and_never_negative():
    few, some, many = (
        setting(str(n), luck=luck, labels=n) for n, luck in ((100, 3.0), (130, 5.0), (3000, -90.0))
    )
    assert Corpus((few, some, many)).prior().luck == pytest.approx(3.0)
    assert Corpus((some, many)).prior().luck == pytest.approx(5.0)
    assert Corpus((setting("a", luck=-3.0),)).prior().luck == 0


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9)), min_size=1, max_size=20))
def test_the_weighted_median_is_the_median_of_repeated_values(pairs):
    values, weights = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    assert weighted_median(values, weights) == repeated[(len(repeated) - 1) // 2]


def test_relatives_leave_together(corpus):
    assert corpus.families == ["a", "b"]
    assert [s.graph for s in corpus.without("b").settings] == ["a"]
    assert len(corpus.without("unknown").settings) == 3
    with pytest.raises(ValueError, match="no graph is left"):
        corpus.without("a", "b")


def test_graphs_that_contradict_each_other_say_less():
    agree = Corpus(tuple(setting(str(k), -1.0 - 0.001 * k) for k in range(6))).prior()
    differ = Corpus(tuple(setting(str(k), -1.0 * k) for k in range(6))).prior()
    assert agree.blind_spread == NARROWEST["blind"]
    assert differ.blind_spread > 1


def test_one_family_says_nothing_about_how_others_differ():
    prior = Corpus((setting("a", -1.0), setting("b", -2.0, family="a"))).prior()
    assert (prior.few_spread, prior.blind_spread) == (VAGUE.few_spread, VAGUE.blind_spread)


def test_known_numbers_are_recovered_from_graphs():
    runs = [past_run(seed, blind=0.1, few=-4.0, name=str(seed)) for seed in range(6)]
    blind = Corpus(tuple(gather(runs))).prior()
    none = Corpus(tuple(gather(past_run(seed, name=str(seed)) for seed in range(6)))).prior()
    assert blind.few < none.few - 1
    assert abs(none.many) < 0.2
    assert blind.blind > none.blind + 1


def test_runs_of_one_setting_are_averaged():
    one, two = past_run(0), past_run(1)
    (both,) = gather([one, two])
    parts = [next(iter(gather([run]))) for run in (one, two)]
    assert both.runs == 2
    for name in ("many", "few", "blind", "luck", "luck_weight", "between", "variance"):
        expected = np.mean([getattr(part, name) for part in parts])
        assert getattr(both, name) == pytest.approx(expected)


def test_luck_is_weighted_least_squares():
    seen = look_at(past_run(0))
    right, weight = seen.luck()
    c = seen.confidence
    root = 1 / np.sqrt(c * (1 - c) + 0.005)
    term = seen.error * c / 300
    slope = np.linalg.lstsq((term * root)[:, None], seen.residual * root, rcond=None)[0][0]
    assert right / weight == pytest.approx(slope)


def test_training_and_unlabelled_nodes_are_not_looked_at():
    run = past_run(0)
    train = np.arange(1000, 1500)
    y = run.y.copy()
    y[train] = (y[train] + 1) % 4
    y[2000:2500] = -1
    base = {**vars(run), "train": train}
    known = type(run)(**{**base, "y": np.where(np.arange(3000) // 500 == 4, -1, run.y)})
    spoilt = type(run)(**{**base, "y": y})
    found = [next(iter(gather([r]))) for r in (known, spoilt)]
    assert found[0] == found[1]


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


def test_too_few_groups_say_nothing():
    assert between_groups(np.ones(2), np.ones(2), np.ones(2)) == (0.0, np.inf)
