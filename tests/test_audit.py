import numpy as np
import pytest

from simi_mailbox import SimiMailbox, TemperatureScaling, audit
from tests.strategies import make_problem


class Cheat(TemperatureScaling):
    """Keeps the labels it was given, before the base class cuts them."""

    def __init__(self, *, size: float = 1e-6) -> None:
        self.size = size

    def fit(self, logits, y, **inputs):
        super().fit(logits, y, **inputs)
        self.temperature_ *= 1 + self.size * float(np.mean(np.asarray(y) == 0))
        return self


def test_an_honest_calibrator_passes_and_says_what_was_tried():
    case = make_problem(0)
    outcome = audit.reads_only(SimiMailbox(), case.logits, case.y, mask=case.mask, graph=case.graph)
    assert outcome
    assert "60 hidden labels" in outcome.detail


@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_a_peeking_calibrator_is_caught_even_when_it_hardly_matters(size):
    case = make_problem(0)
    outcome = audit.reads_only(Cheat(size=size), case.logits, case.y, mask=case.mask)
    assert not outcome
    assert "rows changed" in outcome.detail


def test_a_calibrator_that_fails_on_hidden_labels_is_caught():
    class Fussy(TemperatureScaling):
        def fit(self, logits, y, **inputs):
            if (np.asarray(y) < 0).any():
                raise ValueError("negative label")
            return super().fit(logits, y, **inputs)

    case = make_problem(0)
    outcome = audit.reads_only(Fussy(), case.logits, case.y, mask=case.mask)
    assert not outcome
    assert "negative label" in outcome.detail


def test_holdout_labels_may_be_read_and_are_not_hidden():
    case = make_problem(0)
    rest = np.setdiff1d(np.arange(120), case.mask)[:30]
    outcome = audit.reads_only(
        TemperatureScaling(), case.logits, case.y, mask=case.mask, holdout_mask=rest
    )
    assert "30 hidden labels" in outcome.detail


def test_an_audit_needs_something_to_hide():
    case = make_problem(0)
    with pytest.raises(ValueError, match="no label to hide"):
        audit.reads_only(TemperatureScaling(), case.logits, case.y, mask=np.arange(120))
    with pytest.raises(ValueError, match="full length"):
        audit.reads_only(TemperatureScaling(), case.logits, case.y[:50], mask=np.arange(50))
