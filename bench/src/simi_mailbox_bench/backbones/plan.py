"""Which rows each layer has to compute for a given set of nodes, and with which matrix.

Training needs the last layer's output at the training nodes only, evaluation at the validation
nodes only. A plan walks backwards from those nodes, as DGL's message-flow blocks do, but without
sampling: the result is exactly that of the whole graph. On Computers this shrinks the last layer
tenfold.
"""

from dataclasses import dataclass, replace

import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from simi_mailbox.graph import Graph
from simi_mailbox.sparse import Csr, normalised_adjacency


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of a plan: ``matrix`` takes the sources to the targets.

    ``own`` gives each target's position among the sources (``None``: they are the same nodes).
    ``lasting`` says that the matrix will be met again, so that products with it are worth keeping.
    """

    matrix: Csr
    own: Tensor | None = None
    lasting: bool = True

    def at_targets(self, at_sources: Tensor) -> Tensor:
        """Values of the target nodes, out of those of the source nodes."""
        return at_sources if self.own is None else at_sources.index_select(0, self.own)


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """Layers in the order they run, and the nodes whose features go in (``None``: all)."""

    layers: tuple[Layer, ...]
    inputs: Tensor | None = None


def plan(matrix: Csr, layers: int, targets: Tensor | None = None) -> LayerPlan:
    """Plan ``layers`` applications of ``matrix`` that end at the ``targets``."""
    if targets is None:
        return LayerPlan((Layer(matrix),) * layers)
    # Neighbours get nearby numbers, so that products find their rows in cache; nothing else
    # depends on the numbering inside a plan.
    renamed = _nearby(matrix)
    rank = torch.empty_like(renamed)
    rank[renamed] = torch.arange(renamed.numel())
    rows, _ = matrix.take(renamed)
    matrix = Csr(rows.indptr, rank[rows.indices], matrix.shape, rows.values)
    built: list[Layer] = []
    nodes = rank[targets]
    for _ in range(layers):
        rows, _ = matrix.take(nodes)
        part, sources = rows.compact(keep=nodes)
        built.append(Layer(part, torch.searchsorted(sources, nodes)))
        nodes = sources
    return LayerPlan(tuple(reversed(built)), renamed[nodes])


def _nearby(matrix: Csr) -> Tensor:
    """An order of the nodes in which neighbours stand close together."""
    parts = (matrix.values.numpy(), matrix.indices.numpy(), matrix.indptr.numpy())
    order = reverse_cuthill_mckee(sp.csr_array(parts, matrix.shape), matrix.symmetric)
    return torch.from_numpy(order.astype("int64"))


def split_targets(steps: LayerPlan, count: int) -> tuple[LayerPlan, LayerPlan]:
    """Plans for the first ``count`` targets and for the rest, sharing all layers but the last."""
    *shared, last = steps.layers
    every = torch.arange(last.matrix.shape[0])

    def part(rows: Tensor) -> LayerPlan:
        own = None if last.own is None else last.own[rows]
        return LayerPlan(
            (*shared, replace(last, matrix=last.matrix.take(rows)[0], own=own)), steps.inputs
        )

    return part(every[:count]), part(every[count:])


def symmetric_normalised(graph: Graph) -> Csr:
    """``D^-1/2 (A + I) D^-1/2`` as the GCN uses it: computed in double precision, rounded once."""
    exact = normalised_adjacency(graph, torch.float64)
    return exact.with_values(exact.values.float(), symmetric=exact.symmetric)


def mean_normalised(graph: Graph) -> Csr:
    """``D^-1 A``: the mean of the neighbours, zero for a node without any."""
    share = graph.degree.clamp(min=1).double().reciprocal().float()
    return Csr.of(graph).with_values(share.repeat_interleave(graph.degree))
