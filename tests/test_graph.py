import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import Graph
from simi_mailbox.graph import as_graph

EDGES = np.array([[0, 1, 1, 3], [1, 2, 3, 0]])
TENSOR = torch.from_numpy(EDGES)
MATRIX = sp.coo_array((np.ones(4), EDGES[::-1]), shape=(5, 5))
SPARSE = torch.sparse_coo_tensor(TENSOR.flip(0), torch.ones(4), (5, 5))


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40),
            st.booleans(),
        )
    )
)
def test_neighbourhoods_are_those_of_the_adjacency_matrix(case):
    n, pairs, directed = case
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    expected = np.zeros((n, n), dtype=int)
    for source, target in pairs:
        if source != target:
            expected[target, source] = 1
            if not directed:
                expected[source, target] = 1
    graph = Graph.from_edges(edges, n, directed=directed)
    dense = np.zeros((n, n), dtype=int)
    dense[graph.rows().numpy(), graph.indices.numpy()] += 1
    np.testing.assert_array_equal(dense, expected)
    np.testing.assert_array_equal(graph.degree.numpy(), expected.sum(axis=1))
    for node in range(n):
        assert graph.neighbours(node).tolist() == np.flatnonzero(expected[node]).tolist()
    assert Graph.from_edges(graph.edge_index(), n, directed=directed) == graph


class DglGraph:
    """Of DGL: edges in the order in which they were added, and methods that count."""

    def edges(self):
        return TENSOR[0], TENSOR[1]

    def num_nodes(self):
        return 5


class SparseTensor:
    """Of torch_sparse, by its interface."""

    def coo(self):
        return TENSOR[1], TENSOR[0], None

    def sparse_sizes(self):
        return (5, 5)


class Transposed:
    adj_t = SparseTensor()


def real_pyg():
    pyg = pytest.importorskip("torch_geometric")
    return pyg.data.Data(edge_index=TENSOR, num_nodes=5)


def real_pyg_transposed():
    data = pytest.importorskip("torch_geometric").transforms.ToSparseTensor()(real_pyg())
    assert "edge_index" not in data
    return data


def real_dgl():
    dgl = pytest.importorskip("dgl", reason="DGL's wheels are for older versions of torch")
    return dgl.graph(tuple(EDGES.tolist()), num_nodes=5)


FORMS = {
    "graph": lambda: Graph.from_edges(EDGES, 5),
    "array": lambda: EDGES,
    "list": EDGES.tolist,
    "tensor": lambda: TENSOR,
    "repeated edges and a loop": lambda: np.append(EDGES, [[0, 2], [1, 2]], axis=1),
    "SciPy matrix": lambda: sp.coo_matrix(MATRIX),
    "SciPy rows": MATRIX.tocsr,
    "torch": lambda: SPARSE,
    "torch rows": SPARSE.to_sparse_csr,
    "torch columns": SPARSE.to_sparse_csc,
    "like DGL": DglGraph,
    "like torch_sparse": Transposed,
    "PyG": real_pyg,
    "PyG's adj_t": real_pyg_transposed,
    "DGL": real_dgl,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_input_gives_the_same_graph(form):
    made = FORMS[form]()
    assert as_graph(made, 5) == Graph.from_edges(EDGES, 5)
    if form not in ("array", "list", "tensor", "repeated edges and a loop"):
        with pytest.raises(ValueError, match="the graph has 5 nodes but the logits have 6 rows"):
            as_graph(made, 6)


def test_stored_zeros_are_not_edges_and_entries_name_the_neighbours_of_their_row():
    matrix = sp.csr_matrix(([0.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert Graph.from_scipy(matrix).num_entries == 2
    assert Graph.from_scipy(MATRIX, directed=True) == Graph.from_edges(EDGES, 5, directed=True)
    assert as_graph(torch.sparse_coo_tensor([[0], [1]], [0.0], (5, 5)), 5).num_entries == 0


def test_a_graph_cannot_be_changed():
    graph = Graph.from_edges([[0], [1]])
    with pytest.raises(AttributeError, match="immutable"):
        graph.indptr = torch.zeros(1)
    assert graph.fingerprint() != Graph.from_edges([[0], [2]]).fingerprint()


class Several:
    """Of PyG's ``HeteroData``."""

    edge_index_dict = None


@pytest.mark.parametrize(
    ("edges", "nodes", "error", "message"),
    [
        ([[0, 5], [1, 1]], 3, ValueError, r"edge 1 joins nodes 5 and 1.*0\.\.2"),
        ([[0, -1], [1, 1]], 3, ValueError, "edge 1 joins nodes -1"),
        ([[0, 1, 2]], 3, ValueError, r"shape \[2, E\], got \[1, 3\]"),
        (np.zeros((5, 2), int), 3, ValueError, "transpose"),
        ([[0.5], [1.0]], 3, TypeError, "integers"),
        ("graph", 3, TypeError, "cannot read str as a graph"),
        (object(), 3, TypeError, "cannot read object"),
        (sp.csr_matrix((2, 3)), 3, ValueError, "square"),
        (torch.zeros(2, 5).to_sparse(), 5, ValueError, "must be square, got 2 × 5"),
        (Several(), 3, TypeError, r"this Several has several kinds.*to_homogeneous\(\)"),
    ],
)
def test_bad_graphs_are_refused_with_a_reason(edges, nodes, error, message):
    with pytest.raises(error, match=message):
        as_graph(edges, nodes)


def test_no_edges_and_no_nodes_are_graphs_too():
    assert Graph.empty(3).degree.tolist() == [0, 0, 0]
    assert Graph.from_edges(np.empty((2, 0), dtype=int)).num_nodes == 0


def test_networkx_graphs_are_read_by_number_or_in_their_order():
    nx = pytest.importorskip("networkx")
    graph, named = nx.Graph(), nx.Graph()
    graph.add_nodes_from([4, 2, 0, 1, 3])
    graph.add_edges_from(EDGES.T.tolist())
    named.add_nodes_from("abcde")
    named.add_edges_from(("abcde"[i], "abcde"[j]) for i, j in EDGES.T)
    for form in (graph, nx.DiGraph(graph), nx.MultiGraph(graph), named):
        assert as_graph(form, 5) == as_graph(EDGES, 5)
    assert as_graph(nx.empty_graph(3), 3) == Graph.empty(3)
