import copy
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import CalibrationWarning, SimiMailbox, SimiMailboxPaper, TemperatureScaling
from simi_mailbox.calibrators.simi_mailbox import bounded_target
from simi_mailbox.metrics import nll
from simi_mailbox.softmax import confidence
from simi_mailbox.synthetic import calibration_problem
from tests.strategies import make_problem, problems

READINGS = [SimiMailbox, SimiMailboxPaper]
pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


def fitted(cls, case, **parameters):
    return cls(**parameters).fit(case.logits, case.y, graph=case.graph, mask=case.mask)


@pytest.mark.parametrize("cls", READINGS)
@given(case=problems)
def test_laws(cls, case):
    calibrator = fitted(cls, case, n_groups=4)
    probs = calibrator.predict_proba(case.logits, graph=case.graph)
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-9)
    assert (calibrator.temperatures_ > 0).all()
    np.testing.assert_array_equal(probs.argmax(1), case.logits.argmax(1))


@pytest.mark.parametrize("cls", READINGS)
@given(case=problems, seed=st.integers(0, 1000))
def test_order_of_nodes_and_edges_does_not_matter(cls, case, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(case.y))
    position = np.argsort(order)
    edges = position[case.edges][:, rng.permutation(case.edges.shape[1])]
    one = fitted(cls, case, n_groups=4)
    mask = np.isin(order, case.mask)
    two = cls(n_groups=4).fit(case.logits[order], case.y[order], graph=edges, mask=mask)
    np.testing.assert_allclose(
        two.predict_proba(case.logits[order], graph=edges),
        one.predict_proba(case.logits, graph=case.graph)[order],
        rtol=1e-6,
        atol=1e-9,
    )


@pytest.mark.parametrize("cls", READINGS)
def test_same_seed_same_bits_and_threads_agree(cls):
    case = make_problem(0, n=3000, edges=20_000, labelled=800)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 1, 2):
            torch.set_num_threads(threads)
            found.append(fitted(cls, case).temperatures_)
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], rtol=1e-6)


def test_group_means_meet_their_shrunk_targets():
    case = make_problem(5, n=2000, edges=8000, labelled=900)
    calibrator = fitted(SimiMailbox, case, n_groups=6, prior=None)
    z = torch.from_numpy(case.logits)
    base = confidence(z, calibrator.temperature_).numpy()
    after = calibrator.predict_proba(case.logits, graph=case.graph).max(1)
    right = case.logits.argmax(1) == case.y
    for n in range(6):
        members = calibrator.groups_ == n
        labelled = np.intersect1d(np.flatnonzero(members), case.mask)
        residual = (right[labelled] - base[labelled]).sum() / (len(labelled) + 100)
        assert calibrator.counts_[n] == len(labelled)
        assert after[members].mean() == pytest.approx(base[members].mean() + residual, abs=1e-8)


def test_with_overwhelming_shrinkage_it_is_temperature_scaling():
    case = make_problem(1)
    plain = TemperatureScaling().fit(case.logits, case.y, mask=case.mask)
    shrunk = fitted(SimiMailbox, case, n_groups=5, prior=None, prior_strength=1e12)
    np.testing.assert_allclose(shrunk.temperatures_, plain.temperature_, rtol=1e-8)


def test_many_labels_find_what_one_temperature_cannot():
    def truth(conf, similarity):
        return np.where(similarity > np.median(similarity), 0.7, 2.5)

    problem = calibration_problem(20_000, 4, temperature=truth, seed=0)
    mask = np.arange(10_000)
    rest = np.arange(10_000, 20_000)

    def loss(calibrator):
        calibrator.fit(problem.logits, problem.y, graph=problem.graph, mask=mask)
        return nll(
            calibrator.predict_proba(problem.logits, graph=problem.graph)[rest], problem.y[rest]
        )

    assert loss(SimiMailbox()) < loss(TemperatureScaling()) - 0.005


