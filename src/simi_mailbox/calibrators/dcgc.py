"""DCGC: re-weight the edges, run the frozen GNN again, calibrate what comes out."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function

from simi_mailbox.calibrators import registry
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.network import NetworkCalibrator
from simi_mailbox.calibrators.parts.randomness import chosen
from simi_mailbox.graph import Graph
from simi_mailbox.parameters import Count, Positive, Share, check_parameters, hyperparameters
from simi_mailbox.sparse import Csr, products
from simi_mailbox.validation import CalibrationData, Forward, NodeInputs

Ends = tuple[Tensor, Tensor]
Kept = Tensor | None
BLOCK = 2**16
"""Values of a hidden layer over the edges that are held at a time."""


@hyperparameters
class DCGC(NetworkCalibrator):
    """Base calibrator on the logits of the GNN, run on a graph with data-centric edge weights.

    Yang et al., "Calibrating Graph Neural Networks from a Data-centric Perspective", WWW 2024.

    1. w_ij = relu(MLP([z_j, z_i])) is trained so that the frozen GNN, run with these edge weights,
       has low cross-entropy.
    2. With s = softmax(beta · p), p the probabilities of that GNN, the edge gets the weight
       w_ij / (‖s_i − s_j‖ + alpha): neighbours that agree count more.
    3. The GNN runs once more with the final weights, and ``base`` is fitted to its logits.

    Parameters
    ----------
    base : str
        Name of a calibrator that needs at most the graph.
    base_params : dict, optional
        Its settings, if they are not its defaults.
    alpha, beta : float
        See above.
    dropout : float
        Share of the MLP's 4K hidden units dropped while training.
    lr, weight_decay, epochs, patience, seed
        See `network.NetworkCalibrator`; they are those of the MLP.

    Notes
    -----
    ``forward(edge_weight) -> logits`` takes one weight for each entry of the graph, in the order of
    ``graph.edge_index()``, and must be differentiable in them. The MLP is trained on the nodes of
    ``early_stopping_mask`` (original: the GNN's training nodes) and stopped on the calibration
    nodes; without a hold-out, both on calibration nodes. Predicted classes may change.

    Differs from the released code: there, the frozen GNN keeps its own dropout while the MLP is
    trained, the MLP normalises batches of edges, and the base calibrator goes on from where a fit
    without edge weights left it. Here logits enter the MLP divided by their root mean square, its
    output starts at about 1, the unchanged graph, and the base starts afresh.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = torch.from_numpy(rng.normal(size=(100, 3)))
    >>> y = (z.numpy() + rng.gumbel(size=z.shape)).argmax(1)
    >>> ring = Graph.from_edges([np.arange(100), (np.arange(100) + 1) % 100])
    >>> def forward(edge_weight):  # a one-layer GNN
    ...     received = edge_weight[:, None] * z[ring.indices]
    ...     return z + torch.zeros_like(z).index_add(0, ring.rows(), received)
    >>> logits = forward(torch.ones(ring.num_entries))
    >>> given = {"graph": ring, "forward": forward}
    >>> cal = DCGC(epochs=30).fit(logits, y, mask=np.arange(60), **given)
    >>> cal.predict_proba(logits, **given).shape
    torch.Size([100, 3])
    """

    name = "dcgc"
    version = 2
    required_inputs = frozenset({"graph", "forward"})
    shift_invariant = False

    base: str = "temperature"
    base_params: dict[str, Any] | None = None
    alpha: Positive = 0.5
    beta: Positive = 10.0
    dropout: Share = 0.7
    epochs: Count = 1000

    def _check_params(self) -> None:
        more = registry.get(self.base).required_inputs - {"graph"}
        if more:
            raise ValueError(
                f"base {self.base!r} needs {' and '.join(sorted(more))}, which DCGC cannot give; "
                "choose one that needs at most the graph"
            )
        check_parameters(self._base())
        self._base()._check_params()

    def _fit(self, data: CalibrationData) -> None:
        _check_forward(data)
        theirs = None if data.holdout is None else (data.holdout, data.calibration)
        self._train(data, theirs)
        base = self._base()
        base._fit(replace(data, logits=self._new_logits(data), features=None, forward=None))
        self.base_state_: dict[str, Any] = base._state()

    def _check_state(self) -> None:
        super()._check_state()
        if not isinstance(self.base_state_, dict):
            raise ValueError("base_state_ must be a table of fitted values")
        k = len(self.classes_)
        seen = {"num_classes_": k, "classes_": np.arange(k), "widest_": self.widest_}
        self._base()._restore({**self.base_state_, **seen, "input_type_": self.input_type_})

    def _predict(self, data: NodeInputs) -> Tensor:
        base = self._base()
        for name, value in self.base_state_.items():
            setattr(base, name, value)
        return base._predict(NodeInputs(self._new_logits(data), data.graph, training=data.training))

    def _base(self) -> Calibrator:
        return registry.get(self.base)(**(self.base_params or {}))

    def _network(self, data: NodeInputs) -> nn.Module:
        assert data.forward is not None
        return EdgeWeights(data.logits, data.neighbourhoods, data.forward, self.dropout)

    def _new_logits(self, data: NodeInputs) -> Tensor:
        """Logits of the GNN on the graph with the final edge weights."""
        assert data.forward is not None
        weights = self._trained(data).edge_weights()
        with torch.no_grad():
            sharp = (self.beta * data.forward(weights).softmax(dim=1)).softmax(dim=1)
            distance = edge_distances(data.neighbourhoods, sharp).to(weights.dtype)
            logits = data.forward(weights / (distance + self.alpha))
        return logits.detach().to(data.logits.dtype)


class EdgeWeights(nn.Module):
    """Weight of every edge from the logits of its ends, and the frozen GNN behind it."""

    def __init__(self, logits: Tensor, graph: Graph, forward: Forward, dropout: float) -> None:
        super().__init__()
        classes = logits.shape[1]
        unit = float(logits.square().mean().sqrt()) or 1.0
        self.logits, self.gnn, self.dropout = logits / unit, forward, dropout
        self.receivers, self.senders = graph.rows(), graph.indices
        # The first layer of an MLP over [z_j, z_i], in two halves: products per node, not per edge.
        self.sender = nn.Linear(classes, 4 * classes)
        self.receiver = nn.Linear(classes, 4 * classes, bias=False)
        self.last = nn.Linear(4 * classes, 1)
        nn.init.ones_(self.last.bias)

    def forward(self, index: Tensor) -> Tensor:
        """Logits of the nodes ``index`` on the re-weighted graph."""
        return self.gnn(self.edge_weights())[index]

    def edge_weights(self) -> Tensor:
        """One weight for each entry of the graph."""
        weight, kept = self.last.weight.flatten(), None
        if self.training and self.dropout > 0:
            kept = chosen((self.senders.numel(), weight.numel()), 1 - self.dropout)
            weight = weight / (1 - self.dropout)
        ends = self.senders, self.receivers
        units = edge_units(ends, self.sender(self.logits), self.receiver(self.logits), weight, kept)
        return (units + self.last.bias).relu()


def edge_distances(graph: Graph, x: Tensor) -> Tensor:
    """‖x_i − x_j‖ of every entry (i, j), without a gather of vectors over the edges."""
    pattern, x = Csr.of(graph), x.to(torch.float64)
    square = x.square().sum(dim=1)
    both = square[pattern.rows] + square[pattern.indices] - 2 * products(pattern, x, x)
    return both.clamp_min_(0.0).sqrt_()


def _check_forward(data: NodeInputs) -> None:
    assert data.forward is not None
    expected = list(data.logits.shape)
    ones = torch.ones(data.neighbourhoods.num_entries, dtype=data.logits.dtype, requires_grad=True)
    logits = data.forward(ones)
    found = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if found != expected:
        raise ValueError(
            f"forward(edge_weight) must return logits of shape {expected}, got {found}"
        )
    if not logits.requires_grad:
        raise ValueError(
            "forward(edge_weight) must be differentiable in the edge weights: "
            "do not detach them and do not run it under torch.no_grad()"
        )


def edge_units(ends: Ends, a: Tensor, b: Tensor, weight: Tensor, kept: Kept = None) -> Tensor:
    """weight · relu(a_j + b_i) of every entry (i, j), differentiable in all three.

    The layer's values would be hundreds of megabytes on half a million entries. Here a block of
    edges stays in the cache until it is one number per edge, and is computed again for gradients.
    """
    result: Tensor = _EdgeUnits.apply(ends, a, b, weight, kept)  # type: ignore[no-untyped-call]
    return result


class _EdgeUnits(Function):
    @staticmethod
    def forward(ctx: Any, ends: Ends, a: Tensor, b: Tensor, weight: Tensor, kept: Kept) -> Tensor:
        ctx.ends, ctx.kept = ends, kept
        ctx.save_for_backward(a, b, weight)
        values = weight.new_empty(ends[0].numel())
        for part in _blocks(values.numel(), weight.numel()):
            torch.mv(_units(ends, a, b, kept, part), weight, out=values[part])
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None]:
        (gradient,), (j, i) = gradients, ctx.ends
        a, b, weight = ctx.saved_tensors
        to_a, to_b, to_weight = torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(weight)
        for part in _blocks(gradient.numel(), weight.numel()):
            units, above = _units(ctx.ends, a, b, ctx.kept, part), gradient[part]
            to_weight.addmv_(units.t(), above)
            units.sign_().mul_(weight).mul_(above.unsqueeze(1))
            to_a.index_add_(0, j[part], units)
            to_b.index_add_(0, i[part], units)
        return None, to_a, to_b, to_weight, None


def _blocks(edges: int, width: int) -> list[slice]:
    step = max(1, BLOCK // max(1, width))
    return [slice(start, start + step) for start in range(0, edges, step)]


def _units(ends: Ends, a: Tensor, b: Tensor, kept: Kept, part: slice) -> Tensor:
    j, i = ends
    units = a.index_select(0, j[part]).add_(b.index_select(0, i[part])).relu_()
    return units if kept is None else units.mul_(kept[part])
