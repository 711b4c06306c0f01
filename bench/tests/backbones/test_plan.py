"""Plans that compute some rows only."""

import numpy as np
import pytest
import torch

from simi_mailbox.graph import Graph
from simi_mailbox_bench.backbones.networks import mean_normalised, plan, symmetric_normalised


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_plan_computes_exactly_the_rows_of_the_whole_product(layers: int, directed: bool) -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 80, (2, 90)), 80, directed=directed)
    matrix = mean_normalised(graph)
    exact = matrix.tensor.to_dense().double()
    x = torch.from_numpy(rng.normal(size=(80, 4)))
    expected = x
    for _ in range(layers):
        expected = exact @ expected
    targets = torch.tensor([5, 3, 79, 0])
    steps = plan(matrix.with_values(matrix.values.double()), layers, targets)
    assert steps.inputs is not None
    got, own = x[steps.inputs], steps.inputs
    for layer in steps.layers:
        got, own = layer.matrix @ got, layer.at_targets(own)
    torch.testing.assert_close(got, expected[targets])
    assert own.tolist() == targets.tolist()
    assert steps.inputs.numel() < 80


def test_matrices_are_rounded_once_from_double_precision() -> None:
    # Cached logits hang on the last bit of these.
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 80, (2, 300)), 80)
    source, target = graph.edge_index().numpy()
    adjacency = np.zeros((80, 80))
    adjacency[target, source] = 1.0
    closed = adjacency + np.eye(80)
    scale = 1 / np.sqrt(closed.sum(axis=1))
    gcn = (scale[:, None] * scale[None, :] * closed).astype(np.float32)
    assert np.array_equal(symmetric_normalised(graph).tensor.to_dense().numpy(), gcn)
    mean = (adjacency / adjacency.sum(axis=1, keepdims=True).clip(1)).astype(np.float32)
    assert np.array_equal(mean_normalised(graph).tensor.to_dense().numpy(), mean)
