"""Scores against their definitions in loops; the draw of randomised scores."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from simi_mailbox.decide import APS, DAPS, LAC, RAPS, SNAPS, scores
from simi_mailbox.decide.scores import ScoredNodes, row_uniforms, similar_nodes
from simi_mailbox.validation import read_features
from tests.decide import references as by_hand

PROBLEM = by_hand.make_problem(3)
NODES = ScoredNodes(PROBLEM.probs, PROBLEM.graph, read_features(PROBLEM.features, 90), seed=5)
U = row_uniforms(PROBLEM.probs, 5)
NEAR = by_hand.neighbour_lists(PROBLEM.graph)
ALIKE = by_hand.similar_lists(PROBLEM.features, 7)

LACS = np.array([by_hand.lac(p) for p in PROBLEM.probs])
APSS = np.array([by_hand.aps(p, u) for p, u in zip(PROBLEM.probs, U, strict=True)])
WHOLE = np.array([by_hand.aps(p, 0.0) for p in PROBLEM.probs])
RAPSS = np.array([by_hand.aps(p, u, 0.2, 2) for p, u in zip(PROBLEM.probs, U, strict=True)])

EXPECTED = {
    LAC(): LACS,
    APS(): APSS,
    APS(randomized=False): WHOLE,
    RAPS(penalty=0.2, free=2): RAPSS,
    DAPS(): by_hand.mixed(APSS, [(0.5, NEAR)]),
    DAPS(weight=0.8, base=LAC()): by_hand.mixed(LACS, [(0.8, NEAR)]),
    SNAPS(k=7): by_hand.mixed(APSS, [(1 / 3, NEAR), (1 / 3, ALIKE)]),
    SNAPS(k=7, weight=0.1, similar=0.6, base=RAPS(penalty=0.2, free=2)): by_hand.mixed(
        RAPSS, [(0.1, NEAR), (0.6, ALIKE)]
    ),
}


@pytest.mark.parametrize("score", EXPECTED, ids=repr)
def test_scores_are_those_of_the_papers(score):
    scored = score.prepare(NODES)
    np.testing.assert_allclose(scored(slice(0, 90)), EXPECTED[score], atol=2e-7)
    some = np.array([88, 3, 41, 89])
    np.testing.assert_array_equal(scored(some), scored(slice(0, 90))[some])


@pytest.mark.parametrize("score", EXPECTED, ids=repr)
def test_blocks_change_nothing(score, monkeypatch):
    whole = score.prepare(NODES)(slice(0, 90))
    monkeypatch.setattr(scores, "BLOCK_NUMBERS", 28)
    monkeypatch.setattr(scores, "BLOCK_SIMILARITIES", 1000)
    scored = score.prepare(NODES)
    assert len(list(NODES.row_blocks())) == 13
    parts = np.concatenate([scored(rows) for rows in NODES.row_blocks()])
    np.testing.assert_allclose(parts, whole, atol=1e-7 if score.required_inputs else 0)


def test_sparse_features_are_as_good_as_dense_ones():
    some = np.where(PROBLEM.features > 0.3, PROBLEM.features, 0.0)
    kinds = [some, sp.csr_matrix(some), torch.from_numpy(some).to_sparse()]
    nodes = [ScoredNodes(PROBLEM.probs, PROBLEM.graph, read_features(x, 90)) for x in kinds]
    dense, *sparse = (SNAPS(k=5).prepare(given)(slice(0, 90)) for given in nodes)
    for found in sparse:
        np.testing.assert_allclose(found, dense, atol=1e-6)


def test_draws_are_uniform_and_do_not_see_their_neighbours():
    rng = np.random.default_rng(0)
    for probs in (
        rng.dirichlet(np.ones(5), size=20_000),
        rng.dirichlet(np.ones(40), size=20_000).astype(np.float32).astype(np.float64),
        np.stack([k := rng.permutation(20_000) / 20_000, 1 - k], axis=1),  # few bits each
    ):
        u = row_uniforms(probs, seed=1)
        assert kstest(u, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.03
        assert abs(np.corrcoef(u, probs[:, 0])[0, 1]) < 0.03
        assert abs(np.corrcoef(u, row_uniforms(probs, seed=2))[0, 1]) < 0.03


@given(st.integers(0, 1000), st.permutations(range(12)))
def test_draws_belong_to_the_node_not_to_its_place(seed, order):
    probs = np.random.default_rng(seed).dirichlet(np.ones(3), size=12)
    np.testing.assert_array_equal(row_uniforms(probs, 0)[order], row_uniforms(probs[order], 0))
    first, second = row_uniforms(np.array([[1.0, 0.0], [1.0, -0.0]]), seed)
    assert first == second


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RAPS(penalty=-1), r"must not be negative, got RAPS\(.*penalty=-1"),
        (lambda: RAPS(free=-1), r"must not be negative, got RAPS\(.*free=-1"),
        (lambda: DAPS(weight=1.5), r"weights must not be negative, nor exceed 1.*weight=1\.5"),
        (lambda: DAPS(weight=float("nan")), "weight=nan"),
        (lambda: SNAPS(weight=0.6, similar=0.6), "exceed 1 together"),
        (lambda: SNAPS(k=0), "k must be at least 1"),
        (lambda: DAPS(base=DAPS()), "base must be a score of single nodes"),
        (lambda: DAPS(base="aps"), "base must be a score of single nodes"),
        (lambda: scores.resolve("apps"), "unknown score 'apps'; choose from: lac, aps"),
        (lambda: scores.resolve(3), "unknown score 3"),
    ],
)
def test_senseless_scores_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", ["dense", "many alike", "mostly nothing"])
def test_similar_nodes_are_found_without_sorting_all(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    if kind == "many alike":  # a few kinds of nodes: nearly all cosines are ties
        x = np.eye(5)[rng.integers(0, 5, 200)] + np.eye(5)[rng.integers(0, 5, 200)]
    elif kind == "mostly nothing":
        x = (rng.random((200, 100)) < 0.02).astype(float)
    found = similar_nodes(torch.from_numpy(x), 3)(slice(0, 200)).toarray()
    for row, expected in zip(found, by_hand.similar_lists(x, 3), strict=True):
        total = sum(expected.values())
        assert {j: pytest.approx(c / total) for j, c in expected.items()} == {
            j: row[j] for j in np.flatnonzero(row).tolist()
        }


def test_features_of_a_node_that_are_all_zero_make_nobody_similar():
    x = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    for some in (torch.from_numpy(x), torch.from_numpy(x).to_sparse_csr()):
        found = similar_nodes(some, 2)(slice(0, 3)).toarray()
        np.testing.assert_allclose(found, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
        assert similar_nodes(some, 2)(np.empty(0, dtype=np.int64)).shape == (0, 3)
