"""The door: what is wrong with an input is said there, and labels are cut there."""

import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import torch

from simi_mailbox import NotFittedError, SimiMailbox
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.validation import CalibrationData, read_classes, read_index, read_probabilities
from tests.strategies import make_problem

CASE = make_problem(0)


def fit(calibrator=None, **changes):
    arguments = {"logits": CASE.logits, "y": CASE.y, "mask": CASE.mask, "graph": CASE.edges}
    arguments.update(changes)
    return (calibrator or SimiMailbox()).fit(**arguments)


def with_logits(row, value):
    logits = CASE.logits.copy()
    logits[row, 1] = value
    return logits


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"logits": with_logits(7, np.nan)}, ValueError, "first is node 7"),
        ({"logits": with_logits(9, np.inf)}, ValueError, "first is node 9"),
        ({"logits": CASE.logits[0]}, ValueError, r"\[nodes, classes\], got \[4\]"),
        ({"logits": CASE.logits[:0]}, ValueError, "no node"),
        ({"logits": CASE.logits[:, :1]}, ValueError, "at least two classes"),
        ({"logits": CASE.logits[:, :0]}, ValueError, "at least two classes"),
        ({"logits": CASE.logits[None]}, ValueError, r"\[nodes, classes\], got \[1, 120, 4\]"),
        ({"logits": CASE.logits * 1e20}, ValueError, "divide all logits"),
        ({"logits": CASE.logits > 0}, TypeError, "must be real numbers"),
        ({"logits": CASE.logits.astype(str)}, TypeError, "must be real numbers"),
        ({"logits": CASE.logits.astype(object)}, TypeError, "must be real numbers"),
        ({"logits": CASE.logits + 0j}, TypeError, "must be real numbers"),
        ({"logits": torch.tensor(CASE.logits + 0j)}, TypeError, "must be real numbers"),
        ({"logits": torch.tensor(CASE.logits > 0)}, TypeError, "must be real numbers"),
        (
            {"y": CASE.y[:50]},
            ValueError,
            r"shape \[50\]; .* \[120\], or one per node of mask, \[60\]",
        ),
        ({"y": np.where(np.arange(120) == CASE.mask[3], 9, CASE.y)}, ValueError, "has label 9"),
        ({"y": np.where(np.arange(120) == CASE.mask[3], -1, CASE.y)}, ValueError, "has label -1"),
        ({"y": np.tile(CASE.y, 2)}, ValueError, r"shape \[240\]; expected one per node"),
        ({"y": CASE.y + 0.5}, ValueError, "whole numbers"),
        ({"y": np.full(120, np.nan)}, ValueError, "whole numbers"),
        (
            {"y": np.full(120, "cat")},
            TypeError,
            "got an array of <U3; number the classes first",
        ),
        ({"y": np.zeros((120, 4))}, ValueError, r"labels of shape \[120, 4\]; expected one per"),
        ({"mask": np.zeros(120, bool)}, ValueError, "selects no node"),
        ({"mask": []}, ValueError, "selects no node"),
        ({"mask": None}, TypeError, "which nodes' labels may be read"),
        ({"mask": np.ones(7, bool)}, ValueError, "7 entries for 120 nodes"),
        ({"mask": [0, 0]}, ValueError, "twice"),
        ({"mask": [0, 120]}, ValueError, r"names node 120.*0\.\.119"),
        ({"mask": [-1]}, ValueError, "names node -1"),
        ({"mask": [0.0, 1.0]}, TypeError, "boolean or integer"),
        ({"mask": np.ones((120, 1), bool)}, ValueError, "one-dimensional"),
        ({"mask": ["a", "b"]}, TypeError, "boolean or integer; got an array of <U1"),
        ({"graph": None}, TypeError, r"SimiMailbox needs graph: pass graph="),
        ({"graph": [[0, 500], [1, 1]]}, ValueError, "edge 1 joins nodes 500"),
        (
            {"y": CASE.y[CASE.mask], "early_stopping_mask": [0]},
            ValueError,
            "full length 120, got 60",
        ),
        ({"early_stopping_mask": [120]}, ValueError, "early_stopping_mask names node 120"),
        ({"early_stopping_mask": []}, ValueError, "early_stopping_mask selects no node"),
        ({"features": np.zeros((3, 2))}, ValueError, "one row per node"),
        ({"features": np.full((120, 2), np.nan)}, ValueError, "NaN"),
        ({"features": np.zeros((120, 0))}, ValueError, "features have no column"),
        ({"features": scipy.sparse.csr_array((120, 0))}, ValueError, "features have no column"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing_fitted(changes, error, message):
    calibrator = SimiMailbox()
    with pytest.raises(error, match=message):
        fit(calibrator, **changes)
    with pytest.raises(NotFittedError, match="not fitted"):
        calibrator.predict_proba(CASE.logits, graph=CASE.edges)


def test_all_forms_of_mask_and_labels_mean_the_same():
    boolean = np.zeros(120, bool)
    boolean[CASE.mask] = True
    expected = fit().predict_proba(CASE.logits, graph=CASE.edges)
    for changes in (
        {"mask": boolean},
        {"mask": torch.from_numpy(boolean)},
        {"mask": CASE.mask.tolist()},
        {"mask": CASE.mask.astype(np.int32)},
        {"y": CASE.y[CASE.mask]},
        {"y": CASE.y[:, None]},
        {"y": torch.from_numpy(CASE.y)},
        {"y": CASE.y.astype(float)},
        {"y": np.where(boolean, CASE.y, np.nan)},
    ):
        found = fit(**changes).predict_proba(CASE.logits, graph=CASE.edges)
        np.testing.assert_array_equal(found, expected)


class Listening(Calibrator):
    """Keeps what it is given."""

    def _fit(self, data: CalibrationData) -> None:
        self.seen = data

    def _predict(self, data):
        return torch.softmax(data.logits, 1)


def test_the_order_of_an_index_mask_orders_its_labels_and_nothing_else():
    listed = np.random.default_rng(0).permutation(CASE.mask)
    for y in (CASE.y, CASE.y[listed]):
        seen = Listening().fit(CASE.logits, y, mask=listed).seen.calibration
        assert seen.index.tolist() == sorted(CASE.mask)
        assert seen.y.tolist() == CASE.y[np.sort(CASE.mask)].tolist()


def test_labels_of_all_nodes_listed_in_another_order_could_be_in_either():
    everyone = np.arange(120)
    with pytest.raises(ValueError, match="mask names all 120 nodes, not in their order: labels"):
        fit(mask=everyone[::-1])
    assert Listening().fit(CASE.logits, CASE.y, mask=everyone).seen.calibration.y.numel() == 120


def test_a_method_sees_only_the_labels_of_its_masks():
    spy = Listening().fit(CASE.logits, CASE.y, mask=CASE.mask, early_stopping_mask=[5, 1])
    seen = vars(spy.seen)
    assert sorted(seen) == [
        "calibration", "features", "forward", "graph", "hidden", "holdout", "known",
        "logits", "node_ids", "training", "used_for_selection",
    ]  # fmt: skip
    assert seen["known"] is None
    assert seen["calibration"].y.tolist() == CASE.y[CASE.mask].tolist()
    assert seen["holdout"].y.tolist() == CASE.y[[1, 5]].tolist()


def test_read_only_arrays_are_welcome():
    logits = CASE.logits.copy()
    logits.setflags(write=False)
    fit(logits=logits).predict_proba(logits, graph=CASE.edges)[0, 0] = 1.0


def test_metrics_read_their_input_without_torch():
    code = "import sys, simi_mailbox.metrics; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("value", [1e20, -3, 4.0])
def test_a_label_out_of_range_is_shown_as_it_was_given(value):
    with pytest.raises(ValueError, match=rf"node 5 of mask has label {re.escape(f'{value:.15g}')}"):
        read_classes(np.array([0.0, value]), np.array([2, 5]), 9, 4, of="mask", only_these=True)


def test_the_shorter_list_of_labels_must_be_allowed():
    nodes = np.array([2, 5])
    assert read_classes([1, 0], nodes, 9, only_these=True).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"labels of shape \[2\]; expected one per node, \[9\]$"):
        read_classes([1, 0], nodes, 9)


def test_bad_probabilities_are_named_by_node_not_by_row():
    probs = np.full((6, 2), 0.5)
    probs[4] = [0.7, 0.7]
    with pytest.raises(ValueError, match=r"probs of node 4 sum to 1\.4"):
        read_probabilities(probs, np.array([0, 4]))
    probs[4] = [2.0, -1.0]
    with pytest.raises(ValueError, match=r"probs\[4, 0\] is 2"):
        read_probabilities(probs, np.array([0, 4]))
    assert read_probabilities(probs, np.array([3])).tolist() == [[0.5, 0.5]]


def test_no_node_is_fine_where_the_caller_says_so():
    assert read_index([], 5, "nodes", empty=True).size == 0
    assert read_index(np.zeros(5, bool), 5, "nodes", empty=True).size == 0
