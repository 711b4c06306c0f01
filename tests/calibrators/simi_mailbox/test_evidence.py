"""Evidence, against its definitions written out over the nodes and edges of a networkx graph."""

import networkx as nx
import numpy as np
import pytest
import torch

from simi_mailbox import Graph
from simi_mailbox.calibrators.simi_mailbox import evidence
from simi_mailbox.calibrators.simi_mailbox.model import Base
from simi_mailbox.validation import Labelled

NOT_GROUPED = np.empty((0, 0))


def case(seed=0, n=40, k=3, *, directed=False):
    """Logits, a graph with isolated nodes, and labels of every third node."""
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges(rng.integers(0, n - 3, size=(2, 2 * n)), n, directed=directed)
    z = torch.from_numpy(rng.normal(size=(n, k)) * 2)
    return z, graph, rng.integers(k, size=n), np.arange(0, n, 3)


def labelled(nodes, y):
    return Labelled(torch.from_numpy(nodes), torch.from_numpy(y[nodes]))


def supplied(z, graph, y, mine, temperature=1.5):
    there = evidence.InMemory(z, graph, temperature)
    there.take_labels(labelled(mine, y), Base(temperature, np.zeros(z.shape[1])))
    return there, temperature


def class_terms(supplied, nodes=None):
    there, temperature = supplied
    if nodes is None:
        ((_, sums),) = there.all_sums()
    else:
        sums = there.sums(torch.as_tensor(nodes))
    totals = evidence.unit_totals(there.probs, there.graph.degree, there.similarity())
    units = evidence.Units.of(temperature, totals)
    return [part.numpy() for part in evidence.terms(sums, units, NOT_GROUPED).classes]


def as_networkx(graph):
    """Edges from a node to those it hears."""
    found = nx.DiGraph()
    found.add_nodes_from(range(graph.num_nodes))
    for i in range(graph.num_nodes):
        found.add_edges_from((i, int(j)) for j in graph.neighbours(i))
    return found


@pytest.mark.parametrize("directed", [False, True])
def test_terms_are_what_their_definitions_say(directed):
    z, graph, y, mine = case(directed=directed)
    n, k = z.shape
    there, walks = supplied(z, graph, y, mine), as_networkx(graph)
    p = torch.softmax(z / 1.5, dim=1).numpy()
    share = (p.sum(axis=0) + 1) / (n + k)
    known = {int(i): np.eye(k)[y[i]] - p[i] for i in mine}
    neighbours, beyond, near, far = np.zeros((4, n, k))
    for i in walks:
        around = list(walks.successors(i))
        total = sum((p[j] for j in around), np.zeros(k))
        neighbours[i] = np.log((total / share + evidence.PSEUDO_NEIGHBOURS) / (len(around) + 2.0))
        found = [known[j] for j in around if j in known]
        near[i] = sum(found, np.zeros(k)) / (len(found) + evidence.PSEUDO_NEIGHBOURS)
        predicted, mass, told = np.zeros(k), 0.0, np.zeros(k)
        for j in around:
            for far_away in walks.successors(j):
                chance = 1 / (len(around) * walks.out_degree(j))
                if far_away != i:
                    predicted += chance * p[far_away]
                if far_away in known and far_away != i:
                    mass, told = mass + chance, told + chance * known[far_away]
        beyond[i] = np.log(1.0 + predicted / share / evidence.PSEUDO_PREDICTIONS)
        far[i] = told / (mass + evidence.PSEUDO_MASS)
    for found, expected in zip(class_terms(there), (neighbours, beyond, near, far), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("directed", [False, True])
def test_rows_are_the_same_whoever_asks(directed):
    z, graph, y, mine = case(1, directed=directed)
    there = supplied(z, graph, y, mine)
    whole = class_terms(there)
    for nodes in ([5, 3, 39], mine, np.arange(7, 23)):
        for part, expected in zip(class_terms(there, nodes), whole, strict=True):
            np.testing.assert_allclose(part, expected[nodes], atol=1e-14)


@pytest.mark.parametrize("directed", [False, True])
def test_a_label_informs_others_and_never_its_own_node(directed):
    z, graph, y, mine = case(2, directed=directed)
    before, moved = class_terms(supplied(z, graph, y, mine)), 0.0
    for node in mine:
        changed = y.copy()
        changed[node] = (y[node] + 1) % 3
        for old, new in zip(before, class_terms(supplied(z, graph, changed, mine)), strict=True):
            gap = np.abs(old - new)
            assert gap[node].max() < 1e-12
            moved += gap.sum()
    assert moved > 1.0


def test_a_graph_without_edges_or_labels_says_nothing():
    z, _, y, mine = case(4)
    for graph, known in ((Graph.empty(len(z)), mine), (case(4)[1], mine[:0])):
        there = supplied(z, graph, y, known)
        neighbours, beyond, near, far = class_terms(there)
        assert not near.any()
        assert not far.any()
        assert neighbours.any() == beyond.any() == (graph.num_entries > 0)


def test_overlap_is_the_chance_to_agree():
    z, graph, *_ = case(5)
    p = torch.softmax(z, dim=1)
    walks = as_networkx(graph)
    expected = [
        np.mean([float(p[i] @ p[j]) for j in walks.successors(i)]) if walks.out_degree(i) else 0.0
        for i in walks
    ]
    there = evidence.InMemory(z, graph, 1.0)
    ((_, sums),) = there.all_sums()
    found = evidence.overlap(sums.probs, sums.predictions, sums.degree)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(there.similarity().numpy(), expected, atol=1e-12)


def test_nodes_are_looked_at_in_runs_of_any_length(monkeypatch):
    z, graph, y, mine = case(7)
    there, _ = supplied(z, graph, y, mine)
    ((_, whole),) = there.all_sums()
    similarity = there.similarity()
    monkeypatch.setattr(evidence, "BLOCK", 3 * z.shape[1])
    parts = list(there.all_sums())
    assert len(parts) == -(-len(z) // 3)
    for name, expected in vars(whole).items():
        if expected is not None:
            found = torch.cat([getattr(sums, name) for _, sums in parts])
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(there.similarity(), similarity, rtol=0, atol=1e-12)


def test_the_offset_and_the_unit_of_logits_do_not_enter():
    z, graph, y, mine = case(6)
    offset = torch.from_numpy(np.random.default_rng(0).normal(size=(len(z), 1)) * 50)
    one, other = supplied(z, graph, y, mine), supplied(10 * z + offset, graph, y, mine, 15.0)
    for a, b in zip(class_terms(one), class_terms(other), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
