"""What a prior learns from a corpus, against known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.prior import Corpus
from simi_mailbox.prior.model import (
    INPUTS,
    NARROWEST,
    VAGUE,
    Level,
    between_groups,
    middle_mean,
)
from tests.prior.conftest import setting


def test_a_prior_is_the_median_of_its_settings(corpus):
    prior = corpus.prior()
    for inputs in INPUTS:  # settings of older files know no more than this
        belief = prior.beliefs[inputs]
        assert belief.terms == ("log_degree", "inverse_degree")
        assert belief.middle["blind"] == pytest.approx(-1.5)
        assert belief.spread["blind"] == pytest.approx(np.std([-1.0, -2.0, -1.5]))
        assert belief.middle["inverse_degree"] == pytest.approx(-0.7)
        assert belief.spread["inverse_degree"] == pytest.approx(1.4826 * 0.2)
        assert belief.middle["log_degree"] == pytest.approx(0.05)
        assert belief.spread["log_degree"] == NARROWEST["log_degree"]
    assert prior.kept == prior.free
    assert (prior.kept.luck, prior.kept.pseudo_labels) == (pytest.approx(2.0), pytest.approx(200))
    assert prior.fewest_labels == 100


def test_terms_are_believed_in_by_what_they_are_made_from():
    fits = [
        {
            "plain": {"near": near, "blind": -1.0},
            "hidden": {"near": 0.0, "hidden": 9.0, "blind": 0.0},
        }
        for near in (1.0, 1.4, 30.0)
    ]
    some = [replace(setting(name), fits=fit) for name, fit in zip("abc", fits, strict=True)]
    prior = Corpus((*some, setting("d"))).prior()
    plain = prior.belief(hidden=False, trained=False)
    assert (plain.terms, plain.middle["near"]) == (("near",), 1.4)
    assert plain.spread["near"] == pytest.approx(1.4826 * 0.4)
    assert prior.belief(hidden=True, trained=False).middle["hidden"] == 9.0
    assert prior.belief(hidden=True, trained=True).terms == ("log_degree", "inverse_degree")


def test_of_some_terms_other_graphs_tell_the_size_and_not_the_sign():
    fits = [{"plain": {"around": value, "blind": -1.0}} for value in (0.9, 1.0, 1.1)]
    some = [replace(setting(name), fits=fit) for name, fit in zip("abc", fits, strict=True)]
    belief = Corpus(tuple(some)).prior().beliefs["plain"]
    assert belief.middle["around"] == 0.0
    assert belief.spread["around"] == pytest.approx(1.4826)


def test_classes_that_move_have_a_luck_of_their_own():
    free = {
        "luck": -9e-4,
        "luck_weight": 1e-4,
        "between": 1e-3,
        "variance": 0.1,
        "fresh_luck": -3e-4,
    }
    prior = Corpus((replace(setting("a", luck=2.0), free=free, fresh_luck=0.0),)).prior()
    assert prior.level(keep_classes=True).luck == pytest.approx(2.0)
    moving = prior.level(keep_classes=False)
    assert (moving.luck, moving.fresh_luck) == (pytest.approx(9.0), pytest.approx(3.0))
    assert moving.drop(0.8, 0.1, 100, fresh=True) == pytest.approx(3 * 0.1 * 0.8 / 100)


def test_luck_is_decided_by_those_who_can_tell_and_never_negative():
    few, some, many = (
        setting(str(n), luck=luck, labels=n) for n, luck in ((100, 3.0), (130, 5.0), (3000, -90.0))
    )
    assert 3.0 < Corpus((few, some, many)).prior().kept.luck < 5.0
    assert Corpus((some, many)).prior().kept.luck == pytest.approx(5.0)
    assert Corpus((setting("a", luck=-3.0),)).prior().kept.luck == 0


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9)), min_size=1, max_size=20))
def test_the_middle_mean_is_the_mean_of_the_middle_of_repeated_values(pairs):
    values, weights = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
    repeated = np.sort(np.repeat(values, 4 * weights.astype(int)))
    quarter = len(repeated) // 4
    assert middle_mean(values, weights) == pytest.approx(repeated[quarter:-quarter].mean())


def test_relatives_leave_together(corpus):
    assert corpus.families == ["a", "b"]
    assert [s.graph for s in corpus.without("b").settings] == ["a"]
    assert len(corpus.without("unknown").settings) == 3
    with pytest.raises(ValueError, match="no graph is left"):
        corpus.without("a", "b")


def test_graphs_that_contradict_each_other_say_less():
    agree = Corpus(tuple(setting(str(k), -1.0 - 0.001 * k) for k in range(6))).prior()
    differ = Corpus(tuple(setting(str(k), -1.0 * k) for k in range(6))).prior()
    assert agree.beliefs["plain"].spread["blind"] == NARROWEST["blind"]
    assert differ.beliefs["plain"].spread["blind"] > 1


def test_one_family_says_nothing_about_how_others_differ():
    prior = Corpus((setting("a", -1.0), setting("b", -2.0, family="a"))).prior()
    belief = prior.beliefs["plain"]
    assert belief.spread == {name: VAGUE[name] for name in belief.middle}


def test_some_pseudo_labels_always_stand_behind_the_prior():
    """However much the groups seem to differ, a few labels must not decide alone."""
    level = Level(luck=0, pseudo_labels=200)
    assert level.strength(found=1.0, error=1e-6, variance=0.1) == 10.0
    assert level.strength(found=1e-3, error=1e-9, variance=0.1) == pytest.approx(100.0)


def test_variance_between_groups_is_found_and_chance_is_not():
    rng = np.random.default_rng(0)
    count = np.full(400, 200.0)
    noise = rng.normal(size=400) * np.sqrt(0.16 * count)
    truth = 0.05 * rng.normal(size=400)
    found, _ = between_groups(noise + count * truth, 0.16 * count, count)
    none, error = between_groups(noise, 0.16 * count, count)
    assert found == pytest.approx(0.05**2, rel=0.15)
    assert abs(none) < 3 * error


@pytest.mark.parametrize(("n", "confidence"), [(20, 0.99), (500, 0.8)])
def test_the_error_is_the_spread_of_the_estimate_also_where_errors_are_rare(n, confidence):
    """Groups that expect less than one error scatter by far more than normal variables would."""
    rng = np.random.default_rng(0)
    count = np.full(20, float(n))
    variance = confidence * (1 - confidence) * count
    wrong = rng.binomial(n, 1 - confidence, size=(4000, 20))
    found = [between_groups((1 - confidence) * n - row, variance, count) for row in wrong]
    estimates, errors = zip(*found, strict=True)
    assert np.std(estimates) == pytest.approx(errors[0], rel=0.1)
    assert abs(np.mean(estimates)) < 0.1 * errors[0]


def test_too_few_groups_say_nothing():
    assert between_groups(np.ones(2), np.ones(2), np.ones(2)) == (0.0, np.inf)
