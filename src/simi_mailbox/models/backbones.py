"""GCN, GraphSAGE, GIN and MLP in plain PyTorch (GAT has its own file).

All share one shape: a *stem*, the first layer up to its activation, which draws no random numbers,
and a *finish*, dropout and the remaining layers. Training and evaluation at the same weights can
therefore share the stem, the dear part.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simi_mailbox.graph import Graph
from simi_mailbox.models import plan as planning
from simi_mailbox.models.features import Features
from simi_mailbox.models.ops import Csr, dropout_mask, spmm, weighted_spmm
from simi_mailbox.models.plan import Layer, Plan
from simi_mailbox.models.settings import Settings


class Backbone(nn.Module):
    """Base of all backbones: a plan per set of target nodes, a stem, and a finish.

    Parameters
    ----------
    in_dim, num_classes : int
        Number of features and of classes.
    settings : Settings
        Widths, depth and dropout rates.
    generator : torch.Generator
        Source of the initial weights.

    Examples
    --------
    Logits of a few nodes only, without computing the others:

    >>> model = GCN(5, 2, Settings(hidden=16), torch.Generator().manual_seed(0))
    >>> steps = model.plan(Graph.from_edges([[0, 1, 2], [1, 2, 3]], 5), torch.tensor([0]))
    >>> features = Features(np.eye(5)).rows(steps.inputs)
    >>> features.shape, model.finish(model.stem(features, steps), steps).shape
    ((3, 5), torch.Size([1, 2]))
    """

    name: ClassVar[str]
    shares_stem: ClassVar[bool] = True

    def __init__(
        self, in_dim: int, num_classes: int, settings: Settings, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.settings = settings
        self.widths = [in_dim, *[settings.hidden] * (settings.layers - 1), num_classes]
        self.reset(generator)

    def reset(self, generator: torch.Generator) -> None:
        """Draw the initial weights."""
        raise NotImplementedError

    def plan(self, graph: Graph, targets: Tensor | None = None) -> Plan:
        """Rows and matrices that the output at ``targets`` (all nodes by default) needs."""
        matrix = self._matrix(graph)
        symmetric = self._symmetric and not graph.is_directed
        return planning.plan(matrix, self.settings.layers, targets, symmetric=symmetric)

    _symmetric: ClassVar[bool] = True

    def _matrix(self, graph: Graph) -> Any:
        raise NotImplementedError

    def stem(
        self, features: Features, steps: Plan, generator: torch.Generator | None = None
    ) -> Tensor:
        """First layer, activated. Only GAT draws from ``generator`` here."""
        return F.relu(self._layer(0, features, steps.layers[0]))

    def finish(
        self, hidden: Tensor, steps: Plan, generator: torch.Generator | None = None
    ) -> Tensor:
        """Remaining layers, down to the logits; with dropout when a generator is given."""
        for depth in range(1, self.settings.layers):
            if depth > 1:
                hidden = F.relu(hidden)
            hidden = drop(hidden, self.settings.dropout, generator)
            hidden = self._layer(depth, hidden, steps.layers[depth])
        return hidden

    def penultimate(self, hidden: Tensor, steps: Plan) -> Tensor:
        """Activated input of the last layer, without dropout."""
        for depth in range(1, self.settings.layers - 1):
            hidden = F.relu(self._layer(depth, hidden, steps.layers[depth]))
        return hidden

    def _layer(self, depth: int, x: Features | Tensor, layer: Layer) -> Tensor:
        raise NotImplementedError

    def forward(
        self, features: Features, graph: Graph, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Logits of all nodes in evaluation mode.

        ``edge_weight`` (GCN and GraphSAGE) has one value for each entry of ``graph``; self-loops
        keep weight one. The result is differentiable in it.
        """
        steps = self.plan(graph) if edge_weight is None else self._weighted(graph, edge_weight)
        return self.finish(self.stem(features, steps), steps)

    def _weighted(self, graph: Graph, edge_weight: Tensor) -> Plan:
        raise ValueError(f"{self.name} takes no edge weights; backbones that do: gcn, sage")

    def _check_weight(self, graph: Graph, edge_weight: Tensor) -> None:
        if tuple(edge_weight.shape) != (graph.num_entries,):
            raise ValueError(
                f"edge_weight needs one value for each of the graph's {graph.num_entries} "
                f"entries, got shape {tuple(edge_weight.shape)}"
            )

    def _parameter(self, name: str, value: Tensor) -> None:
        self.register_parameter(name, nn.Parameter(value))


