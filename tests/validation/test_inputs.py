"""Through `fit`: what is wrong with an input is said, and labels outside the masks are dropped."""

import numpy as np
import pytest
import scipy.sparse
import torch

from simi_mailbox import Graph, NotFittedError, SimiMailbox, TemperatureScaling, select
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.validation import CalibrationData
from tests.strategies import make_problem

CASE = make_problem(0)
N, K = CASE.logits.shape
Z, Y = CASE.logits, CASE.y
HIDDEN = np.arange(N) % 7 == 0


def fit(calibrator=None, **changes):
    given = {"logits": Z, "y": Y, "mask": CASE.mask, "graph": CASE.edges, **changes}
    return (calibrator or SimiMailbox()).fit(**given)


def masked(array):
    return np.ma.array(array, mask=np.broadcast_to(HIDDEN, array.T.shape).T)


QUANTISED = torch.quantize_per_tensor(torch.tensor(Z).float(), 0.1, 0, torch.qint8)
MISTAKES = [
    ({"logits": np.where(np.arange(N)[:, None] == 7, np.nan, Z)}, ValueError, "first is node 7"),
    ({"logits": Z[0]}, ValueError, r"\[nodes, classes\].*got \[4\]; .*\"binary-logits\""),
    ({"logits": Z[:0]}, ValueError, "no node"),
    ({"logits": Z[:, :1]}, ValueError, "at least two classes"),
    ({"logits": Z[None]}, ValueError, r"got \[1, 120, 4\]; of outputs per edge or graph pass one"),
    ({"logits": Z * 1e20}, ValueError, r"node \d+ has a logit of size .*e\+2\d; .* divide all"),
    ({"logits": Z > 0}, TypeError, "must be real numbers"),
    ({"logits": Z.astype(str)}, TypeError, "must be real numbers"),
    ({"logits": torch.tensor(Z + 0j)}, TypeError, "must be real numbers"),
    ({"logits": masked(Z)}, TypeError, "logits is a masked array"),
    ({"logits": Z.astype(np.longdouble)}, TypeError, r"float128: pass array\.astype"),
    ({"logits": torch.tensor(Z).to_sparse()}, TypeError, r"logits is a sparse matrix"),
    ({"logits": torch.tensor(Z).to_sparse_csr()}, TypeError, "pass a dense array"),
    ({"logits": scipy.sparse.csr_matrix(Z)}, TypeError, r"logits is a sparse matrix"),
    ({"logits": QUANTISED}, TypeError, "tensor of torch.qint8"),
    ({"logits": torch.empty(N, K, device="meta")}, TypeError, "on the device meta: pass a dense"),
    ({"input_type": "p"}, ValueError, r"one of logits, .*, binary-probabilities, got 'p'"),
    ({"y": Y[:50]}, ValueError, r"shape \[50\]; .* \[120\], or one per node of mask, \[60\]"),
    ({"y": Y + 0.5}, ValueError, "whole numbers"),
    ({"y": np.full(N, np.nan)}, ValueError, "whole numbers"),
    ({"y": np.full(N, "cat")}, TypeError, "got an array of <U3; number the classes first"),
    ({"y": np.zeros((N, 4))}, ValueError, r"labels of shape \[120, 4\]; .*take argmax\(axis=1\)"),
    ({"y": masked(Y)}, TypeError, "labels is a masked array, whose mask would be lost"),
    ({"y": scipy.sparse.csr_matrix(Y)}, TypeError, "labels is a sparse matrix"),
    ({"mask": np.zeros(N, bool)}, ValueError, "selects no node"),
    ({"mask": None}, TypeError, "which nodes' labels may be read"),
    ({"mask": np.ones(7, bool)}, ValueError, "7 entries for 120 nodes"),
    ({"mask": [0, 120]}, ValueError, r"names node 120.*0\.\.119"),
    ({"mask": [-1]}, ValueError, "names node -1"),
    ({"mask": [0.0, 1.0]}, TypeError, "boolean or integer"),
    ({"mask": np.ones((N, 1), bool)}, ValueError, "one-dimensional"),
    ({"mask": ["a", "b"]}, TypeError, "boolean or integer; got an array of <U1"),
    ({"mask": masked(~HIDDEN)}, TypeError, "mask is a masked array"),
    ({"mask": np.arange(N)[::-1]}, ValueError, "mask names all 120 nodes, not in their order: lab"),
    ({"graph": None}, TypeError, r"SimiMailbox needs graph: pass graph="),
    ({"graph": [[0, 500], [1, 1]]}, ValueError, "edge 1 joins nodes 500"),
    ({"graph": Graph.empty(50)}, ValueError, "per edge or per graph need a method without graph"),
    ({"y": Y[CASE.mask], "early_stopping_mask": [0]}, ValueError, "full length 120, got 60"),
    ({"early_stopping_mask": [120]}, ValueError, "early_stopping_mask names node 120"),
    ({"early_stopping_mask": []}, ValueError, "early_stopping_mask selects no node"),
    ({"hidden": masked(Z)}, TypeError, "hidden is a masked array"),
    ({"features": np.zeros((3, 2))}, ValueError, "one row per node"),
    ({"features": np.full((N, 2), np.nan)}, ValueError, "NaN"),
    ({"features": np.zeros((N, 0))}, ValueError, "features have no column"),
]


