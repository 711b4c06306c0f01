"""Evidence, against the definitions written out with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simi_mailbox import Graph
from simi_mailbox.prior.evidence import CLASSES, COMMON, FAR, NEAR, Evidence, Known, Neighbours
from simi_mailbox.validation import Labelled

TERMS = tuple(name for name in CLASSES if name != "hidden")


def case(seed=0, n=60, k=3, directed=False):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, n - 3, size=(2, 3 * n))
    graph = Graph.from_edges(edges, n, directed=directed)
    a = np.zeros((n, n))
    for i in range(n):
        a[i, graph.neighbours(i).numpy()] = 1
    z = torch.from_numpy(rng.normal(size=(n, k)) * 2)
    y = rng.integers(k, size=n)
    return z, graph, a, y, np.arange(0, n, 3), np.arange(1, n, 4)[:10]


def labelled(nodes, y):
    return Labelled(torch.from_numpy(nodes), torch.from_numpy(y[nodes]))


def heard(z, graph, y, mine, theirs, temperature=1.5):
    evidence = Evidence(z, graph, temperature)
    evidence.hear(Known(labelled(mine, y), labelled(theirs, y)))
    return evidence


@pytest.mark.parametrize("directed", [False, True])
def test_terms_are_what_their_definitions_say(directed):
    z, graph, a, y, mine, theirs = case(directed=directed)
    theirs = np.setdiff1d(theirs, mine)
    found = heard(z, graph, y, mine, theirs).classes(slice(None), TERMS)
    n, k = z.shape
    p = torch.softmax(z / 1.5, dim=1).numpy()
    step = a / np.maximum(a.sum(axis=1, keepdims=True), 1)
    two = step @ step
    np.fill_diagonal(two, 0.0)  # whose own label is left out
    r, m, t = np.zeros((n, k)), np.zeros((n, 1)), np.zeros((n, k))
    r[mine] = np.eye(k)[y[mine]] - p[mine]
    m[mine] = 1
    t[theirs] = np.eye(k)[y[theirs]]
    mass = (p.sum(axis=0) + 1) / (n + k)

    def share(sums, total, pseudo):
        return np.log((sums + pseudo * mass) / (total + pseudo) / mass)

    expected = {
        "near": a @ r / (a @ m + NEAR),
        "far": two @ r / (two @ m + FAR),
        "trained_near": share(a @ t, (a @ t).sum(axis=1, keepdims=True), NEAR),
        "trained_far": share(two @ t, (two @ t).sum(axis=1, keepdims=True), FAR),
        "around": share(a @ p, a.sum(axis=1, keepdims=True), NEAR),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].numpy(), values, atol=1e-9, err_msg=name)
    for i in range(n):
        others = np.setdiff1d(np.concatenate([mine, theirs]), [i])
        shift = share(np.bincount(y[others], minlength=k), len(others), COMMON * k)
        np.testing.assert_allclose(found["shift"][i].numpy(), shift, atol=1e-9)


def test_rows_are_the_same_whoever_asks():
    z, graph, _, y, mine, theirs = case(1)
    evidence = heard(z, graph, y, mine, np.setdiff1d(theirs, mine))
    whole = evidence.classes(slice(None), TERMS)
    for rows in (slice(7, 23), torch.tensor([5, 3, 59])):
        for name, part in evidence.classes(rows, TERMS).items():
            np.testing.assert_allclose(part.numpy(), whole[name][rows].numpy(), atol=1e-12)


@pytest.mark.parametrize("train", [False, True])
def test_a_node_never_hears_itself(train):
    z, graph, _, y, mine, theirs = case(2)
    theirs = np.setdiff1d(theirs, mine)
    before = heard(z, graph, y, mine, theirs).classes(slice(None), TERMS)
    for node in theirs if train else mine:
        changed = y.copy()
        changed[node] = (y[node] + 1) % 3
        after = heard(z, graph, changed, mine, theirs).classes(slice(None), TERMS)
        moved = 0.0
        for name, part in after.items():
            gap = (part - before[name]).abs()
            assert float(gap[node].max()) < 1e-12, name
            moved += float(gap.sum())
        assert moved > 0.01  # others have heard it


def test_few_labels_elsewhere_leave_the_frequencies_to_fit():
    z, graph, _, y, mine, _ = case(3)
    evidence = Evidence(z, graph, 1.0)
    counts = np.array([50.0, 10.0, 40.0])
    evidence.hear(Known(labelled(mine, y)), counts)
    mass = evidence.frame.mass
    expected = np.log((counts + 3 * COMMON * mass) / (100 + 3 * COMMON) / mass)
    found = evidence.classes(slice(None), ("shift",))["shift"]
    np.testing.assert_allclose(found.numpy(), np.tile(expected, (len(z), 1)))


def test_a_graph_without_edges_or_labels_says_nothing():
    z, *_ = case(4)
    nobody = torch.empty(0, dtype=torch.int64)
    evidence = Evidence(z, Graph.empty(len(z)), 1.0)
    evidence.hear(Known(Labelled(nobody, nobody), Labelled(nobody, nobody)), np.zeros(3))
    found = evidence.classes(slice(None), TERMS)
    for name in set(TERMS) - {"shift"}:
        assert not found[name].any(), name
    assert not evidence.similarity.any()


def test_overlap_is_the_chance_to_agree():
    z, graph, a, *_ = case(5)
    p = torch.softmax(z, dim=1).numpy()
    expected = ((a @ p) * p).sum(axis=1) / np.maximum(a.sum(axis=1), 1)
    lonely = a.sum(axis=1) == 0
    expected[lonely] = expected[~lonely].mean()
    np.testing.assert_allclose(Evidence(z, graph, 1.0).similarity.numpy(), expected, atol=1e-12)


def test_the_offset_and_the_unit_of_logits_do_not_enter():
    z, graph, _, y, mine, theirs = case(6)
    theirs = np.setdiff1d(theirs, mine)
    offset = torch.from_numpy(np.random.default_rng(0).normal(size=(len(z), 1)) * 50)
    one = heard(z, graph, y, mine, theirs, 1.5)
    other = heard(10 * z + offset, graph, y, mine, theirs, 15.0)
    np.testing.assert_allclose(one.terms, other.terms, atol=1e-6)
    for name, part in one.classes(slice(None), TERMS).items():
        np.testing.assert_allclose(other.classes(slice(None), TERMS)[name], part, atol=1e-9)


def test_sums_of_some_nodes_are_the_sums_of_a_matrix_that_is_nought_elsewhere():
    _, graph, a, _, mine, _ = case(7)
    neighbours = Neighbours(graph, torch.float64)
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(len(mine), 5)))
    matrix = np.zeros((len(a), 5))
    matrix[mine] = values
    found = neighbours.sums_of(torch.from_numpy(mine), values)
    np.testing.assert_allclose(found.numpy(), a @ matrix, atol=1e-12)
