"""One small model on a real graph shape, over-confident, with groups that differ."""

from types import SimpleNamespace

import numpy as np
import pytest

from simi_mailbox.synthetic import calibration_problem


@pytest.fixture(scope="session")
def model():
    problem = calibration_problem(900, 4, temperature=2.0, seed=3)
    return SimpleNamespace(
        logits=np.asarray(problem.logits),
        graph=problem.graph,
        y=np.asarray(problem.y),
        calibration=np.arange(200),
        test=np.arange(200, 900),
    )


@pytest.fixture
def given(model):
    """Arguments of write_report."""
    return dict(vars(model))
