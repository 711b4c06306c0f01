"""The paper's own method, and what it has in common with the default."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import CalibrationWarning, SimiMailbox, SimiMailboxPaper
from tests.strategies import make_problem, problems

BOTH = pytest.mark.parametrize("cls", [SimiMailbox, SimiMailboxPaper])
pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


def fitted(cls, case, **parameters):
    return cls(**parameters).fit(case.logits, case.y, graph=case.graph, mask=case.mask)


@BOTH
@given(case=problems)
def test_laws(cls, case):
    calibrator = fitted(cls, case, n_groups=4)
    probs = calibrator.predict_proba(case.logits, graph=case.graph)
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-9)
    assert (calibrator.temperatures_ > 0).all()
    np.testing.assert_array_equal(probs.argmax(1), case.logits.argmax(1))


@BOTH
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


@BOTH
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


@BOTH
def test_no_edges_at_all_groups_by_confidence_alone(cls):
    case = make_problem(0, edges=0)
    assert len(fitted(cls, case, n_groups=4).temperatures_) == 4


def test_too_few_calibration_nodes_fall_back_to_one_temperature_and_say_so():
    case = make_problem(0, labelled=7)
    with pytest.warns(CalibrationWarning, match="7 calibration nodes cannot support 15 groups"):
        calibrator = fitted(SimiMailboxPaper, case, n_groups=15)
    assert calibrator.temperatures_.shape == (1,)


def test_unseen_nodes_get_their_group_from_the_stored_centroids():
    case = make_problem(2)
    calibrator = fitted(SimiMailboxPaper, case, n_groups=5)
    nodes = calibrator.node_temperatures(case.logits, graph=case.graph)
    np.testing.assert_array_equal(nodes, calibrator.temperatures_[calibrator.groups_])
    other = make_problem(3, n=50, edges=100)
    found = calibrator.node_temperatures(other.logits, graph=other.graph)
    assert np.isin(found, calibrator.temperatures_).all()


def test_it_warns_of_log_probabilities():
    case = make_problem(0)
    logs = torch.log_softmax(torch.from_numpy(case.logits), dim=1)
    with pytest.warns(CalibrationWarning, match="sums to one after exp.*pass the model's raw"):
        SimiMailboxPaper(n_groups=2).fit(logs, case.y, graph=case.graph, mask=case.mask)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*after exp")
        fitted(SimiMailboxPaper, case, n_groups=2)


def test_groups_without_label_keep_temperature_one():
    case = make_problem(4, labelled=16)
    calibrator = fitted(SimiMailboxPaper, case, n_groups=15)
    empty = np.setdiff1d(np.arange(15), calibrator.groups_[case.mask])
    assert empty.size
    assert (calibrator.temperatures_[empty] == 1).all()


def test_adam_comes_near_the_exact_solution_and_not_below():
    case = make_problem(0, labelled=100)
    exact = fitted(SimiMailboxPaper, case, n_groups=3, penalty=10)
    adam = fitted(SimiMailboxPaper, case, n_groups=3, penalty=10, solver="adam")
    np.testing.assert_allclose(adam.temperatures_, exact.temperatures_, rtol=0.02)


def test_adam_stops_on_the_holdout():
    case = make_problem(0)
    rest = np.setdiff1d(np.arange(120), case.mask)
    cal = SimiMailboxPaper(n_groups=3, solver="adam")
    stopped = cal.fit(
        case.logits, case.y, graph=case.graph, mask=case.mask, early_stopping_mask=rest
    )
    full = fitted(SimiMailboxPaper, case, n_groups=3, solver="adam")
    assert not np.array_equal(stopped.temperatures_, full.temperatures_)
