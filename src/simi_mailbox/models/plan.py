"""Which rows each layer has to compute for a given set of nodes, and with which matrix.

Training needs the last layer's output at the training nodes only, evaluation at the validation
nodes only. A plan walks backwards from those nodes, as DGL's message-flow blocks do, but without
sampling: the result is exactly that of the whole graph. On Computers this shrinks the last layer
tenfold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from simi_mailbox.graph import Graph
from simi_mailbox.models.attention import stack_heads
from simi_mailbox.models.ops import Csr


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of a plan: ``matrix`` takes the sources to the targets.

    ``own`` gives each target's position among the sources (``None``: they are the same nodes).
    """

    matrix: Csr
    own: Tensor | None

    def at_targets(self, at_sources: Tensor) -> Tensor:
        """Values of the target nodes, out of those of the source nodes."""
        return at_sources if self.own is None else at_sources.index_select(0, self.own)

    def stacked(self, heads: int) -> Csr:
        """The matrix repeated once for each attention head (kept for the next call)."""
        cache: dict[int, Csr] = self._stacks
        if heads not in cache:
            cache[heads] = stack_heads(self.matrix, heads)
        return cache[heads]

    @cached_property
    def _stacks(self) -> dict[int, Csr]:
        return {}


@dataclass(frozen=True, eq=False)
class Plan:
    """Layers in the order they run, and the nodes whose features go in (``None``: all)."""

    layers: tuple[Layer, ...]
    inputs: Tensor | None


def plan(matrix: Any, layers: int, targets: Tensor | None = None, *, symmetric: bool) -> Plan:
    """Plan ``layers`` applications of ``matrix`` that end at the ``targets``.

    Parameters
    ----------
    matrix : SciPy CSR array [nodes, nodes]
        What one layer multiplies by.
    layers : int
        How often.
    targets : Tensor of node indices, optional
        Where the output is wanted; everywhere when left out.
    symmetric : bool
        Whether the matrix equals its transpose.

    Examples
    --------
    >>> path = sp.csr_array(np.eye(4, k=1, dtype=np.float32))
    >>> steps = plan(path, 2, torch.tensor([0]), symmetric=False)
    >>> sorted(steps.inputs.tolist()), [layer.matrix.shape for layer in steps.layers]
    ([0, 1, 2], [(2, 3), (1, 2)])
    """
    if targets is None:
        whole = Layer(Csr.from_scipy(matrix, symmetric=symmetric), None)
        return Plan((whole,) * layers, None)
    # Neighbours get nearby numbers, so that products find their rows in cache; nothing else
    # depends on the numbering inside a plan.
    renamed = np.asarray(reverse_cuthill_mckee(matrix, symmetric_mode=symmetric), dtype=np.int64)
    matrix = matrix[renamed][:, renamed]
    rank = np.empty_like(renamed)
    rank[renamed] = np.arange(renamed.size)
    built: list[Layer] = []
    nodes = rank[targets.numpy()]
    for _ in range(layers):
        rows = matrix[nodes]
        sources = np.union1d(rows.indices, nodes)
        position = np.full(matrix.shape[0], -1, dtype=np.int64)
        position[sources] = np.arange(sources.size)
        part = sp.csr_array(
            (rows.data, position[rows.indices], rows.indptr), shape=(nodes.size, sources.size)
        )
        built.append(Layer(Csr.from_scipy(part), torch.from_numpy(position[nodes])))
        nodes = sources
    return Plan(tuple(reversed(built)), torch.from_numpy(renamed[nodes]))


def split_targets(steps: Plan, count: int) -> tuple[Plan, Plan]:
    """Two plans that share all layers but the last, for the first ``count`` targets and the rest.

    Examples
    --------
    >>> steps = plan(sp.csr_array(np.eye(3)), 1, torch.tensor([2, 0]), symmetric=False)
    >>> [part.layers[0].matrix.shape for part in split_targets(steps, 1)]
    [(1, 2), (1, 2)]
    """
    *shared, last = steps.layers
    return (
        Plan((*shared, _rows(last, 0, count)), steps.inputs),
        Plan((*shared, _rows(last, count, last.matrix.shape[0])), steps.inputs),
    )


def _rows(layer: Layer, start: int, stop: int) -> Layer:
    matrix = layer.matrix
    first, last = int(matrix.indptr[start]), int(matrix.indptr[stop])
    part = Csr(
        matrix.indptr[start : stop + 1] - first,
        matrix.indices[first:last].clone(),
        matrix.values[first:last].clone(),
        (stop - start, matrix.shape[1]),
    )
    return Layer(part, None if layer.own is None else layer.own[start:stop])


def adjacency(graph: Graph, dtype: type = np.float32) -> Any:
    """Adjacency of a graph as a SciPy CSR array of ones, row = receiving node."""
    return sp.csr_array(
        (
            np.ones(graph.num_entries, dtype=dtype),
            graph.indices.numpy().astype(np.int32),
            graph.indptr.numpy().astype(np.int32),
        ),
        shape=(graph.num_nodes, graph.num_nodes),
    )


def with_self_loops(graph: Graph, dtype: type = np.float32) -> Any:
    """``A + I``."""
    loops = sp.csr_array(
        adjacency(graph, dtype) + sp.eye_array(graph.num_nodes, dtype=dtype, format="csr")
    )
    loops.sort_indices()
    return loops


def symmetric_normalised(graph: Graph, dtype: type = np.float32) -> Any:
    """``D^-1/2 (A + I) D^-1/2`` with D the row sums of ``A + I``, as GCN uses it."""
    matrix = with_self_loops(graph, dtype)
    scale = 1.0 / np.sqrt(np.diff(matrix.indptr).astype(np.float64))
    rows = np.repeat(scale, np.diff(matrix.indptr))
    matrix.data[:] = rows * scale[matrix.indices]
    return matrix


def mean_normalised(graph: Graph, dtype: type = np.float32) -> Any:
    """``D^-1 A``: the mean of the neighbours, zero for a node without any."""
    matrix = adjacency(graph, dtype)
    degree = np.diff(matrix.indptr)
    matrix.data[:] = np.repeat(1.0 / np.maximum(degree, 1), degree)
    return matrix