@pytest.mark.parametrize("prior", ["learned", None])
def test_unseen_nodes_get_their_group_from_the_stored_centroids(prior):
    case = make_problem(2)
    calibrator = fitted(SimiMailbox, case, n_groups=5, prior=prior)

    bare = copy.copy(calibrator)
    bare.temperatures_ = np.full_like(calibrator.temperatures_, calibrator.baseline_["temperature"])

    def of_groups(problem):
        """Temperatures with the effect of the evidence taken out."""
        found, plain = (
            cal.node_temperatures(problem.logits, graph=problem.graph) for cal in (calibrator, bare)
        )
        return found / plain * calibrator.baseline_["temperature"]

    expected = calibrator.temperatures_[calibrator.groups_]
    np.testing.assert_allclose(of_groups(case), expected, rtol=1e-12)
    assert ("near" in calibrator.baseline_) == (prior is not None)
    known = calibrator.temperatures_
    for temperature in of_groups(make_problem(3, n=50, edges=100)):
        assert np.abs(known / temperature - 1).min() < 1e-12


@pytest.mark.parametrize("cls", READINGS)
def test_too_few_calibration_nodes_fall_back_to_one_temperature_and_say_so(cls):
    case = make_problem(0, labelled=7)
    with pytest.warns(CalibrationWarning, match="7 calibration nodes cannot support 15 groups"):
        calibrator = fitted(cls, case, n_groups=15)
    assert calibrator.temperatures_.shape == (1,)


def test_the_fallback_is_temperature_scaling():
    case = make_problem(0, labelled=7)
    plain = TemperatureScaling().fit(case.logits, case.y, mask=case.mask)
    assert fitted(SimiMailbox, case).temperatures_.tolist() == [plain.temperature_]


@pytest.mark.parametrize("cls", READINGS)
def test_no_edges_at_all_groups_by_confidence_alone(cls):
    case = make_problem(0, edges=0)
    assert len(fitted(cls, case, n_groups=4).temperatures_) == 4


def test_a_group_never_becomes_certain_nor_blind():
    mean = np.array([0.99, 0.5, 0.3])
    for shift in (-5.0, 5.0):
        target = bounded_target(mean, np.full(3, shift), num_classes=4)
        assert (target < 1).all()
        assert (target > 0.25).all()


def test_papers_reading_warns_of_log_probabilities():
    case = make_problem(0)
    logs = torch.log_softmax(torch.from_numpy(case.logits), dim=1)
    with pytest.warns(CalibrationWarning, match="sums to one after exp.*pass the model's raw"):
        SimiMailboxPaper(n_groups=2).fit(logs, case.y, graph=case.graph, mask=case.mask)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*after exp")
        fitted(SimiMailboxPaper, case, n_groups=2)


def test_papers_groups_without_label_keep_temperature_one():
    case = make_problem(4, labelled=16)
    calibrator = fitted(SimiMailboxPaper, case, n_groups=15)
    empty = np.setdiff1d(np.arange(15), calibrator.groups_[case.mask])
    assert empty.size
    assert (calibrator.temperatures_[empty] == 1).all()


def test_papers_adam_comes_near_the_exact_solution_and_not_below():
    case = make_problem(0, labelled=100)
    exact = fitted(SimiMailboxPaper, case, n_groups=3, penalty=10)
    adam = fitted(SimiMailboxPaper, case, n_groups=3, penalty=10, solver="adam")
    np.testing.assert_allclose(adam.temperatures_, exact.temperatures_, rtol=0.02)


def test_papers_adam_stops_on_the_holdout():
    case = make_problem(0)
    rest = np.setdiff1d(np.arange(120), case.mask)
    cal = SimiMailboxPaper(n_groups=3, solver="adam")
    stopped = cal.fit(
        case.logits, case.y, graph=case.graph, mask=case.mask, early_stopping_mask=rest
    )
    full = fitted(SimiMailboxPaper, case, n_groups=3, solver="adam")
    assert not np.array_equal(stopped.temperatures_, full.temperatures_)
