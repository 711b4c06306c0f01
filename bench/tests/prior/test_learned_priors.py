"""SimiMailbox with a prior learned here, and on a trained network."""

import numpy as np
import pytest

from past_run import past_run
from simi_mailbox import SimiMailbox, prior
from simi_mailbox.metrics import nll
from simi_mailbox_bench import datasets
from simi_mailbox_bench.backbones import Settings, train
from simi_mailbox_bench.prior import gather


def calibrated(run, chosen):
    cal = SimiMailbox(prior=chosen)
    cal.fit(run.logits, run.y, graph=run.graph, mask=run.calibration)
    return cal.predict_proba(run.logits, graph=run.graph)


def test_a_right_prior_helps_where_labels_are_few(tmp_path):
    train = [past_run(seed, uniform=0.15, name=str(seed)) for seed in range(5)]
    path = tmp_path / "own.json"
    prior.write(gather(train), path)
    gains = []
    for seed in range(10, 20):
        run = past_run(seed, uniform=0.15, labels=100)
        rest = np.arange(100, 3000)
        scores = [nll(calibrated(run, p)[rest], run.y[rest]) for p in (path, None)]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.01


def test_confidence_is_accuracy_where_labels_nearby_say_nearly_all():
    digits = datasets.load("Digits")
    split = datasets.make_split(digits, "sparse")
    z = train(digits, split, "gcn", seed=0, settings=Settings(epochs=100)).logits.numpy()
    calibrator = SimiMailbox().fit(z, digits.y, mask=split.val, graph=digits.graph)
    probs = calibrator.predict_proba(z, graph=digits.graph)
    assert calibrator.coefficients_["trust"] > 0.99
    right = (z.argmax(axis=1) == digits.y)[split.test].mean()
    assert probs[split.test].max(axis=1).mean() == pytest.approx(right, abs=0.01)
