import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import CalibrationWarning, TemperatureScaling
from simi_mailbox.synthetic import calibration_problem


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_the_true_temperature_is_recovered_within_a_percent(true):
    problem = calibration_problem(60_000, 5, temperature=true, seed=1)
    found = TemperatureScaling().fit(problem.logits, problem.y, mask=np.arange(60_000))
    assert found.temperature_ == pytest.approx(true, rel=0.01)


def test_log_loss_on_calibration_nodes_never_gets_worse():
    problem = calibration_problem(300, 4, temperature=2.5, seed=0)
    z, y = problem.logits.astype(float), problem.y
    found = TemperatureScaling().fit(z, y, mask=np.arange(300))

    def nll(probs):
        return -np.log(probs[np.arange(300), y]).mean()

    uncalibrated = torch.softmax(torch.from_numpy(z), 1).numpy()
    assert nll(found.predict_proba(z)) < nll(uncalibrated)


@pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")
@given(st.integers(0, 1000), st.sampled_from([np.float16, np.float32, np.float64]))
def test_predicted_classes_never_change_whatever_the_size_of_the_logits(seed, dtype):
    rng = np.random.default_rng(seed)
    size = 10 ** rng.uniform(-3, 4)
    logits = (rng.normal(size=(200, 5)).clip(-1, 1) * size).astype(dtype)
    near_tie = logits[:, :1] + np.finfo(dtype).eps * np.abs(logits[:, :1])
    logits[:, 1:2] = near_tie.astype(dtype)
    y = rng.integers(0, 5, 200)
    probs = TemperatureScaling().fit(logits, y, mask=np.arange(100)).predict_proba(logits)
    np.testing.assert_array_equal(probs.argmax(1), logits.argmax(1))


def test_only_right_answers_have_no_inner_optimum_and_that_is_said():
    logits = np.eye(3)[np.arange(30) % 3] * 2
    with pytest.warns(CalibrationWarning, match="all 30 calibration nodes are predicted right"):
        TemperatureScaling().fit(logits, np.arange(30) % 3, mask=np.arange(30))


def test_labels_that_contradict_the_logits_are_likeliest_under_a_guess_and_that_is_said():
    logits = np.eye(3)[np.arange(30) % 3] * 2
    with pytest.warns(CalibrationWarning, match="likeliest under a uniform guess"):
        TemperatureScaling().fit(logits, (np.arange(30) + 1) % 3, mask=np.arange(30))


def test_node_temperatures_are_one_number():
    problem = calibration_problem(100, 3, temperature=2.0, seed=0)
    found = TemperatureScaling().fit(problem.logits, problem.y, mask=np.arange(100))
    assert set(found.node_temperatures(problem.logits)) == {found.temperature_}
