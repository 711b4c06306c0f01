"""The oracle does what it is named for, and nobody meets it by accident."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simi_mailbox
from simi_mailbox import calibrators
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench.oracle import ORACLE, SimiMailboxOracle

PROBLEM = calibration_problem(1200, 3, temperature=2.0, seed=1)
MASK = np.arange(100)
REST = np.arange(100, 1200)


def fitted(y: np.ndarray, **settings: Any) -> SimiMailboxOracle:
    oracle = SimiMailboxOracle(n_groups=4, **settings)
    given = {"graph": PROBLEM.graph, "mask": MASK, "early_stopping_mask": REST}
    return oracle.fit(PROBLEM.logits, y, **given, train_mask=REST[:200])


def test_it_is_not_in_the_registry_nor_in_the_package() -> None:
    assert ORACLE not in calibrators.names()
    with pytest.raises(ValueError, match="unknown calibrator"):
        calibrators.get(ORACLE)
    assert not hasattr(simi_mailbox, "SimiMailboxOracle")
    assert not hasattr(calibrators, "SimiMailboxOracle")


def test_it_reads_labels_outside_the_mask() -> None:
    y = np.asarray(PROBLEM.y).copy()
    before = fitted(y).temperatures_
    y[REST] = np.random.default_rng(0).permutation(y[REST])
    assert np.abs(fitted(y).temperatures_ - before).max() > 0.1


def test_with_a_large_weight_every_group_is_as_confident_as_it_is_accurate() -> None:
    y = np.asarray(PROBLEM.y)
    oracle = fitted(y, penalty=1e6, solver="exact")
    probs = np.asarray(oracle.predict_proba(PROBLEM.logits, graph=PROBLEM.graph))
    right = probs.argmax(axis=1) == y
    for group in range(4):
        members = oracle.groups_ == group
        assert probs[members].max(axis=1).mean() == pytest.approx(right[members].mean(), abs=2e-3)


def test_it_asks_for_all_labels() -> None:
    with pytest.raises(ValueError, match="reads all labels"):
        SimiMailboxOracle().fit(PROBLEM.logits, PROBLEM.y, graph=PROBLEM.graph, mask=MASK)
