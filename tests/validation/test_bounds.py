"""Where a check begins to refuse: values just on either side of each bound."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

from simi_mailbox import CalibrationWarning
from simi_mailbox.softmax import LogitRange
from simi_mailbox.validation import (
    CalibrationData,
    Labelled,
    NodeInputs,
    are_log_probabilities,
    are_probabilities,
    as_numpy,
    clip,
    looks_trained_on,
    moved,
    read_calibration,
    read_classes,
    read_features,
    read_index,
    read_known,
    read_logits,
    read_node_ids,
    read_positive,
    read_prior_shift,
    read_probabilities,
    read_weights,
    refuse_shared,
)


def rows(count: int, row: list[float]) -> torch.Tensor:
    return torch.tensor([row] * count, dtype=torch.float64)


# --- what looks like probabilities ----------------------------------------------------------------


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
    assert are_probabilities(z) == alike
    if alike:
        with pytest.raises(ValueError, match="these are probabilities"):
            read_logits(z)
    else:
        assert torch.equal(read_logits(z), z)


@pytest.mark.parametrize("kind", [are_probabilities, are_log_probabilities])
def test_one_row_far_down_tells_that_they_are_none(kind):
    z = rows(1500, [0.5, 0.5] if kind is are_probabilities else [np.log(0.5)] * 2)
    assert kind(z)
    z[1400] += 1.0
    assert not kind(z)


@pytest.mark.parametrize(
    ("count", "off", "alike"),
    [(10, 0.0, True), (9, 0.0, False), (10, 9e-4, True), (10, 2e-3, False)],
)
def test_ten_rows_whose_exponentials_sum_to_one_are_log_probabilities(count, off, alike):
    assert are_log_probabilities(rows(count, [0.2, 0.8]).log() + off) == alike


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
        assert read_probabilities(probs) is probs
        assert read_prior_shift(shares, 2)[1] == pytest.approx(np.log((0.5 + off) / 0.5))
    else:
        with pytest.raises(ValueError, match="node 1 sum to"):
            read_probabilities(probs)
        with pytest.raises(ValueError, match="deployed of prior_shift sums to"):
            read_prior_shift(shares, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_probability_of_zero_becomes_the_smallest_number_of_its_type(dtype):
    tiny = torch.finfo(dtype).tiny
    found = read_logits(torch.tensor([[0.0, 1.0]], dtype=dtype), "probabilities")
    assert found.tolist() == [[pytest.approx(np.log(tiny)), 0.0]]
    found = read_logits(torch.tensor([[-np.inf, 0.0]], dtype=dtype), "log-probabilities")
    assert found.tolist() == [[pytest.approx(np.log(tiny)), 0.0]]
    assert found.dtype == dtype


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("probabilities", "probabilities"), ("log-probabilities", r"exp\(log-probabilities\)")],
)
def test_what_is_called_probabilities_and_is_none_is_said(kind, shown):
    with pytest.raises(ValueError, match=rf'input_type="{kind}", but {shown} are none: probs'):
        read_logits(np.array([[0.5, 0.9]]), kind)


# --- logits ---------------------------------------------------------------------------------------


def test_finite_logits_whose_sum_overflows_are_fine():
    z = torch.full((4, 2), 3e38)
    assert torch.equal(read_logits(z), z)


def test_a_class_is_masked_on_every_node_or_on_none():
    z = np.array([[1.0, -np.inf, 2.0], [0.0, -np.inf, 1.0]])
    assert read_logits(z).tolist() == z.tolist()
    z[1, 1] = 0.0
    with pytest.raises(ValueError, match=r"logits of 1 of 2 nodes are .*; the first is node 0"):
        read_logits(z)


def test_logits_of_another_byte_order_and_narrow_floats_are_read():
    z = np.array([[1.0, -3.0], [0.0, 2.5]])
    assert as_numpy(z.astype(">f8")).dtype.isnative
    for given in (
        z.astype(">f8"),
        z.astype(np.float16),
        torch.tensor(z).bfloat16(),
        z[:, ::-1][:, ::-1],
    ):
        found = read_logits(given)
        assert found.tolist() == z.tolist()
        assert found.is_contiguous()
    assert read_logits(z.astype(np.float16)).dtype == torch.float32


# --- nodes and labels -----------------------------------------------------------------------------


def test_zeros_and_ones_for_every_node_are_a_mask_in_the_wrong_type():
    for wrong in (np.array([0, 1, 1, 0]), np.array([1, 1, 1, 1])):
        with pytest.raises(ValueError, match=r"holds 0 and 1 for every node.*mask\.astype\(bool\)"):
            read_index(wrong, 4, "mask")
    for twice, n in ((np.array([0, 1, 1]), 4), (np.array([0, 2, 2, 1]), 4)):
        with pytest.raises(ValueError, match="names a node twice"):
            read_index(twice, n, "mask")


def test_the_first_and_the_last_node_may_be_named():
    assert read_index([0, 4], 5, "mask").tolist() == [0, 4]
    for outside in (-1, 5):
        with pytest.raises(ValueError, match=f"names node {outside}"):
            read_index([0, outside], 5, "mask")


def test_nodes_in_common_are_counted():
    refuse_shared([1, 2], [3], ("a", "b"), "why")
    with pytest.raises(ValueError, match=r"a and b have 1 node in common \(2\): why"):
        refuse_shared([1, 2], [2], ("a", "b"), "why")
    with pytest.raises(ValueError, match=r"have 2 nodes in common \(the first is 1\): why"):
        refuse_shared([1, 2], [2, 1], ("a", "b"), "why")


def test_labels_are_of_the_classes_from_the_first_to_the_last():
    nodes = np.array([1, 3])
    assert read_classes([9, 0, 9, 2], nodes, 4, 3).tolist() == [0, 2]
    for bad in (-1, 3):
        with pytest.raises(
            ValueError, match=rf"node 3 has label {bad}, but the classes are 0\.\.2"
        ):
            read_classes([9, 0, 9, bad], nodes, 4, 3)
    assert read_classes([[0], [1], [1], [0]], nodes, 4, 2).tolist() == [1, 0]
    assert read_classes(np.empty(0), nodes[:0], 4, 2, only_these=True).size == 0


def test_one_hot_labels_are_ones_and_one_in_each_row():
    def told(y):
        with pytest.raises(ValueError, match="labels of shape") as caught:
            read_classes(np.array(y), np.arange(2), 2)
        return "argmax" in str(caught.value)

    assert told([[0, 1], [1, 0]])
    assert told([[0.0, 1.0], [1.0, 0.0]])
    assert not told([[0, 2], [1, 0]])
    assert not told([[1, 1], [1, 0]])
    assert not told([["0", "1"], ["1", "0"]])


def test_known_labels_are_a_pair_in_the_order_of_their_nodes():
    found = read_known(([3, 1], [2, 0]), 4, 3)
    assert (found.index.tolist(), found.y.tolist()) == ([3, 1], [2, 0])
    assert len(read_known([[], []], 4, 3)) == 0
    for wrong in (([1],), ([1], [0], [0]), {"nodes": [1]}, None):
        with pytest.raises(TypeError, match="known must be a pair"):
            read_known(wrong, 4, 3)


def test_weights_of_zero_are_weights():
    assert read_weights([0.0, 2.0, 2.0], np.arange(3), 3).tolist() == [0.0, 1.0, 1.0]
    huge = read_weights([1e308, 1e308], np.arange(2), 2)  # their sum is no number
    assert huge.tolist() == [1.0, 1.0]


def test_the_positive_class_is_the_first_to_the_last():
    assert [read_positive(k, 3) for k in (0, 2)] == [0, 2]
    for outside in (-1, 3):
        with pytest.raises(ValueError, match=rf"positive is {outside}; the classes are 0\.\.2"):
            read_positive(outside, 3)
    for wrong in (True, 1.0, None):
        with pytest.raises(TypeError, match="number or the name"):
            read_positive(wrong, 3)
    for names in (["a", "b"], ["a", "b", "b"]):
        with pytest.raises(ValueError, match="3 different names"):
            read_positive(0, 3, names)
    with pytest.raises(ValueError, match="the classes have no names"):
        read_positive("a", 3)
    with pytest.raises(ValueError, match="'d'; the classes are a, b, c"):
        read_positive("d", 3, ["a", "b", "c"])


def test_ids_are_whole_numbers_from_zero_or_texts_each_once():
    assert read_node_ids([0, 7], 2).tolist() == [0, 7]
    assert read_node_ids(np.array(["a", "b"], dtype=object), 2).dtype.kind == "U"
    assert read_node_ids(np.empty(0, dtype=int), 0).size == 0
    with pytest.raises(TypeError, match="whole numbers or strings"):
        read_node_ids(np.array(["a", 1], dtype=object), 2)
    with pytest.raises(TypeError, match=r"with shape \[2, 1\]"):
        read_node_ids([[0], [1]], 2)
    with pytest.raises(ValueError, match="3 node_ids for 2 nodes"):
        read_node_ids([0, 1, 2], 2)
    with pytest.raises(ValueError, match="differ: 5 stands for several nodes"):
        read_node_ids([5, 1, 5], 3)


# --- nodes that the model was trained on ----------------------------------------------------------


def probabilities_of(confidence: np.ndarray) -> torch.Tensor:
    """Logits of two classes; the first one is predicted."""
    return torch.tensor(np.log(np.stack([confidence, 1 - confidence], axis=1)))


def suspected(own: float, rest: np.ndarray, m: int = 64, right: float = 1.0) -> bool:
    z = probabilities_of(np.concatenate([np.full(m, own), rest]))
    y = (np.arange(m) >= right * m).astype(np.int64)
    return bool(looks_trained_on(z, Labelled(torch.arange(m), torch.from_numpy(y))))


def test_a_surplus_of_confidence_of_four_standard_errors_is_suspicious():
    rest = np.tile([0.6, 0.8], 500)
    error = rest.std(ddof=1) / 8  # of 64 nodes
    assert suspected(0.7 + 4.05 * error, rest)
    assert not suspected(0.7 + 3.95 * error, rest)
    assert not suspected(0.7 - 6 * error, rest)


def test_a_surplus_of_one_point_at_least_is_suspicious():
    rest = np.full(500, 0.7)
    assert suspected(0.711, rest)
    assert not suspected(0.709, rest)


def test_only_nodes_on_which_the_model_is_right_as_often_as_it_expects_of_others_are_suspicious():
    rest = np.full(500, 0.75)
    assert suspected(0.9, rest, right=0.76)
    assert not suspected(0.9, rest, right=0.73)


@pytest.mark.parametrize(
    ("m", "others", "told"), [(30, 30, True), (29, 30, False), (30, 29, False)]
)
def test_thirty_nodes_on_either_side_are_enough_to_tell(m, others, told):
    assert suspected(0.99, np.full(others, 0.6), m) == told


def test_of_many_others_a_fair_part_is_looked_at():
    """The first half of 50,000 nodes is as sure as those that are judged, the others are not."""
    rest = np.repeat([0.9, 0.5], 25_000)
    assert suspected(0.9, rest)


def test_all_labels_of_one_class_are_told_from_ten_on():
    def read(count: int, y: int = 1) -> CalibrationData:
        nodes = NodeInputs(torch.zeros(40, 2))
        labels = np.full(40, 1)
        labels[0] = y
        return read_calibration(nodes, labels, range(count), allow_training_nodes=True)

    with pytest.warns(CalibrationWarning, match="all 10 calibration labels are class 1"):
        read(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(9)
        read(10, y=0)


# --- what a method sees ---------------------------------------------------------------------------


def test_a_shift_of_classes_and_impossible_ones_reach_the_forward_function_too():
    z = torch.tensor([[0.0, -np.inf, 1.0], [2.0, -np.inf, 0.5]])
    inputs = NodeInputs(z, forward=lambda weight: z * weight)
    offset = np.array([1.0, 2.0, 3.0])
    shifted = moved(inputs, offset)
    assert shifted.logits.tolist() == (z + torch.tensor(offset)).float().tolist()
    assert shifted.forward is not None
    assert shifted.forward(torch.tensor(2.0)).tolist() == (2 * z + torch.tensor(offset)).tolist()
    limits = LogitRange.of(z)
    cut = clip(inputs, limits)
    assert cut.logits.shape == (2, 2)
    assert cut.forward is not None
    assert cut.forward(torch.tensor(1.0)).tolist() == z[:, [0, 2]].tolist()
    labelled = Labelled(torch.tensor([0, 1]), torch.tensor([2, 0]))
    data = CalibrationData(z, calibration=labelled, holdout=labelled)
    for part in clip(data, limits).labelled.values():
        assert part.y.tolist() == [1, 0]
    assert list(CalibrationData(z, calibration=labelled).labelled) == ["calibration"]


def test_features_stay_as_sparse_as_they_are():
    dense = np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
    for given in (
        scipy.sparse.csr_array(dense),
        scipy.sparse.coo_array(dense),
        torch.tensor(dense).to_sparse(),
        torch.tensor(dense).to_sparse_csr(),
    ):
        found = read_features(given, 3)
        assert found.layout is torch.sparse_csr
        assert found.to_dense().tolist() == dense.tolist()
        assert found.dtype == torch.float32
    for given in (dense, torch.tensor(dense), dense.astype(int)):
        found = read_features(given, 3)
        assert found.layout is torch.strided
        assert (found.dtype, found.tolist()) == (torch.float32, dense.tolist())
    bad = scipy.sparse.csr_array(np.where(dense == 2, np.inf, dense))
    for wrong, told in (
        (bad, "NaN"),
        (dense[:2], r"\[2, 2\] for 3"),
        (dense[:, 0], r"\[3\] for 3"),
    ):
        with pytest.raises(ValueError, match=told):
            read_features(wrong, 3)
