"""Group calibration: groups that features tell apart are found and calibrated on their own."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

import simi_mailbox.calibrators.group_calibration as module
from simi_mailbox import CalibrationWarning
from simi_mailbox.calibrators import GroupCalibration, TemperatureScaling


def problem(n, seed=0):
    """Logits, features, labels, log of the true probabilities; half of the nodes have T = 4."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 6))
    temperature = np.where(features[:, 0] + features[:, 1] > 0, 4.0, 1.0)
    z = rng.normal(size=(n, 4)) * 4
    log_truth = log_softmax(z / temperature[:, None], axis=1)
    return z, features, (log_truth + rng.gumbel(size=z.shape)).argmax(1), log_truth


def nll(probs, y):
    return float(-np.log(probs[np.arange(len(y)), y]).mean())


@pytest.mark.parametrize("base", ["temperature", "ensemble-temperature"])
def test_close_to_the_oracle_where_features_tell_the_groups(base):
    z, x, y, log_truth = problem(6000)
    rest = np.arange(3000, 6000)
    cal = GroupCalibration(base=base, partitions=3).fit(z, y, features=x, mask=np.arange(3000))
    found = nll(cal.predict_proba(z, features=x)[rest], y[rest])
    plain = TemperatureScaling().fit(z, y, mask=np.arange(3000)).predict_proba(z)
    oracle = -log_truth[rest, y[rest]].mean()
    assert found < 1.02 * oracle
    assert nll(plain[rest], y[rest]) > 1.05 * oracle  # there was something to gain
    np.testing.assert_allclose(np.sort(cal.temperatures_, axis=1)[0], [1, 4], rtol=0.15)


def test_second_stage_reads_the_hold_out_only():
    z, x, y, _ = problem(400)
    first, second = np.arange(200), np.arange(200, 300)

    def fit(labels):
        cal = GroupCalibration(partitions=2)
        return cal.fit(z, labels, features=x, mask=first, early_stopping_mask=second)

    changed_first, changed_second = y.copy(), y.copy()
    changed_first[:100] = (y[:100] + 1) % 4
    changed_second[200:250] = (y[200:250] + 1) % 4
    base, other = fit(y), fit(changed_second)
    np.testing.assert_array_equal(base.partitions_, other.partitions_)
    assert not np.allclose(base.temperatures_, other.temperatures_)
    assert not np.allclose(base.partitions_, fit(changed_first).partitions_)


def test_gradient_of_the_first_stage(monkeypatch):
    import scipy.optimize

    rng = np.random.default_rng(0)
    errors: list[float] = []

    def check(loss, start, **options):  # type: ignore[no-untyped-def]
        at = start + 0.3 * rng.normal(size=start.shape)
        numeric = approx_fprime(at, lambda flat: loss(flat)[0], 1e-7)
        errors.append(float(np.abs(numeric - loss(at)[1]).max()))
        return original(loss, start, **options)

    original = scipy.optimize.minimize
    monkeypatch.setattr(scipy.optimize, "minimize", check)
    gaps = rng.normal(size=(30, 4))
    gaps -= gaps.max(axis=1, keepdims=True)
    start = rng.normal(size=(3, 5))
    module.learn_partition(rng.normal(size=(30, 5)), gaps, rng.integers(4, size=30), start, 0.1, 9)
    assert len(errors) == 1
    assert errors[0] < 1e-6


def test_units_and_sparsity_do_not_matter():
    z, x, y, _ = problem(200)
    x = np.where(x > 0.5, x, 0.0).astype(np.float32)

    def probs(z, x):
        cal = GroupCalibration(partitions=2).fit(z, y, features=x, mask=np.arange(100))
        return cal.predict_proba(z, features=x)

    for other in (probs(z, scipy.sparse.csr_array(x)), probs(z * 1024, x * 1024)):
        np.testing.assert_allclose(other, probs(z, x), atol=1e-5)


def test_seeds_give_different_partitions_and_features_of_another_width_are_refused():
    z, x, y, _ = problem(100)
    a, b = (
        GroupCalibration(partitions=1, seed=s).fit(z, y, features=x, mask=np.arange(50))
        for s in (0, 1)
    )
    assert not np.allclose(a.partitions_, b.partitions_)
    with pytest.raises(ValueError, match="fitted on 6"):
        a.predict_proba(z, features=x[:, :4])


def test_partitions_that_ran_out_of_steps_are_counted(monkeypatch):
    z, x, y, _ = problem(200)
    cal = GroupCalibration(partitions=3, steps=1)
    with pytest.warns(CalibrationWarning, match=r"3 of 3 partitions .* after 1 steps \(largest"):
        cal.fit(z, y, features=x, mask=np.arange(100))
    learn = module.learn_partition  # and no slope is too small for a word
    monkeypatch.setattr(module, "learn_partition", lambda *given: (learn(*given)[0], 1e-9))
    with pytest.warns(CalibrationWarning, match=r"still being learned .* loss: 1e-09\)"):
        GroupCalibration(partitions=1).fit(z, y, features=x, mask=np.arange(60))