@pytest.mark.parametrize(("changes", "error", "message"), MISTAKES)
def test_bad_input_is_refused_and_leaves_nothing_fitted(changes, error, message):
    calibrator = SimiMailbox()
    with pytest.raises(error, match=message):
        fit(calibrator, **changes)
    with pytest.raises(NotFittedError, match="not fitted"):
        calibrator.predict_proba(Z, graph=CASE.edges)


def test_all_forms_of_mask_and_labels_mean_the_same():
    boolean = np.zeros(N, bool)
    boolean[CASE.mask] = True
    expected = fit().predict_proba(Z, graph=CASE.edges)
    read_only = Z.copy()
    read_only.setflags(write=False)
    for changes in (
        {"mask": boolean},
        {"mask": torch.from_numpy(boolean)},
        {"mask": CASE.mask.tolist()},
        {"mask": CASE.mask.astype(np.int32)},
        {"y": Y[CASE.mask]},
        {"y": Y[:, None]},
        {"y": torch.from_numpy(Y)},
        {"y": Y.astype(float)},
        {"y": np.where(boolean, Y, np.nan)},
        {"logits": read_only},
    ):
        found = fit(**changes).predict_proba(changes.get("logits", Z), graph=CASE.edges)
        np.testing.assert_array_equal(found, expected)
        found[0, 0] = 1.0  # which nobody else sees


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64, np.int8])
@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy])
def test_whole_numbers_of_any_width_are_logits(kind, of):
    whole = np.abs(np.round(Z * 3)).astype(kind)
    expected = fit(TemperatureScaling(), logits=whole.astype(np.float32)).temperature_
    found = fit(TemperatureScaling(), logits=of(whole)).temperature_
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int8])
def test_labels_of_the_mask_alone_may_be_of_any_type(kind):
    logits, mask = Z[:, :2], np.arange(0, N, 2)
    full = logits.argmax(axis=1)
    full[::3] = 1 - full[::3]
    labels = full[mask]
    given = {"mask": mask, "folds": 2}
    methods = {"methods": ["uncalibrated", "temperature"], "default": "uncalibrated"}
    chosen = select(logits, labels, **given, **methods)
    for y in (labels.astype(kind), full.astype(kind)):
        assert select(logits, y, **given, **methods).evidence == chosen.evidence


class Listening(Calibrator):
    """Keeps what it is given."""

    def _fit(self, data: CalibrationData) -> None:
        self.seen = data

    def _predict(self, data):
        return torch.softmax(data.logits, 1)


def test_the_order_of_an_index_mask_orders_its_labels_and_nothing_else():
    listed = np.random.default_rng(0).permutation(CASE.mask)
    for y in (Y, Y[listed]):
        seen = Listening().fit(Z, y, mask=listed).seen.calibration
        assert seen.index.tolist() == sorted(CASE.mask)
        assert seen.y.tolist() == Y[np.sort(CASE.mask)].tolist()
    assert Listening().fit(Z, Y, mask=np.arange(N)).seen.calibration.y.numel() == N


def test_a_method_sees_only_the_labels_of_its_masks():
    spy = Listening().fit(Z, Y, mask=CASE.mask, early_stopping_mask=[5, 1])
    seen = vars(spy.seen)
    names = "calibration features forward graph hidden holdout known logits node_ids training"
    assert sorted(seen) == [*names.split(), "used_for_selection"]
    assert seen["known"] is None
    assert seen["calibration"].y.tolist() == Y[CASE.mask].tolist()
    assert seen["holdout"].y.tolist() == Y[[1, 5]].tolist()
