"""What a prior learns from a corpus, against known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.prior import Corpus
from simi_mailbox.prior.model import NARROWEST, VAGUE, weighted_median
from tests.prior.conftest import setting


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
