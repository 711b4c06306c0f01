"""GCN, GraphSAGE, GIN, MLP and GAT in plain PyTorch, and which rows each of their layers computes.

All share one shape: a *stem*, the first layer up to its activation, and a *finish*, dropout and the
remaining layers. Where the stem draws no random numbers (all but GAT), training and evaluation at
the same weights share it, the dear part. Training needs the last layer at the training nodes only,
evaluation at the validation nodes: a plan walks backwards from those nodes, without sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from simi_mailbox.graph import Graph
from simi_mailbox.sparse import Csr, normalised_adjacency
from simi_mailbox_bench.backbones.attention import attend_additively, stacked
from simi_mailbox_bench.backbones.features import Features, FrozenFeatures, drop, random_choice
from simi_mailbox_bench.backbones.settings import Settings

if TYPE_CHECKING:
    from simi_mailbox_bench.datasets import NodeDataset


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
    parts = (matrix.values.numpy(), matrix.indices.numpy(), matrix.indptr.numpy())
    order = reverse_cuthill_mckee(sp.csr_array(parts, matrix.shape), matrix.symmetric)
    renamed = torch.from_numpy(order.astype("int64"))
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


def split_targets(steps: LayerPlan, count: int) -> tuple[LayerPlan, LayerPlan]:
    """Plans for the first ``count`` targets and for the rest, sharing all layers but the last."""
    *shared, last = steps.layers
    every = torch.arange(last.matrix.shape[0])

    def part(rows: Tensor) -> LayerPlan:
        own = None if last.own is None else last.own[rows]
        end = replace(last, matrix=last.matrix.take(rows)[0], own=own)
        return LayerPlan((*shared, end), steps.inputs)

    return part(every[:count]), part(every[count:])


def symmetric_normalised(graph: Graph) -> Csr:
    """``D^-1/2 (A + I) D^-1/2`` as the GCN uses it: computed in double precision, rounded once."""
    exact = normalised_adjacency(graph, torch.float64)
    return exact.with_values(exact.values.float(), symmetric=exact.symmetric)


def mean_normalised(graph: Graph) -> Csr:
    """``D^-1 A``: the mean of the neighbours, zero for a node without any."""
    share = graph.degree.clamp(min=1).double().reciprocal().float()
    return Csr.of(graph).with_values(share.repeat_interleave(graph.degree))


Input = Features | Tensor
Noise = Generator | None
Weights = dict[str, Tensor]


class Backbone(nn.Module):
    """Base of all backbones: a plan per set of target nodes, a stem, and a finish."""

    name: ClassVar[str]
    shares_stem: ClassVar[bool] = True

    def __init__(
        self, in_dim: int, num_classes: int, settings: Settings, generator: Generator
    ) -> None:
        super().__init__()
        self.settings = settings
        widths = [in_dim, *[settings.hidden] * (settings.layers - 1), num_classes]
        for depth, (wide, narrow) in enumerate(pairwise(widths)):
            for name, value in self._initial(depth, wide, narrow, generator).items():
                self.register_parameter(name, nn.Parameter(value))

    def _initial(self, depth: int, wide: int, narrow: int, random: Generator) -> Weights:
        """Draw the initial weights of one layer, by name."""
        raise NotImplementedError

    def _weights(self, depth: int, *names: str) -> list[Tensor]:
        return [self.get_parameter(f"{name}{depth}") for name in names]

    def plan(self, graph: Graph, targets: Tensor | None = None) -> LayerPlan:
        """Rows and matrices that the output at ``targets`` (all nodes by default) needs."""
        return plan(self._matrix(graph), self.settings.layers, targets)

    def _matrix(self, graph: Graph) -> Csr:
        raise NotImplementedError

    @staticmethod
    def activation(x: Tensor) -> Tensor:
        """What hidden layers end in."""
        return F.relu(x)

    def stem(self, features: Features, steps: LayerPlan, noise: Noise = None) -> Tensor:
        """First layer, activated. Only GAT draws from ``noise`` here."""
        return self.activation(self._layer(0, features, steps.layers[0], noise))

    def finish(self, hidden: Tensor, steps: LayerPlan, noise: Noise = None) -> Tensor:
        """Remaining layers, down to the logits; with dropout when a generator is given."""
        for depth in range(1, self.settings.layers):
            if depth > 1:
                hidden = self.activation(hidden)
            hidden = drop(hidden, self.settings.dropout, noise)
            hidden = self._layer(depth, hidden, steps.layers[depth], noise)
        return hidden

    def penultimate(self, hidden: Tensor, steps: LayerPlan) -> Tensor:
        """Activated input of the last layer, without dropout."""
        for depth in range(1, self.settings.layers - 1):
            hidden = self.activation(self._layer(depth, hidden, steps.layers[depth]))
        return hidden

    def _layer(self, depth: int, x: Input, layer: Layer, noise: Noise = None) -> Tensor:
        raise NotImplementedError

    def forward(
        self, features: Features, graph: Graph, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Logits of all nodes in evaluation mode.

        ``edge_weight`` (GCN and GraphSAGE) has one value for each entry of ``graph``; self-loops
        keep weight one. The result is differentiable in it.
        """
        if edge_weight is None:
            steps = self.plan(graph)
        elif tuple(edge_weight.shape) == (graph.num_entries,):
            layer = Layer(self._weighted_matrix(graph, edge_weight), lasting=False)
            steps = LayerPlan((layer,) * self.settings.layers)
        else:
            told = f"got shape {tuple(edge_weight.shape)}"
            raise ValueError(f"edge_weight needs one value for each entry of the graph, {told}")
        return self.finish(self.stem(features, steps), steps)

    def on(self, dataset: NodeDataset) -> Callable[..., Tensor]:
        """:meth:`forward` on a dataset, as a function of edge weights alone (none: all ones)."""
        trainable = any(weight.requires_grad for weight in self.parameters())
        kind = Features if trainable else FrozenFeatures
        features = kind(dataset.x, row_normalise=self.settings.row_normalise)
        return lambda edge_weight=None: self.forward(features, dataset.graph, edge_weight)

    def _weighted_matrix(self, graph: Graph, edge_weight: Tensor) -> Csr:
        raise ValueError(f"{self.name} takes no edge weights; backbones that do: gcn, sage")


