"""Where a check begins to refuse: values just on either side of each bound."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

from simi_mailbox import CalibrationWarning, validation
from simi_mailbox.softmax import LogitRange
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs, read_logits


def rows(count: int, row: list[float]) -> torch.Tensor:
    return torch.tensor([row] * count, dtype=torch.float64)


HALF = np.full((6, 2), 0.5)
NODES = np.array([1, 3])
DENSE = np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
THREE, EQUAL = np.arange(3), [0.5, 0.5]
ABC = ["a", "b", "c"]
OBJECTS = np.array(["a", 1], dtype=object)


def changed(row: int, values: list[float]) -> np.ndarray:
    probs = HALF.copy()
    probs[row] = values
    return probs


# What is called with what, and what it says.
REFUSED = [
    ("read_logits", (np.zeros(5), "probabilities"), 'say input_type="binary-probabilities"'),
    ("read_logits", (np.zeros((5, 2)), "binary-logits"), r"1\]; got \[5, 2\].* say \"logits\""),
    ("read_logits", (np.linspace(0, 1, 20), "binary-logits"), 'say input_type="binary-prob'),
    ("read_logits", (np.array([0.2, 1.7]), "binary-probabilities"), "node 1 is 1.7"),
    ("read_logits", (np.array([0.2, np.nan]), "binary-probabilities"), "node 1 is nan"),
    ("read_logits", (np.array([0.2, np.nan]), "binary-logits"), "NaN or infinite"),
    ("read_logits", (np.zeros(0), "binary-logits"), "hold no node"),
    ("read_logits", (HALF + 0.2, "probabilities"), '"probabilities", but probabilities are none'),
    ("read_logits", (HALF, "log-probabilities"), r"but exp\(log-probabilities\) are none: probs"),
    ("read_logits", ([[1.0, -np.inf], [0.0, 1.0]],), "of 1 of 2 nodes .* is node 0: .* or on none"),
    ("read_probabilities", (changed(4, [0.7, 0.7]), NODES + 1), r"probs of node 4 sum to 1\.4"),
    ("read_probabilities", (changed(4, [2.0, -1.0]), NODES + 1), r"probs\[4, 0\] is 2"),
    ("read_probabilities", (changed(0, [-1.5e-6, 1.0]),), "probs"),
    ("read_probabilities", (changed(0, [0.0, 1 + 1.5e-6]),), "probs"),
    ("read_index", ([0, 1, 1, 0], 4, "mask"), r"0 and 1 for every node.*mask\.astype\(bool\)"),
    ("read_index", ([0, 2, 2, 1], 4, "mask"), "names a node twice"),
    ("refuse_shared", ([1, 2], [2], ("a", "b"), "why"), r"a and b have 1 node .*first is 2\)"),
    ("refuse_shared", ([1, 2], [2, 1], ("a", "b"), "why"), r"2 nodes in common \(the first is 1\)"),
    ("read_classes", ([9, 0, 9, -1], NODES, 4, 3), r"node 3 has label -1, but the classes are 0\."),
    ("read_classes", ([9, 0, 9, 3], NODES, 4, 3), r"node 3 has label 3, .*classes are 0\.\.2"),
    ("read_classes", ([1, 0], NODES, 9), r"labels of shape \[2\]; expected one per node, \[9\]$"),
    ("read_known", (([1],), 4, 3), "known must be a pair"),
    ("read_known", (None, 4, 3), "known must be a pair"),
    ("read_positive", (-1, 3), r"positive is -1; the classes are 0\.\.2"),
    ("read_positive", (3, 3), r"positive is 3; the classes are 0\.\.2"),
    ("read_positive", (True, 3), "number or the name"),
    ("read_positive", (1.0, 3), "number or the name"),
    ("read_positive", (0, 3, ABC[:2]), "3 different names"),
    ("read_positive", (0, 3, ["a", "b", "b"]), "3 different names"),
    ("read_positive", ("a", 3), r"0\.\.2, without names: pass classes="),
    ("read_positive", ("d", 3, ABC), "'d'; the classes are a, b, c"),
    ("read_node_ids", (OBJECTS, 2), "whole numbers or strings"),
    ("read_node_ids", ([[0], [1]], 2), r"with shape \[2, 1\]"),
    ("read_node_ids", ([0, 1, 2], 2), "3 node_ids for 2 nodes"),
    ("read_node_ids", ([5, 1, 5], 3), "differ: 5 stands for several nodes"),
    ("read_node_ids", ([5, 1, -1], 3), "node_ids of row 2 is -1: ids are not negative"),
    ("read_features", (scipy.sparse.csr_array(np.where(DENSE == 2, np.inf, DENSE)), 3), "NaN"),
    ("read_weights", ([1.0, -1.0, 1.0], THREE, 3), "node 1 is -1: weights are finite and not neg"),
    ("read_weights", ([1.0, np.nan, 1.0], THREE, 3), "node 1 is nan"),
    ("read_weights", ([0.0, 0.0, 0.0], THREE, 3), "zero for every calibration node"),
    ("read_weights", ([1.0, 1.0], THREE, 3), r"shape \[2\]; expected one per node, \[3\]"),
    ("read_prior_shift", ({"trained": EQUAL}, 2), "prior_shift must be"),
    ("read_prior_shift", (EQUAL, 2), "prior_shift must be"),
    ("read_prior_shift", ({"trained": EQUAL, "deployed": [0.9, 0.2]}, 2), r"sums to 1\.1"),
    ("read_prior_shift", ({"trained": EQUAL, "deployed": [1.0, 0.0]}, 2), "number for each of 2"),
    ("read_prior_shift", ({"class_weights": [1.0, 2.0, 3.0]}, 2), "positive number for each of 2"),
    ("read_features", (DENSE[:, 0], 3), r"\[3\] for 3"),
]


WRONG_TYPE = ("known must", "number or the name", "whole numbers or", r"with shape \[2, 1")


@pytest.mark.parametrize(("read", "given", "told"), REFUSED)
def test_what_is_refused(read, given, told):
    error = TypeError if told.startswith(WRONG_TYPE) else ValueError
    with pytest.raises(error, match=told):
        getattr(validation, read)(*given)


@pytest.mark.parametrize(
    ("count", "row", "alike"),
    [
        (10, [0.2, 0.8], True),
        (9, [0.2, 0.8], False),  # by chance
        (10, [0.2, 0.8009], True),
        (10, [0.2, 0.8015], False),
        (10, [0.2, 0.7985], False),
        (10, [-0.9e-6, 1.0], True),
        (10, [-1.5e-6, 1.0], False),
    ],
)
def test_ten_rows_that_sum_to_one_are_probabilities(count, row, alike):
    z = rows(count, row)
    assert validation.are_probabilities(z) == alike
    if alike:
        with pytest.raises(ValueError, match="these are probabilities"):
            read_logits(z)
    else:
        assert torch.equal(read_logits(z), z)


@pytest.mark.parametrize(
    ("count", "off", "alike"),
    [(10, 0.0, True), (9, 0.0, False), (10, 9e-4, True), (10, 2e-3, False)],
)
def test_ten_rows_whose_exponentials_sum_to_one_are_log_probabilities(count, off, alike):
    assert validation.are_log_probabilities(rows(count, [0.2, 0.8]).log() + off) == alike


@pytest.mark.parametrize("kind", [validation.are_probabilities, validation.are_log_probabilities])
def test_one_row_far_down_tells_that_they_are_none(kind):
    z = rows(1500, [0.5, 0.5] if kind is validation.are_probabilities else [np.log(0.5)] * 2)
    assert kind(z)
    z[1400] += 1.0
    assert not kind(z)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64"])
@pytest.mark.parametrize("of", [np.asarray, torch.tensor])
def test_a_score_becomes_two_classes(shape, dtype, of):
    z = read_logits(of(np.array([-2, 0, 3], dtype=dtype).reshape(shape)), "binary-logits")
    assert z.tolist() == [[0.0, -2.0], [0.0, 0.0], [0.0, 3.0]]
    p = read_logits(of(np.array([0, 1, 1], dtype=dtype).reshape(shape)), "binary-probabilities")
    assert np.allclose(p.exp(), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert str(z.dtype) == ("torch.float64" if dtype == "float64" else "torch.float32")


@pytest.mark.parametrize("beyond", [-1.5e-6, 1 + 1.5e-6])
def test_ten_binary_scores_within_zero_and_one_are_no_logits(beyond):
    scores = np.linspace(0, 1, 10)
    with pytest.raises(ValueError, match="look like probabilities"):
        read_logits(scores, "binary-logits")
    assert read_logits(scores[:9], "binary-logits").shape == (9, 2)
    scores[4] = beyond
    assert read_logits(scores, "binary-logits")[4].tolist() == [0.0, beyond]
    with pytest.raises(ValueError, match="probability of node 4 is"):
        read_logits(scores, "binary-probabilities")
    scores[4] = round(beyond) + (beyond - round(beyond)) / 2
    assert bool((read_logits(scores, "binary-probabilities")[4].exp() <= 1).all())


@pytest.mark.parametrize(
    ("off", "fine"), [(9e-4, True), (-9e-4, True), (1.5e-3, False), (-1.5e-3, False)]
)
def test_rows_and_shares_may_miss_one_by_a_thousandth(off, fine):
    probs = np.array([[0.5, 0.5], [0.5, 0.5 + off]])
    shares = {"trained": [0.5, 0.5], "deployed": [0.5, 0.5 + off]}
    if fine:
        assert validation.read_probabilities(probs) is probs
        assert validation.read_prior_shift(shares, 2)[1] == pytest.approx(np.log((0.5 + off) / 0.5))
    else:
        with pytest.raises(ValueError, match="node 1 sum to"):
            validation.read_probabilities(probs)
        with pytest.raises(ValueError, match="deployed of prior_shift sums to"):
            validation.read_prior_shift(shares, 2)


def test_probabilities_may_miss_their_bounds_by_rounding():
    fine = changed(0, [-1e-6, 1 + 1e-6])
    np.testing.assert_array_equal(validation.read_probabilities(fine), fine)
    some = validation.read_probabilities(changed(4, [2.0, -1.0]), np.array([3]))
    assert some.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_probability_of_zero_becomes_the_smallest_number_of_its_type(dtype):
    tiny = torch.finfo(dtype).tiny
    for given, kind in (([0.0, 1.0], "probabilities"), ([-np.inf, 0.0], "log-probabilities")):
        found = read_logits(torch.tensor([given], dtype=dtype), kind)
        assert found.tolist() == [[pytest.approx(np.log(tiny)), 0.0]]
        assert found.dtype == dtype


def test_finite_logits_whose_sum_overflows_and_masked_classes_are_fine():
    masked = torch.tensor([[1.0, -np.inf, 2.0], [0.0, -np.inf, 1.0]])
    for z in (torch.full((4, 2), 3e38), masked):
        assert torch.equal(read_logits(z), z)


def test_logits_of_another_byte_order_and_narrow_floats_are_read():
    z = np.array([[1.0, -3.0], [0.0, 2.5]])
    assert validation.as_numpy(z.astype(">f8")).dtype.isnative
    narrow = z.astype(np.float16)
    for given in (z.astype(">f8"), narrow, torch.tensor(z).bfloat16(), z[:, ::-1][:, ::-1]):
        found = read_logits(given)
        assert found.tolist() == z.tolist()
        assert found.is_contiguous()
    assert read_logits(narrow).dtype == torch.float32


@pytest.mark.parametrize(("most", "dtype"), [(1 << 24, "float32"), ((1 << 24) + 1, "float64")])
def test_whole_numbers_that_float32_does_not_tell_apart_are_wider(most, dtype):
    found = read_logits(np.array([[most, 0, -3], [5, 1, 2]]))
    assert str(found.dtype) == f"torch.{dtype}"
    assert int(found[0, 0]) == most


def test_bounds_belong_to_what_may_be_named():
    assert validation.read_index([0, 4], 5, "mask").tolist() == [0, 4]
    assert validation.read_index([], 5, "nodes", empty=True).size == 0
    assert validation.read_index(np.zeros(5, bool), 5, "nodes", empty=True).size == 0
    validation.refuse_shared([1, 2], [3], ("a", "b"), "why")
    assert validation.read_classes([9, 0, 9, 2], NODES, 4, 3).tolist() == [0, 2]
    assert validation.read_classes([[0], [1], [1], [0]], NODES, 4, 2).tolist() == [1, 0]
    assert validation.read_classes([1, 0], NODES, 9, only_these=True).tolist() == [1, 0]
    assert validation.read_classes(np.empty(0), NODES[:0], 4, 2, only_these=True).size == 0
    assert [validation.read_positive(k, 3) for k in (0, 2)] == [0, 2]
    assert validation.read_node_ids([0, 7], 2).tolist() == [0, 7]
    assert validation.read_node_ids(np.array(["a", "b"], dtype=object), 2).dtype.kind == "U"
    assert validation.read_node_ids(np.empty(0, dtype=int), 0).size == 0
    found = validation.read_known(([3, 1], [2, 0]), 4, 3)
    assert (found.index.tolist(), found.y.tolist()) == ([1, 3], [0, 2])
    assert len(validation.read_known([[], []], 4, 3)) == 0


@pytest.mark.parametrize("value", [1e20, -3, 4.0])
def test_a_label_out_of_range_is_shown_as_it_was_given(value):
    with pytest.raises(ValueError, match=rf"node 3 of mask has label {re.escape(f'{value:.15g}')}"):
        validation.read_classes(np.array([0.0, value]), NODES, 9, 4, of="mask", only_these=True)


def test_weights_of_zero_are_weights():
    assert validation.read_weights([0.0, 2.0, 2.0], np.arange(3), 3).tolist() == [0.0, 1.0, 1.0]
    assert validation.read_weights([1.0, 3.0, 9.9], np.arange(2), 3) == pytest.approx([0.4, 1.2])
    huge = validation.read_weights([1e308, 1e308], np.arange(2), 2)  # their sum is no number
    assert huge.tolist() == [1.0, 1.0]
    uneven = validation.read_weights([1.0] * 90 + [100.0] * 10, np.arange(100), 100)
    assert uneven.sum() == pytest.approx(1090**2 / (90 + 10 * 100**2))  # the effective number


EVEN = np.full(500, 0.7)
SPREAD = np.tile([0.6, 0.8], 500)
ERROR = SPREAD.std(ddof=1) / 8  # of 64 nodes


@pytest.mark.parametrize(
    ("own", "rest", "m", "right", "suspected"),
    [
        (0.7 + 4.05 * ERROR, SPREAD, 64, 1.0, True),  # four standard errors
        (0.7 + 3.95 * ERROR, SPREAD, 64, 1.0, False),
        (0.7 - 6 * ERROR, SPREAD, 64, 1.0, False),
        (0.711, EVEN, 64, 1.0, True),  # and one point at least
        (0.709, EVEN, 64, 1.0, False),
        (0.9, EVEN + 0.05, 64, 0.76, True),  # right as often as the model expects of others
        (0.9, EVEN + 0.05, 64, 0.73, False),
        (0.99, EVEN[:30], 30, 1.0, True),  # thirty nodes on either side
        (0.99, EVEN[:30], 29, 1.0, False),
        (0.99, EVEN[:29], 30, 1.0, False),
        (0.9, np.repeat([0.9, 0.5], 25_000), 64, 1.0, True),  # of many others a fair part
    ],
)
def test_nodes_look_trained_on_if_the_model_is_more_confident_of_them_and_right(
    own, rest, m, right, suspected
):
    p = np.concatenate([np.full(m, own), rest])
    z = torch.tensor(np.log(np.stack([p, 1 - p], axis=1)))  # the first class is predicted
    y = (np.arange(m) >= right * m).astype(np.int64)
    found = validation.looks_trained_on(z, Labelled(torch.arange(m), torch.from_numpy(y)))
    assert bool(found) == suspected


def test_all_labels_of_one_class_are_told_from_ten_on():
    def read(count: int, y: int = 1) -> CalibrationData:
        nodes = NodeInputs(torch.zeros(40, 2))
        labels = np.full(40, 1)
        labels[0] = y
        return validation.read_calibration(nodes, labels, range(count), allow_training_nodes=True)

    with pytest.warns(CalibrationWarning, match="all 10 calibration labels are class 1"):
        read(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(9)
        read(10, y=0)


def test_a_shift_of_classes_and_impossible_ones_reach_the_forward_function_too():
    z = torch.tensor([[0.0, -np.inf, 1.0], [2.0, -np.inf, 0.5]])
    inputs = NodeInputs(z, forward=lambda weight: z * weight)
    offset = np.array([1.0, 2.0, 3.0])
    shifted = validation.moved(inputs, offset)
    assert shifted.logits.tolist() == (z + torch.tensor(offset)).float().tolist()
    assert shifted.forward is not None
    assert shifted.forward(torch.tensor(2.0)).tolist() == (2 * z + torch.tensor(offset)).tolist()
    limits = LogitRange.of(z)
    cut = validation.clip(inputs, limits)
    assert cut.logits.shape == (2, 2)
    assert cut.forward is not None
    assert cut.forward(torch.tensor(1.0)).tolist() == z[:, [0, 2]].tolist()
    labelled = Labelled(torch.tensor([0, 1]), torch.tensor([2, 0]))
    data = CalibrationData(z, calibration=labelled, holdout=labelled)
    for part in validation.clip(data, limits).labelled.values():
        assert part.y.tolist() == [1, 0]
    assert list(CalibrationData(z, calibration=labelled).labelled) == ["calibration"]


@pytest.mark.parametrize(
    ("given", "layout"),
    [
        (scipy.sparse.csr_array(DENSE), torch.sparse_csr),
        (scipy.sparse.coo_array(DENSE), torch.sparse_csr),
        (torch.tensor(DENSE).to_sparse(), torch.sparse_csr),
        (torch.tensor(DENSE).to_sparse_csr(), torch.sparse_csr),
        (DENSE, torch.strided),
        (torch.tensor(DENSE), torch.strided),
        (DENSE.astype(int), torch.strided),
    ],
)
def test_features_stay_as_sparse_as_they_are(given, layout):
    found = validation.read_features(given, 3)
    assert (found.layout, found.dtype) == (layout, torch.float32)
    assert found.to_dense().tolist() == DENSE.tolist()
