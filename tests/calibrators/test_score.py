"""``score`` is the likelihood of the labels of its mask, and of no others."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from simi_mailbox import calibrators
from simi_mailbox.synthetic import calibration_problem

PROBLEM = calibration_problem(400, 3, temperature=2.0, seed=0)
FITTED, JUDGED = np.arange(200), np.arange(200, 400)


@pytest.mark.parametrize("method", ["simi-mailbox", "temperature"])
def test_score_is_minus_the_log_loss(method: str) -> None:
    z, y, graph = PROBLEM.logits, PROBLEM.y, PROBLEM.graph
    calibrator = calibrators.get(method)().fit(z, y, graph=graph, mask=FITTED)
    probs = calibrator.predict_proba(z, graph=graph).astype(np.float64)
    expected = -log_loss(y[JUDGED], probs[JUDGED] / probs[JUDGED].sum(1, keepdims=True))
    changed = np.where(np.arange(400) < 200, -5, y)
    assert calibrator.score(z, changed, graph=graph, mask=JUDGED) == pytest.approx(expected)
    tensors = calibrator.score(
        torch.tensor(z), torch.tensor(y), graph=graph, mask=torch.tensor(JUDGED)
    )
    assert tensors == pytest.approx(expected)


def test_the_truth_scores_better() -> None:
    z, y = PROBLEM.logits, PROBLEM.y
    plain, scaled = (
        calibrators.get(name)().fit(z, y, mask=FITTED).score(z, y, mask=JUDGED)
        for name in ("uncalibrated", "temperature")
    )
    assert scaled > plain


def test_a_score_needs_a_mask() -> None:
    calibrator = calibrators.get("temperature")().fit(PROBLEM.logits, PROBLEM.y, mask=FITTED)
    with pytest.raises(TypeError, match="mask is missing"):
        calibrator.score(PROBLEM.logits, PROBLEM.y, mask=None)