def propagate(layer: Layer, x: Input, weight: Tensor) -> Tensor:
    """``matrix @ x @ weight`` of a layer, in the cheaper order; differentiable in all three."""
    if layer.lasting and isinstance(x, Features) and x.is_dense:
        return x.propagated(layer.matrix) @ weight
    return layer.matrix @ (x @ weight)


def glorot(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Uniform initial weights as PyG's ``glorot``: bound √(6 / (last two sizes))."""
    bound = math.sqrt(6.0 / (shape[-2] + shape[-1]))
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


def fan_in_uniform(shape: tuple[int, ...], fan_in: int, generator: Generator) -> Tensor:
    """Uniform initial weights as ``torch.nn.Linear``: bound 1/√(fan in)."""
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)


class GCN(Backbone):
    """Graph convolutional network (Kipf & Welling 2017): ``Â X W + b`` in every layer."""

    name = "gcn"
    _last: tuple[Graph, tuple[Csr, Tensor, Tensor, Tensor]] | None = None

    def _initial(self, depth: int, wide: int, narrow: int, random: Generator) -> Weights:
        weight = glorot((wide, narrow), random)
        return {f"weight{depth}": weight, f"bias{depth}": torch.zeros(narrow)}

    def _matrix(self, graph: Graph) -> Csr:
        return symmetric_normalised(graph)

    def _layer(self, depth: int, x: Input, layer: Layer, noise: Noise = None) -> Tensor:
        weight, bias = self._weights(depth, "weight", "bias")
        return propagate(layer, x, weight) + bias

    def _weighted_matrix(self, graph: Graph, edge_weight: Tensor) -> Csr:
        closed, row, column, place = self._closed(graph)
        values = edge_weight.new_ones(closed.num_entries).index_copy(0, place, edge_weight)
        degree = edge_weight.new_zeros(graph.num_nodes).index_add(0, row, values)
        scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
        return closed.with_values(values * scale[row] * scale[column])

    def _closed(self, graph: Graph) -> tuple[Csr, Tensor, Tensor, Tensor]:
        """A + I, rows and columns of its entries, and which are those of A; kept for one graph."""
        if self._last is None or self._last[0] is not graph:
            closed = Csr.closed(graph)
            row, column = closed.rows.long(), closed.indices.long()
            # Off the diagonal, A + I keeps the entries of A in their order.
            place = (row != column).nonzero().flatten()
            self._last = graph, (closed, row, column, place)
        return self._last[1]


class SAGE(Backbone):
    """GraphSAGE (Hamilton et al. 2017), mean aggregation: ``mean(x_j) W + b + x_i R``."""

    name = "sage"

    def _initial(self, depth: int, wide: int, narrow: int, random: Generator) -> Weights:
        square = (wide, narrow)
        shapes = {f"weight{depth}": square, f"own{depth}": square, f"bias{depth}": (narrow,)}
        return {name: fan_in_uniform(shape, wide, random) for name, shape in shapes.items()}

    def _matrix(self, graph: Graph) -> Csr:
        return mean_normalised(graph)

    def _layer(self, depth: int, x: Input, layer: Layer, noise: Noise = None) -> Tensor:
        weight, own, bias = self._weights(depth, "weight", "own", "bias")
        return propagate(layer, x, weight) + layer.at_targets(x @ own) + bias

    def _weighted_matrix(self, graph: Graph, edge_weight: Tensor) -> Csr:
        # As DGL and PyG scale messages: the weight multiplies a neighbour's share of the mean.
        return Csr.of(graph).with_values(edge_weight / graph.degree[graph.rows()])


