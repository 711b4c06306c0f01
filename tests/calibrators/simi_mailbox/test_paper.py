"""The paper's own method, and what it has in common with the default."""

import warnings

import numpy as np
import pytest
import torch

from simi_mailbox import CalibrationWarning, SimiMailboxPaper
from simi_mailbox.calibrators.simi_mailbox import paper
from simi_mailbox.crossfit import cross_fitted
from simi_mailbox.metrics import ece
from tests.paper_by_the_text import fit, groups_of
from tests.strategies import make_problem

EXACT = {"solver": "exact", "selection": "none"}
pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


def fitted(case, **parameters):
    return SimiMailboxPaper(**parameters).fit(case.logits, case.y, graph=case.graph, mask=case.mask)


def test_too_few_calibration_nodes_fall_back_to_one_temperature_and_say_so():
    case = make_problem(0, labelled=7)
    with pytest.warns(CalibrationWarning, match="7 calibration nodes cannot support 15 groups"):
        calibrator = fitted(case, n_groups=15)
    assert calibrator.temperatures_.shape == (1,)


def test_unseen_nodes_get_their_group_from_the_stored_centroids():
    case = make_problem(2)
    calibrator = fitted(case, n_groups=5)
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
        fitted(case, n_groups=2)


def test_groups_without_label_keep_temperature_one():
    case = make_problem(4, labelled=16)
    calibrator = fitted(case, n_groups=15)
    empty = np.setdiff1d(np.arange(15), calibrator.groups_[case.mask])
    assert empty.size
    assert (calibrator.temperatures_[empty] == 1).all()


def test_adam_comes_near_the_exact_solution():
    case = make_problem(0, labelled=100)
    exact = fitted(case, n_groups=3, penalty=10, **EXACT)
    adam = fitted(case, n_groups=3, penalty=10, selection="none")
    np.testing.assert_allclose(adam.temperatures_, exact.temperatures_, rtol=0.02)
    assert (adam.epochs_, exact.epochs_) == (2000, 0)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_text_says(seed):
    """Against a second implementation, written from the paper: the last epoch and the selected."""
    case = make_problem(seed, n=400, edges=1500, labelled=80)
    logits, y = torch.from_numpy(case.logits), torch.from_numpy(case.y)
    given = logits, y, torch.as_tensor(case.mask)
    edges = torch.from_numpy(case.edges)
    row, column = torch.unique(torch.cat([edges, edges.flip(0)], dim=1), dim=1)
    groups = groups_of(logits, torch.stack([row, column])[:, row != column], 5)
    selected, _ = fit(*given[:2], groups, given[2], n_groups=5)
    _, last = fit(*given[:2], groups, given[2], n_groups=5, epochs=300, patience=300)
    ours = fitted(case, n_groups=5)
    np.testing.assert_allclose(ours.temperatures_[ours.groups_], selected[groups], atol=1e-4)
    kept = fitted(case, n_groups=5, selection="none", epochs=ours.epochs_)
    np.testing.assert_array_equal(ours.temperatures_, kept.temperatures_)
    ours = fitted(case, n_groups=5, selection="none", epochs=300)
    np.testing.assert_allclose(ours.temperatures_[ours.groups_], last[groups], atol=1e-4)


def validation_ece(calibrator, case, bins=15, nodes=None):
    nodes = case.mask if nodes is None else nodes
    probs = calibrator.predict_proba(case.logits, graph=case.graph)
    return ece(probs[nodes], case.y[nodes], bins=bins)


def test_the_released_rule_stops_on_other_nodes_with_ten_bins():
    case = make_problem(0)
    rest = np.setdiff1d(np.arange(120), case.mask)
    given = {"graph": case.graph, "mask": case.mask, "early_stopping_mask": rest}
    cal = SimiMailboxPaper(n_groups=3, selection="training-ece").fit(case.logits, case.y, **given)
    for epochs in (max(cal.epochs_ - 5, 1), cal.epochs_ + 5):
        other = fitted(case, n_groups=3, selection="none", epochs=epochs)
        assert validation_ece(cal, case, 10, rest) <= validation_ece(other, case, 10, rest)
    with pytest.raises(ValueError, match="pass early_stopping_mask=train_mask"):
        fitted(case, selection="training-ece")


@pytest.mark.parametrize("how", [{}, EXACT | {"selection": "validation-ece"}])
def test_a_search_finds_the_lowest_ece_of_its_grid(how, monkeypatch):
    assert paper.GROUPS == (5, 10, 15, 20, 25, 30)  # the paper's grid
    assert paper.PENALTIES == (1, 5, 10, 20, 30, 40, 50)
    monkeypatch.setattr(paper, "GROUPS", (2, 4))
    monkeypatch.setattr(paper, "PENALTIES", (1.0, 20.0))
    case = make_problem(2, labelled=60)
    found = fitted(case, search=True, **how)
    grid = [
        fitted(case, n_groups=n, penalty=weight, **how) for n in (2, 4) for weight in (1.0, 20.0)
    ]
    errors = [validation_ece(one, case) for one in grid]
    assert validation_ece(found, case) == pytest.approx(min(errors), abs=1e-9)
    best = grid[int(np.argmin(errors))]
    assert (len(found.temperatures_), found.penalty_) == (len(best.temperatures_), best.penalty)
    np.testing.assert_allclose(found.temperatures_, best.temperatures_)


def test_cross_fitting_chooses_the_epoch_on_labels_that_a_fit_did_not_see():
    case = make_problem(3, labelled=80)
    given = {"graph": case.graph, "mask": case.mask}
    chosen = fitted(case, n_groups=3, folds=2).epochs_
    errors = {}
    for epochs in (chosen + shift for shift in (-9, -1, 0, 1, 9)):
        cal = SimiMailboxPaper(n_groups=3, selection="none", epochs=epochs)
        probs = cross_fitted(cal, case.logits, case.y, **given, folds=2, seed=0)
        errors[epochs] = ece(probs, case.y[case.mask])
    assert min(errors, key=errors.__getitem__) == chosen
    assert chosen != fitted(case, n_groups=3).epochs_


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"selection": "none", "search": True}, 'selection is "none"'),
        ({"selection": "none", "folds": 5}, 'selection is "none"'),
        ({"folds": 1}, "folds is 1; expected 0"),
        ({"folds": 50}, "too few for 50 folds"),
    ],
)
def test_choices_that_contradict_each_other(wrong, message):
    with pytest.raises(ValueError, match=message):
        fitted(make_problem(0), n_groups=2, **wrong)