class WeightedCsr(Csr):
    """A sparse matrix whose values carry a gradient."""


def propagate(matrix: Csr, x: Features | Tensor, weight: Tensor) -> Tensor:
    """``matrix @ x @ weight``, in the cheaper order.

    Differentiable in the weight, in a dense ``x``, and in the matrix' values where they carry a
    gradient.
    """
    if isinstance(matrix, WeightedCsr):
        return weighted_spmm(matrix, matrix.values, x @ weight)
    if isinstance(x, Features) and x.is_dense:
        return x.propagated(matrix) @ weight
    return spmm(matrix, x @ weight)


def drop(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Dropout with an explicit source of randomness; none without one."""
    if generator is None or rate == 0:
        return x
    return x * dropout_mask(x.numel(), rate, generator, dtype=x.dtype).view_as(x)


def glorot(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform initial weights as PyG's ``glorot``: bound √(6 / (last two sizes))."""
    bound = math.sqrt(6.0 / (shape[-2] + shape[-1]))
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def fan_in_uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> Tensor:
    """Uniform initial weights as ``torch.nn.Linear``: bound 1/√(fan in)."""
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


class GCN(Backbone):
    """Graph convolutional network (Kipf & Welling 2017): ``Â X W + b`` in every layer.

    Examples
    --------
    >>> model = GCN(5, 2, Settings(hidden=16), torch.Generator().manual_seed(0))
    >>> model(Features(np.eye(3, 5)), Graph.from_edges([[0], [1]], 3)).shape
    torch.Size([3, 2])
    """

    name = "gcn"

    def reset(self, generator: torch.Generator) -> None:
        for depth, (wide, narrow) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            self._parameter(f"weight{depth}", glorot((wide, narrow), generator))
            self._parameter(f"bias{depth}", torch.zeros(narrow))

    def _matrix(self, graph: Graph) -> Any:
        return planning.symmetric_normalised(graph)

    def _layer(self, depth: int, x: Features | Tensor, layer: Layer) -> Tensor:
        weight, bias = self.get_parameter(f"weight{depth}"), self.get_parameter(f"bias{depth}")
        return propagate(layer.matrix, x, weight) + bias

    def _weighted(self, graph: Graph, edge_weight: Tensor) -> Plan:
        self._check_weight(graph, edge_weight)
        # Positions tell where A + I keeps each entry of A; the other places are self-loops.
        loops = planning.with_self_loops(graph)
        rows = np.repeat(np.arange(graph.num_nodes), np.diff(loops.indptr))
        place = torch.from_numpy(np.flatnonzero(rows != loops.indices))
        values = edge_weight.new_ones(loops.nnz).index_copy(0, place, edge_weight)
        row = torch.from_numpy(rows)
        degree = edge_weight.new_zeros(graph.num_nodes).index_add(0, row, values)
        scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
        column = torch.from_numpy(loops.indices.astype(np.int64))
        matrix = WeightedCsr(
            torch.from_numpy(loops.indptr),
            column,
            values * scale[row] * scale[column],
            (graph.num_nodes, graph.num_nodes),
        )
        return Plan((Layer(matrix, None),) * self.settings.layers, None)


class SAGE(Backbone):
    """GraphSAGE (Hamilton et al. 2017), mean aggregation: ``mean(x_j) W + b + x_i R``.

    Examples
    --------
    >>> model = SAGE(5, 2, Settings(hidden=16), torch.Generator().manual_seed(0))
    >>> model(Features(np.eye(3, 5)), Graph.from_edges([[0], [1]], 3)).shape
    torch.Size([3, 2])
    """

    name = "sage"
    _symmetric = False

    def reset(self, generator: torch.Generator) -> None:
        for depth, (wide, narrow) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            self._parameter(f"weight{depth}", fan_in_uniform((wide, narrow), wide, generator))
            self._parameter(f"own{depth}", fan_in_uniform((wide, narrow), wide, generator))
            self._parameter(f"bias{depth}", fan_in_uniform((narrow,), wide, generator))

    def _matrix(self, graph: Graph) -> Any:
        return planning.mean_normalised(graph)

    def _layer(self, depth: int, x: Features | Tensor, layer: Layer) -> Tensor:
        weight, own = self.get_parameter(f"weight{depth}"), self.get_parameter(f"own{depth}")
        mean = propagate(layer.matrix, x, weight)
        return mean + layer.at_targets(x @ own) + self.get_parameter(f"bias{depth}")

    def _weighted(self, graph: Graph, edge_weight: Tensor) -> Plan:
        self._check_weight(graph, edge_weight)
        row = graph.rows()
        # As DGL and PyG scale messages: the weight multiplies a neighbour's share of the mean.
        values = edge_weight / graph.degree[row]
        matrix = WeightedCsr(
            graph.indptr, graph.indices, values, (graph.num_nodes, graph.num_nodes)
        )
        return Plan((Layer(matrix, None),) * self.settings.layers, None)


class GIN(Backbone):
    """Graph isomorphism network (Xu et al. 2019): a two-layer MLP on ``x_i + Σ x_j`` (ε = 0).

    Examples
    --------
    >>> model = GIN(5, 2, Settings(hidden=16), torch.Generator().manual_seed(0))
    >>> model(Features(np.eye(3, 5)), Graph.from_edges([[0], [1]], 3)).shape
    torch.Size([3, 2])
    """

    name = "gin"

    def reset(self, generator: torch.Generator) -> None:
        for depth, (wide, narrow) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            middle = self.settings.hidden
            for part, (fan, out) in enumerate(((wide, middle), (middle, narrow))):
                self._parameter(f"weight{depth}{part}", fan_in_uniform((fan, out), fan, generator))
                self._parameter(f"bias{depth}{part}", fan_in_uniform((out,), fan, generator))

    def _matrix(self, graph: Graph) -> Any:
        return planning.with_self_loops(graph)

    def _layer(self, depth: int, x: Features | Tensor, layer: Layer) -> Tensor:
        # The sum and the MLP's first matrix commute; multiplying first keeps the features sparse.
        middle = propagate(layer.matrix, x, self.get_parameter(f"weight{depth}0"))
        middle = F.relu(middle + self.get_parameter(f"bias{depth}0"))
        return torch.addmm(
            self.get_parameter(f"bias{depth}1"), middle, self.get_parameter(f"weight{depth}1")
        )


class MLP(Backbone):
    """Multi-layer perceptron: the features alone, no graph.

    Examples
    --------
    >>> model = MLP(5, 2, Settings(hidden=16), torch.Generator().manual_seed(0))
    >>> model(Features(np.eye(3, 5)), Graph.from_edges([[0], [1]], 3)).shape
    torch.Size([3, 2])
    """

    name = "mlp"

    def reset(self, generator: torch.Generator) -> None:
        for depth, (wide, narrow) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            self._parameter(f"weight{depth}", fan_in_uniform((wide, narrow), wide, generator))
            self._parameter(f"bias{depth}", fan_in_uniform((narrow,), wide, generator))

    def _matrix(self, graph: Graph) -> Any:
        return sp.csr_array((graph.num_nodes, graph.num_nodes), dtype=np.float32)

    def _layer(self, depth: int, x: Features | Tensor, layer: Layer) -> Tensor:
        return layer.at_targets(x @ self.get_parameter(f"weight{depth}")) + self.get_parameter(
            f"bias{depth}"
        )
