import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import Graph
from simi_mailbox.graph import as_graph


def dense(graph: Graph) -> np.ndarray:
    matrix = np.zeros((graph.num_nodes, graph.num_nodes), dtype=int)
    matrix[graph.rows().numpy(), graph.indices.numpy()] += 1
    return matrix


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
    np.testing.assert_array_equal(dense(graph), expected)
    np.testing.assert_array_equal(graph.degree.numpy(), expected.sum(axis=1))
    for node in range(n):
        assert graph.neighbours(node).tolist() == np.flatnonzero(expected[node]).tolist()
    assert Graph.from_edges(graph.edge_index(), n, directed=directed) == graph


def test_every_kind_of_input_gives_the_same_graph():
    edges = np.array([[0, 1, 2, 2, 3], [1, 2, 0, 0, 3]])
    expected = Graph.from_edges(edges, 5)
    matrix = sp.coo_matrix((np.ones(5), (edges[1], edges[0])), shape=(5, 5))

    class PygData:
        edge_index = torch.from_numpy(edges)
        num_nodes = 5

    class DglGraph:
        """Of DGL: edges in the order in which they were added, and methods that count."""

        def edges(self):
            return torch.from_numpy(edges[0]), torch.from_numpy(edges[1])

        def num_nodes(self):
            return 5

    for given_graph in (
        expected,
        edges,
        edges.tolist(),
        torch.from_numpy(edges),
        matrix,
        matrix.tocsr(),
        sp.csr_array(matrix),
        PygData(),
        DglGraph(),
    ):
        assert as_graph(given_graph, 5) == expected
    for sized in (PygData(), DglGraph()):
        with pytest.raises(ValueError, match="5 nodes but the logits have 4"):
            as_graph(sized, 4)


def test_a_real_pyg_data_object_is_read():
    data = pytest.importorskip("torch_geometric.data", reason="PyG is not installed")
    edges = torch.tensor([[0, 1], [1, 2]])
    assert as_graph(data.Data(edge_index=edges, num_nodes=4), 4) == Graph.from_edges(edges, 4)


def test_stored_zeros_are_not_edges():
    matrix = sp.csr_matrix(([0.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert Graph.from_scipy(matrix).num_entries == 2


def test_a_graph_cannot_be_changed():
    graph = Graph.from_edges([[0], [1]])
    with pytest.raises(AttributeError, match="immutable"):
        graph.indptr = torch.zeros(1)


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
        (sp.csr_matrix((2, 2)), 3, ValueError, "2 nodes but the logits have 3"),
        (Graph.empty(2), 3, ValueError, "2 nodes but the logits have 3"),
    ],
)  # fmt: skip
def test_bad_graphs_are_refused_with_a_reason(edges, nodes, error, message):
    with pytest.raises(error, match=message):
        as_graph(edges, nodes)


def test_no_edges_and_no_nodes_are_graphs_too():
    assert Graph.empty(3).degree.tolist() == [0, 0, 0]
    assert Graph.from_edges(np.empty((2, 0), dtype=int)).num_nodes == 0


def test_a_graph_of_the_real_dgl_is_read():
    dgl = pytest.importorskip("dgl", reason="DGL's wheels are for older versions of torch")
    graph = dgl.graph(([0, 1, 2, 0], [1, 2, 3, 2]), num_nodes=5)
    expected = Graph.from_edges([[0, 1, 2, 0], [1, 2, 3, 2]], 5)
    for form in (graph, graph.int(), dgl.add_self_loop(graph), dgl.to_bidirected(graph)):
        assert as_graph(form, 5) == expected
    with pytest.raises(ValueError, match="5 nodes but the logits have 4"):
        as_graph(graph, 4)
    several = dgl.heterograph({("u", "a", "v"): ([0], [1]), ("v", "b", "u"): ([0], [1])})
    with pytest.raises(TypeError, match=r"several kinds.*dgl\.to_homogeneous"):
        as_graph(several, 5)


EDGES = np.array([[0, 1, 1, 3], [1, 2, 3, 0]])


def test_sparse_matrices_of_torch_are_graphs():
    expected = as_graph(EDGES, 5)
    matrix = torch.sparse_coo_tensor(torch.from_numpy(EDGES), torch.ones(4), (5, 5))
    for form in (matrix, matrix.to_sparse_csr(), matrix.to_sparse_csc()):
        assert as_graph(form, 5) == expected
    # Entry (i, j) makes j a neighbour of i, as in SciPy's matrices.
    scipy = sp.coo_array((np.ones(4), EDGES), shape=(5, 5))
    assert as_graph(matrix, 5, directed=True) == as_graph(scipy, 5, directed=True)
    zero = torch.sparse_coo_tensor([[0], [1]], [0.0], (5, 5))
    assert as_graph(zero, 5).num_entries == 0
    with pytest.raises(ValueError, match=r"must be square, got 2 × 5"):
        as_graph(torch.zeros(2, 5).to_sparse(), 5)
    with pytest.raises(ValueError, match="the graph has 5 nodes but the logits have 6 rows"):
        as_graph(matrix, 6)


def test_the_transposed_adjacency_of_pyg_is_read():
    pyg = pytest.importorskip("torch_geometric")
    data = pyg.data.Data(edge_index=torch.from_numpy(EDGES), num_nodes=5)
    expected = as_graph(data, 5, directed=True)
    data = pyg.transforms.ToSparseTensor()(data)
    assert "edge_index" not in data
    assert as_graph(data, 5, directed=True) == expected


def test_the_sparse_tensor_of_torch_sparse_is_read_by_its_interface():
    class SparseTensor:
        def coo(self):
            return torch.from_numpy(EDGES[1]), torch.from_numpy(EDGES[0]), None

        def sparse_sizes(self):
            return (5, 5)

    class Data:
        adj_t = SparseTensor()

    assert as_graph(Data(), 5, directed=True) == as_graph(EDGES, 5, directed=True)
    with pytest.raises(ValueError, match="the graph has 5 nodes but the logits have 4 rows"):
        as_graph(Data(), 4)


def test_networkx_graphs_are_read_by_number_or_in_their_order():
    nx = pytest.importorskip("networkx")
    expected = as_graph(EDGES, 5)
    graph = nx.Graph()
    graph.add_nodes_from([4, 2, 0, 1, 3])
    graph.add_edges_from(EDGES.T.tolist())
    assert as_graph(graph, 5) == expected
    for kind in (nx.DiGraph, nx.MultiGraph):
        assert as_graph(kind(graph), 5) == expected
    named = nx.Graph()
    named.add_nodes_from("abcde")
    named.add_edges_from(("abcde"[i], "abcde"[j]) for i, j in EDGES.T)
    assert as_graph(named, 5) == expected
    assert as_graph(nx.empty_graph(3), 3) == Graph.empty(3)
    with pytest.raises(ValueError, match="the graph has 5 nodes but the logits have 6 rows"):
        as_graph(named, 6)


def test_several_kinds_of_nodes_are_refused_in_one_sentence():
    pyg = pytest.importorskip("torch_geometric")
    data = pyg.data.HeteroData()
    data["paper"].x = torch.zeros(3, 2)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    with pytest.raises(TypeError, match=r"this HeteroData has several kinds.*to_homogeneous\(\)"):
        as_graph(data, 3)
