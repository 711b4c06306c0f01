"""Mistakes that are caught at the door of every method, whatever it does behind it."""

import warnings

import numpy as np
import pytest
import torch

import simi_mailbox
from simi_mailbox import CalibrationWarning, SimiMailbox, TemperatureScaling
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
    insisted = fit(problem, train_mask=train, allow_training_nodes=True)
    assert insisted.temperature_ == fit(problem).temperature_
    assert fit(problem, train_mask=np.arange(N) >= 200).temperature_ == insisted.temperature_


def test_holdout_and_calibration_share_no_node(problem):
    with pytest.raises(
        ValueError, match=r"mask and early_stopping_mask have 1 node in common \(199\)"
    ):
        fit(problem, early_stopping_mask=np.arange(199, 300))


def overfitted(problem, trained):
    """Logits of a model that has learned some nodes by heart."""
    logits = np.asarray(problem.logits, dtype=np.float64).copy()
    logits[trained, problem.y[trained]] += 4.0
    return logits


def test_nodes_that_look_trained_on_are_warned_of(problem):
    trained = np.arange(100)
    logits = overfitted(problem, trained)
    with pytest.warns(CalibrationWarning, match="the 100 calibration nodes are unlike the others"):
        TemperatureScaling().fit(logits, problem.y, mask=trained)
    for quiet in ({"train_mask": np.arange(500, N)}, {"allow_training_nodes": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", CalibrationWarning)
            TemperatureScaling().fit(logits, problem.y, mask=np.arange(100, 300))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            TemperatureScaling().fit(logits, problem.y, mask=trained, **quiet)
        assert not any("look as if" in str(warning.message) for warning in told)


@pytest.mark.parametrize("seed", range(20))
def test_nodes_chosen_at_random_are_not_suspected(problem, seed):
    mask = np.random.default_rng(seed).permutation(N)[:150]
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)
        fit(problem, mask=mask)


def test_an_integer_mask_of_noughts_and_ones_is_told_from_indices(problem):
    for mask in ((np.arange(N) < 200).astype(int), (torch.arange(N) < 200).to(torch.uint8)):
        with pytest.raises(ValueError, match=r"mask holds 0 and 1 for every node: pass a boolean"):
            fit(problem, mask=mask)


def test_arrays_of_the_other_byte_order_are_the_same_arrays(problem):
    logits, edges = np.asarray(problem.logits), problem.graph.edge_index().numpy()
    here = SimiMailbox().fit(logits, problem.y, mask=np.arange(200), graph=edges)
    there = SimiMailbox().fit(
        logits.astype(logits.dtype.newbyteorder("S")),
        problem.y.astype(">i8"),
        mask=np.arange(200).astype(">i4"),
        graph=edges.astype(">i8"),
    )
    np.testing.assert_array_equal(
        there.predict_proba(logits.astype(">f8"), graph=edges),
        here.predict_proba(logits.astype("<f8"), graph=edges),
    )


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("probabilities", r'input_type="probabilities", but probabilities are none: probs\['),
        (
            "log-probabilities",
            r'input_type="log-probabilities", but exp\(log-probabilities\) are none',
        ),
        (
            "probs",
            "input_type must be one of logits, .*, binary-probabilities, got 'probs'",
        ),
    ],
)
def test_logits_that_are_said_to_be_something_else(problem, kind, message):
    with pytest.raises(ValueError, match=message):
        fit(problem, input_type=kind)


def test_a_file_remembers_what_it_was_fitted_on(problem, tmp_path):
    logits = np.asarray(problem.logits, dtype=np.float64)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    cal = TemperatureScaling().fit(
        probs, problem.y, mask=np.arange(200), input_type="probabilities"
    )
    cal.save(tmp_path / "c.safetensors")
    again = simi_mailbox.load(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(again.predict_proba(probs), cal.predict_proba(probs))
    np.testing.assert_allclose(
        again.predict_proba(logits, input_type="logits"), cal.predict_proba(probs), atol=1e-12
    )
    with pytest.raises(ValueError, match='input_type="probabilities", but'):
        again.predict_proba(logits)


def test_certainty_has_a_finite_logarithm(problem):
    probs = np.zeros((N, 3))
    probs[np.arange(N), problem.y] = 1.0
    probs[:200] = [0.5, 0.3, 0.2]
    cal = TemperatureScaling().fit(
        probs, problem.y, mask=np.arange(200), input_type="probabilities"
    )
    assert np.isfinite(cal.predict_proba(probs)).all()
    with np.errstate(divide="ignore"):
        logs = np.log(probs)
    np.testing.assert_allclose(
        cal.predict_proba(logs, input_type="log-probabilities"),
        cal.predict_proba(probs),
        atol=1e-12,
    )


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
