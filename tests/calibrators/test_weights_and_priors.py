"""Labels collected by a known policy, and models trained with another class balance."""

import numpy as np
import pytest
from scipy.special import expit

from simi_mailbox import calibrators, load
from simi_mailbox.synthetic import calibration_problem
from tests.calibrators.problems import binary

WEIGHING = ("temperature", "platt", "beta", "simi-mailbox", "simi-mailbox-free")


def fitted(name, logits, y, graph, **more):
    given = {"graph": graph} if "graph" in calibrators.get(name).required_inputs else {}
    cal = calibrators.get(name)().fit(logits, y, used_for_selection=False, **given, **more)
    return cal.predict_proba(logits, **given)


@pytest.fixture(scope="module")
def problem():
    return calibration_problem(800, 2, temperature=2.0, seed=0)


@pytest.mark.parametrize("name", WEIGHING)
def test_equal_weights_change_nothing_and_others_do(name, problem):
    given = (name, problem.logits, problem.y, problem.graph)
    plain = fitted(*given, mask=range(300))
    assert np.array_equal(plain, fitted(*given, mask=range(300), sample_weight=np.full(300, 7.0)))
    uneven = np.where(problem.y[:300] == 1, 5.0, 1.0)
    assert np.abs(plain - fitted(*given, mask=range(300), sample_weight=uneven)).max() > 1e-3


@pytest.mark.parametrize("name", ["platt", "beta", "simi-mailbox-free"])
def test_inverse_propensities_undo_a_policy(name):
    """Only alerts were reviewed, most of them positive, and few of the others."""
    rng = np.random.default_rng(5)
    s, y = binary(20_000, seed=5, bias=-2.0)
    graph = np.stack([np.arange(20_000), np.roll(np.arange(20_000), 1)])
    chance = np.where(y == 1, 0.5, 0.05)
    seen = np.flatnonzero(rng.random(20_000) < chance)
    logits = np.stack([np.zeros_like(s), s], axis=1)
    truth = expit(0.5 * s - 2.0)
    given = (name, logits, y, graph)
    naive = fitted(*given, mask=seen)[:, 1]
    weighted = fitted(*given, mask=seen, sample_weight=1 / chance)[:, 1]
    assert np.abs(weighted - truth).mean() < 0.03 < 0.1 < np.abs(naive - truth).mean()


def test_weights_are_those_of_the_nodes_in_any_order():
    s, y = binary(60, seed=0)
    w = np.arange(1.0, 61.0)
    order = np.random.default_rng(0).permutation(60)[:40]
    fit = calibrators.get("platt")().fit
    said = {"input_type": "binary-logits", "mask": order}
    one = fit(s, y, sample_weight=w, **said).coefficients_
    other = fit(s, y, sample_weight=w[order], **said).coefficients_
    assert np.array_equal(one, other)


def test_a_method_that_cannot_weigh_says_so(problem):
    with pytest.raises(TypeError, match="Isotonic cannot weigh labels"):
        fitted("isotonic", problem.logits, problem.y, None, mask=range(9), sample_weight=[1.0] * 9)


@pytest.mark.parametrize(
    "shift", [{"trained": [0.5, 0.5], "deployed": [0.97, 0.03]}, {"class_weights": [1.0, 97 / 3]}]
)
def test_prior_shift_is_exact_and_saved(shift, tmp_path):
    """Without calibration the shifted model is Bayes' rule; with it, other class shares agree."""
    s = np.linspace(-6, 6, 50)
    cal = calibrators.get("uncalibrated")().fit(
        s, (s > 0).astype(int), mask=range(50), input_type="binary-logits", prior_shift=shift
    )
    expected = expit(s + np.log(3 / 97))
    cal.save(tmp_path / "cal.safetensors")
    for one in (cal, load(tmp_path / "cal.safetensors")):
        assert np.allclose(one.predict_proba(s)[:, 1], expected)
