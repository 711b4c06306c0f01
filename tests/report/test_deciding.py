"""The report's section on decisions: the numbers of the rules, and words for them."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax

from simi_mailbox import analysis, decide
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.report import read_inputs, sentences
from simi_mailbox.report.content import ALLOWED, Acceptance, Decisions
from simi_mailbox.report.render import opening_step


@pytest.fixture(scope="module")
def probs(model):
    return softmax(model.logits.astype(np.float64) / 2.0, axis=1)


def inputs_of(model, **changes):
    return read_inputs(**{**vars(model), **changes})


def test_numbers_are_those_of_the_rules(model, probs):
    found = Decisions(probs, inputs_of(model), used_for_selection=True)
    test, y = model.test, model.y[model.test]
    for step, allowed in zip(found.acceptances, ALLOWED, strict=True):
        rule = decide.Accept(max_error=allowed)
        with warnings.catch_warnings():  # nothing is guaranteed at the strictest
            warnings.simplefilter("ignore", CalibrationWarning)
            taken = rule.fit(probs, model.y, mask=model.calibration).accepts(probs)[test]
        assert (step.allowed, step.accepted) == (allowed, taken.sum())
        assert step.threshold == rule.threshold_
        if taken.any():
            wrong = probs[test][taken].argmax(axis=1) != y[taken]
            assert step.wrong.value == wrong.mean()
            assert step.wrong.low <= step.wrong.value <= step.wrong.high
    assert any(step.accepted for step in found.acceptances)
    rule = decide.PredictionSets().fit(probs, model.y, mask=model.calibration)
    sets = rule.predict_sets(probs)
    assert found.error_weight == rule.error_weight_ > 1
    assert found.covered.value == sets[test, y].mean()
    by_degree = analysis.covered_by("degree", sets, model.y, graph=model.graph, nodes=test)
    np.testing.assert_array_equal(found.slices[0].found.coverage, by_degree.found.coverage)
    assert [table.by for table in found.slices] == ["degree", "mailbox", "class", "size"]
    assert Decisions(probs, inputs_of(model), used_for_selection=False).error_weight == 1


def test_only_what_is_known_is_said(model, probs):
    found = Decisions(probs, inputs_of(model, test=None), used_for_selection=False)
    assert found.covered is None
    assert not found.slices
    assert "wrong" not in sentences.accepted(found.acceptances[-1])
    alone = Decisions(probs, inputs_of(model, graph=None), used_for_selection=False)
    assert [table.by for table in alone.slices] == ["class", "size"]


def test_too_few_labels_are_told(model, probs):
    found = Decisions(probs, inputs_of(model, calibration=np.arange(4)), used_for_selection=False)
    assert not any(step.accepted for step in found.acceptances)
    assert "nothing is accepted" in sentences.accepted(found.acceptances[0])
    assert found.size == probs.shape[1]
    assert sentences.guarantee(found).endswith("over the draw of 4 nodes.")


def test_error_rates_are_evenly_spaced():
    np.testing.assert_allclose(np.diff(ALLOWED), ALLOWED[0])


def test_the_slider_opens_where_half_of_the_nodes_are_accepted():
    def steps(*shares):
        return tuple(
            Acceptance(k / 100, 0.5, accepted, 100, None) for k, accepted in enumerate(shares, 1)
        )

    assert opening_step(steps(0, 30, 50, 80, 100)) == 2
    assert opening_step(steps(100, 100)) == 0
    assert opening_step(steps(0, 10, 20, 20)) == 2
    assert opening_step(steps(0, 0)) == 0
