"""One score per node."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators
from simi_mailbox.validation import read_logits


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("of", [np.asarray, torch.tensor])
def test_a_score_becomes_two_classes(shape, of):
    s = np.array([-2.0, 0.0, 3.0])
    z = read_logits(of(s.reshape(shape)), "binary-logits")
    assert z.tolist() == [[0.0, -2.0], [0.0, 0.0], [0.0, 3.0]]
    p = read_logits(of(np.array([0.25, 0.5, 1.0]).reshape(shape)), "binary-probabilities").exp()
    assert np.allclose(p, [[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])


def test_both_kinds_agree_and_are_remembered():
    rng = np.random.default_rng(0)
    s = rng.normal(size=200)
    p = 1 / (1 + np.exp(-s))
    y = (rng.random(200) < p).astype(int)
    fit = calibrators.get("temperature")().fit
    columns = fit(np.stack([np.zeros(200), s], axis=1), y, mask=range(200))
    expected = columns.predict_proba(np.stack([np.zeros(200), s], axis=1))
    for scores, kind in ((s, "binary-logits"), (p, "binary-probabilities")):
        cal = calibrators.get("temperature")().fit(scores, y, mask=range(200), input_type=kind)
        assert np.allclose(cal.predict_proba(scores), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("scores", "kind", "told"),
    [
        (np.zeros(5), "logits", 'say input_type="binary-logits"'),
        (np.zeros((5, 1)), "logits", 'say input_type="binary-logits"'),
        (np.zeros(5), "probabilities", 'say input_type="binary-probabilities"'),
        (np.zeros((5, 2)), "binary-logits", r"\[n\] or \[n, 1\]; got \[5, 2\].* say \"logits\""),
        (np.linspace(0, 1, 20), "binary-logits", 'say input_type="binary-probabilities"'),
        (np.array([0.2, 1.7]), "binary-probabilities", "node 1 is 1.7"),
        (np.array([0.2, np.nan]), "binary-probabilities", "node 1 is nan"),
        (np.array([0.2, np.nan]), "binary-logits", "NaN or infinite"),
        (np.zeros(0), "binary-logits", "hold no node"),
    ],
)
def test_what_is_refused(scores, kind, told):
    with pytest.raises(ValueError, match=told):
        read_logits(scores, kind)
