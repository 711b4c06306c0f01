"""The cells of the heat map, worked out by hand for six nodes."""

import numpy as np
import pytest

from simi_mailbox.analysis import similarity_confidence

# Two confidence intervals, [0, .5) and [.5, 1], of three nodes each; three classes so that a
# confidence below one half can exist.
PROBS = np.array(
    [
        [0.40, 0.30, 0.30],  # low confidence, similarity low, right
        [0.44, 0.28, 0.28],  # low confidence, similarity high, wrong
        [0.48, 0.26, 0.26],  # low confidence, similarity high, right
        [0.60, 0.20, 0.20],  # high confidence, similarity low, wrong
        [0.80, 0.10, 0.10],  # high confidence, similarity low, wrong
        [0.90, 0.05, 0.05],  # high confidence, similarity high, right
    ]
)
Y = np.array([0, 1, 0, 2, 1, 0])
SIMILARITY = np.array([0.0, 0.5, 1.0, 0.25, 0.4, 0.75])


def test_golden_case_of_the_papers_cell():
    table = similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="paper")
    assert table.counts.tolist() == [[1, 2], [2, 1]]
    np.testing.assert_allclose(table.confidence, [[0.40, 0.46], [0.70, 0.90]])
    # acc(B_1) = 2/3 and acc(B_2) = 1/3, whatever the similarity.
    np.testing.assert_allclose(table.accuracy, [[2 / 3, 2 / 3], [1 / 3, 1 / 3]])
    np.testing.assert_allclose(
        table.gap, [[2 / 3 - 0.40, 2 / 3 - 0.46], [1 / 3 - 0.70, 1 / 3 - 0.90]]
    )


def test_golden_case_of_the_cells_own_accuracy():
    table = similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="own")
    np.testing.assert_allclose(table.accuracy, [[1.0, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(table.gap, [[0.60, 0.04], [-0.70, 0.10]])


def test_the_two_definitions_differ_by_what_is_not_explained_by_confidence():
    own = similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="own")
    paper = similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="paper")
    weight = own.counts / own.counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose((own.gap * weight).sum(1), (paper.gap * weight).sum(1))


def test_edges_belong_to_the_interval_above_and_one_to_the_last():
    probs = np.array([[0.5, 0.5], [1.0, 0.0]])
    table = similarity_confidence(probs, np.array([0, 0]), np.array([0.7, 1.0]), bins=10)
    rows, columns = np.nonzero(table.counts)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(5, 7), (9, 9)]


def test_nodes_without_neighbours_are_in_no_cell_but_in_the_intervals_accuracy():
    similarity = SIMILARITY.copy()
    similarity[3] = np.nan
    table = similarity_confidence(PROBS, Y, similarity, bins=2)
    assert table.without_neighbours == 1
    assert table.counts.sum() == 5
    np.testing.assert_allclose(table.accuracy[1], [1 / 3, 1 / 3])


def test_only_the_chosen_nodes_count_and_other_labels_are_not_read():
    y = Y.copy()
    y[[0, 1]] = -100
    chosen = similarity_confidence(PROBS, y, SIMILARITY, nodes=[2, 3, 4, 5], bins=2, cell="own")
    cut = similarity_confidence(PROBS[2:], Y[2:], SIMILARITY[2:], bins=2, cell="own")
    np.testing.assert_array_equal(chosen.gap, cut.gap)


def test_without_labels_counts_stay_and_gaps_are_unknown():
    table = similarity_confidence(PROBS, None, SIMILARITY, bins=2)
    assert table.counts.tolist() == [[1, 2], [2, 1]]
    assert np.isnan(table.gap).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": "mine"}, "'paper' or 'own'"),
        ({"similarity": np.array([0, 0, 0, 0, 0, 1.5])}, "between 0 and 1"),
        ({"similarity": np.zeros(4)}, "one value per node"),
        ({"y": np.array([0, 1, 0, 2, 1, 3])}, "node 5 has label 3"),
        ({"y": np.zeros((6, 2))}, r"labels of shape \[6, 2\]; expected one per node, \[6\]"),
        (
            {"probs": PROBS * 9},
            r"probs\[0, \d\] is .* within \[0, 1\]\. If these are logits",
        ),
        ({"bins": 0}, "positive integer"),
        ({"nodes": [7]}, "nodes names node 7, but nodes are numbered"),
        ({"nodes": [1, 1]}, "twice"),
        ({"nodes": np.array([True])}, "1 entries for 6 nodes"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"probs": PROBS, "y": Y, "similarity": SIMILARITY, "bins": 2, **change}
    with pytest.raises(ValueError, match=message):
        similarity_confidence(**given)


def test_intervals_closed_above_hold_their_upper_edge() -> None:
    """As in the paper: a half belongs to (0.4, 0.5], 1 to the last, and 0 to the first."""
    probs = np.array([[0.5, 0.5], [0.6, 0.4], [1.0, 0.0], [0.7, 0.3]])
    similarity = np.array([0.5, 0.0, 1.0, 0.1])
    table = similarity_confidence(probs, np.zeros(4, int), similarity, closed="above")
    found = [tuple(map(int, cell)) for cell in np.argwhere(table.counts)]
    assert found == [(4, 4), (5, 0), (6, 0), (9, 9)]
    below = similarity_confidence(probs, np.zeros(4, int), similarity)
    assert [tuple(map(int, cell)) for cell in np.argwhere(below.counts)] == [
        (5, 5), (6, 0), (7, 1), (9, 9),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="closed must be 'below' or 'above', got 'left'"):
        similarity_confidence(probs, np.zeros(4, int), similarity, closed="left")
