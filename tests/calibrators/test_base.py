"""Mistakes that are caught at the door of every method, whatever it does behind it."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

import simi_mailbox
from simi_mailbox import CalibrationWarning, SimiMailbox, TemperatureScaling, calibrators
from simi_mailbox.softmax import keep_argmax
from simi_mailbox.synthetic import calibration_problem

N = 600


@pytest.fixture(scope="module")
def problem():
    return calibration_problem(N, 3, temperature=2.0, seed=0)


def fit(problem, **given):
    arguments = {"mask": np.arange(200), **given}
    return TemperatureScaling().fit(np.asarray(problem.logits), problem.y, **arguments)


def test_training_nodes_are_refused_unless_one_insists(problem):
    train = np.arange(190, 400)
    with pytest.raises(ValueError, match=r"have 10 nodes in common \(the first is 190\).*insist"):
        fit(problem, train_mask=train)
    with pytest.raises(ValueError, match=r"mask and early_stopping_mask have 1 node in common"):
        fit(problem, early_stopping_mask=np.arange(199, 300))
    insisted = fit(problem, train_mask=train, allow_training_nodes=True)
    assert insisted.temperature_ == fit(problem).temperature_
    assert fit(problem, train_mask=np.arange(N) >= 200).temperature_ == insisted.temperature_


def test_nodes_that_look_trained_on_are_warned_of(problem):
    trained = np.arange(100)
    logits = np.array(problem.logits, dtype=np.float64)
    logits[trained, problem.y[trained]] += 4.0  # learned by heart
    with pytest.warns(CalibrationWarning, match="the 100 calibration nodes are unlike the others"):
        TemperatureScaling().fit(logits, problem.y, mask=trained)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)
        TemperatureScaling().fit(logits, problem.y, mask=np.arange(100, 300))
        for seed in range(20):  # nor of nodes that are chosen at random
            fit(problem, mask=np.random.default_rng(seed).permutation(N)[:150])
    for quiet in ({"train_mask": np.arange(500, N)}, {"allow_training_nodes": True}):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            TemperatureScaling().fit(logits, problem.y, mask=trained, **quiet)
        assert not any("unlike the others" in str(warning.message) for warning in told)


def test_arrays_of_the_other_byte_order_are_the_same_arrays(problem):
    logits, edges = np.asarray(problem.logits), problem.graph.edge_index().numpy()
    here = SimiMailbox().fit(logits, problem.y, mask=np.arange(200), graph=edges)
    given = {"mask": np.arange(200).astype(">i4"), "graph": edges.astype(">i8")}
    turned = logits.astype(logits.dtype.newbyteorder("S"))
    there = SimiMailbox().fit(turned, problem.y.astype(">i8"), **given)
    found = there.predict_proba(logits.astype(">f8"), graph=edges)
    np.testing.assert_array_equal(found, here.predict_proba(logits.astype("<f8"), graph=edges))


def test_a_file_remembers_what_it_was_fitted_on(problem, tmp_path):
    logits = np.asarray(problem.logits, dtype=np.float64)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    given = {"mask": np.arange(200), "input_type": "probabilities"}
    cal = TemperatureScaling().fit(probs, problem.y, **given)
    cal.save(tmp_path / "c.safetensors")
    again = simi_mailbox.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(again.predict_proba(probs), cal.predict_proba(probs))
    np.testing.assert_allclose(
        again.predict_proba(logits, input_type="logits"), cal.predict_proba(probs), atol=1e-12
    )
    with pytest.raises(ValueError, match='input_type="probabilities", but'):
        again.predict_proba(logits)


def test_ties_that_rounding_made_are_undone():
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(500, 4)).astype(np.float32))
    z[::3, 1] = z[::3].amax(dim=1) + 1e-6  # nearly a tie of two classes, or one of a class alone
    probs = torch.softmax(z.double(), dim=1).mul_(200).round_().div_(200).float()
    winner, before = z.argmax(dim=1), probs.clone()
    lost = probs.argmax(dim=1) != winner
    assert 0 < int(lost.sum()) < 250
    keep_argmax(probs, z)
    assert torch.equal(probs.argmax(dim=1), winner)
    assert torch.equal(probs[~lost], before[~lost])
    assert float((probs - before).abs().max()) < 0.02


@pytest.mark.parametrize("method", ["simi-mailbox", "temperature"])
def test_score_is_minus_the_log_loss(problem, method):
    z, y, graph = problem.logits, problem.y, problem.graph
    fitted, judged = np.arange(200), np.arange(200, N)
    calibrator = calibrators.get(method)().fit(z, y, graph=graph, mask=fitted)
    probs = calibrator.predict_proba(z, graph=graph).astype(np.float64)
    expected = -log_loss(y[judged], probs[judged] / probs[judged].sum(1, keepdims=True))
    changed = np.where(np.arange(N) < 200, -5, y)
    assert calibrator.score(z, changed, graph=graph, mask=judged) == pytest.approx(expected)
    tensors = calibrator.score(
        torch.tensor(z), torch.tensor(y), graph=graph, mask=torch.tensor(judged)
    )
    assert tensors == pytest.approx(expected)
    with pytest.raises(TypeError, match="mask is missing"):
        calibrator.score(z, y, graph=graph, mask=None)