class GIN(Backbone):
    """Graph isomorphism network (Xu et al. 2019): a two-layer MLP on ``x_i + Σ x_j`` (ε = 0)."""

    name = "gin"

    def _initial(self, depth: int, wide: int, narrow: int, random: Generator) -> Weights:
        inner = self.settings.hidden
        return {
            f"{name}{depth}{part}": fan_in_uniform(shape, fan, random)
            for part, (fan, out) in enumerate(((wide, inner), (inner, narrow)))
            for name, shape in (("weight", (fan, out)), ("bias", (out,)))
        }

    def _matrix(self, graph: Graph) -> Csr:
        return Csr.closed(graph)

    def _layer(self, depth: int, x: Input, layer: Layer, noise: Noise = None) -> Tensor:
        # The sum and the MLP's first matrix commute; multiplying first keeps the features sparse.
        names = (f"weight{depth}0", f"bias{depth}0", f"weight{depth}1", f"bias{depth}1")
        weight0, bias0, weight1, bias1 = map(self.get_parameter, names)
        return torch.addmm(bias1, F.relu(propagate(layer, x, weight0) + bias0), weight1)


class MLP(Backbone):
    """Multi-layer perceptron: the features alone, no graph."""

    name = "mlp"

    def _initial(self, depth: int, wide: int, narrow: int, random: Generator) -> Weights:
        shapes = {f"weight{depth}": (wide, narrow), f"bias{depth}": (narrow,)}
        return {name: fan_in_uniform(shape, wide, random) for name, shape in shapes.items()}

    def _matrix(self, graph: Graph) -> Csr:
        return Csr.of(Graph.empty(graph.num_nodes))

    def _layer(self, depth: int, x: Input, layer: Layer, noise: Noise = None) -> Tensor:
        weight, bias = self._weights(depth, "weight", "bias")
        return layer.at_targets(x @ weight) + bias


# Four megabytes of float32. On Computers (505,474 entries, 8 heads) all heads at once took 1.6
# times as long as two at a time; on Cora, where everything fits, one call is faster than four.
_CACHED_ENTRIES = 1 << 20


class GAT(Backbone):
    """Graph attention network: several heads side by side, the last layer one head.

    Dropout acts on the input of every layer, and on the attention coefficients.
    """

    name = "gat"
    shares_stem = False

    def _initial(self, depth: int, wide: int, narrow: int, random: Generator) -> Weights:
        if self.settings.hidden % self.settings.heads:
            raise ValueError(
                f"gat: hidden={self.settings.hidden} must be a multiple of "
                f"heads={self.settings.heads}, each head has hidden / heads units"
            )
        heads = self._heads(depth)
        return {
            f"weight{depth}": glorot((wide, narrow), random),
            f"source{depth}": glorot((heads, narrow // heads), random),
            f"target{depth}": glorot((heads, narrow // heads), random),
            f"bias{depth}": torch.zeros(narrow),
        }

    def _heads(self, depth: int) -> int:
        return 1 if depth == self.settings.layers - 1 else self.settings.heads

    def _matrix(self, graph: Graph) -> Csr:
        return Csr.closed(graph)

    @staticmethod
    def activation(x: Tensor) -> Tensor:
        return F.elu(x)

    def _layer(self, depth: int, x: Input, layer: Layer, noise: Noise = None) -> Tensor:
        weight, to_source, to_target, bias = self._weights(
            depth, "weight", "source", "target", "bias"
        )
        if noise is not None and isinstance(x, Features):
            product = x.dropped(weight, self.settings.dropout, noise)
        else:
            product = x @ weight
        heads, entries = self._heads(depth), layer.matrix.num_entries
        width = product.shape[1] // heads
        # Head-major: each head's rows lie together, where its sparse product finds them in cache.
        hidden = product.view(-1, heads, width).transpose(0, 1).contiguous()
        source = torch.bmm(hidden, to_source.unsqueeze(2)).squeeze(2)
        target = torch.bmm(hidden, to_target.unsqueeze(2)).squeeze(2)
        if layer.own is not None:
            target = target.index_select(1, layer.own)
        rate, signs, scale = self.settings.attention_dropout, None, 1.0
        # As many heads at a time as keep the entries' arrays in cache.
        fitting = max(1, _CACHED_ENTRIES // max(1, entries))
        count = next(n for n in range(1, heads + 1) if heads % n == 0 and heads // n <= fitting)
        pattern = stacked(layer.matrix, heads // count)
        parts = []
        # chunk() and not slices: its backward pass is one concatenation.
        groups = zip(hidden.chunk(count), source.chunk(count), target.chunk(count), strict=True)
        for some_hidden, some_source, some_target in groups:
            if noise is not None and rate > 0:
                scale = 1.0 / (1.0 - rate)
                signs = random_choice(
                    pattern.num_entries, rate, noise, drop=-1.0, keep=1.0, dtype=product.dtype
                )
            ends = some_hidden.reshape(-1, width), some_source.flatten(), some_target.flatten()
            part = attend_additively(pattern, *ends, signs=signs, scale=scale)
            parts.append(part.view(heads // count, -1, width))
        out = parts[0] if len(parts) == 1 else torch.cat(parts)
        return out.transpose(0, 1).reshape(-1, heads * width) + bias
