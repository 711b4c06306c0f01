"""Temperature scaling and its mixture: known answers, an independent algorithm, their limits."""

import numpy as np
import pytest
from scipy.special import softmax

from simi_mailbox import CalibrationWarning, TemperatureScaling
from simi_mailbox.calibrators import EnsembleTemperatureScaling
from simi_mailbox.synthetic import calibration_problem
from tests.calibrators.problems import draw


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_the_true_temperature_is_recovered_within_a_percent(true):
    problem = calibration_problem(60_000, 5, temperature=true, seed=1)
    found = TemperatureScaling().fit(problem.logits, problem.y, mask=np.arange(60_000))
    assert found.temperature_ == pytest.approx(true, rel=0.01)


@pytest.mark.parametrize(
    ("shift", "told"),
    [
        (0, "all 30 calibration nodes are predicted right"),
        (1, "labels of the 30 calibration nodes are likeliest under a uniform guess"),
    ],
)
def test_labels_without_an_inner_optimum_are_told(shift, told):
    nodes = np.arange(30)
    with pytest.warns(CalibrationWarning, match=told):
        TemperatureScaling().fit(2 * np.eye(3)[nodes % 3], (nodes + shift) % 3, mask=nodes)


def members(z, y, temperature):
    rows = np.arange(len(y))
    parts = (softmax(z / temperature, axis=1), softmax(z, axis=1), np.full(z.shape, 1 / z.shape[1]))
    return np.stack([part[rows, y] for part in parts], axis=1)


def test_recovers_a_mixture_with_uniform_noise():
    z = np.random.default_rng(1).normal(size=(20_000, 4)) * 4
    truth = 0.7 * softmax(z, axis=1) + 0.3 / 4
    mixed, plain = (
        cls().fit(z, draw(np.log(truth)), mask=np.arange(len(z))).predict_proba(z)
        for cls in (EnsembleTemperatureScaling, TemperatureScaling)
    )
    assert np.abs(mixed - truth).mean() < 0.01
    assert np.abs(plain - truth).mean() > 0.02  # one temperature cannot say that


@pytest.mark.parametrize("seed", range(20))
def test_no_member_alone_could_do_better(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 9))
    z = rng.normal(size=(60, k)) * 10 ** rng.uniform(-2, 4)
    y = (z / z.std() + rng.gumbel(size=z.shape)).argmax(1)
    cal = EnsembleTemperatureScaling().fit(z, y, mask=np.arange(60))
    given = members(z, y, cal.temperature_)
    assert ((given / (given @ cal.weights_)[:, None]).mean(axis=0) <= 1 + 2e-5).all()
    assert cal.weights_.min() >= 0
    assert abs(cal.weights_.sum() - 1) < 1e-12
