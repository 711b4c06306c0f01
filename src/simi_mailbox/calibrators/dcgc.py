"""DCGC: re-weight the edges, run the frozen GNN again, calibrate what comes out."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from simi_mailbox.calibrators import registry
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.network import NetworkCalibrator, chosen
from simi_mailbox.graph import Graph
from simi_mailbox.parameters import Count, Positive, Share, check_parameters, hyperparameters
from simi_mailbox.softmax import row_blocks
from simi_mailbox.sparse import Csr, products
from simi_mailbox.validation import CalibrationData, Forward, NodeInputs

BLOCK = 1 << 24  # values of the hidden layer over the edges that are held at a time


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
    base, base_params : str, dict (optional)
        Name of a calibrator that needs at most the graph, and its settings.
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

    Differs from the released code: no dropout of the GNN while the MLP is trained, no normalised
    batches of edges, a base fitted anew; logits enter the MLP divided by their root mean square,
    and its output starts at about 1.

    Examples
    --------
    >>> z = torch.tensor([[2.0, 0.0]] * 4)
    >>> given = {"graph": [[0, 2], [1, 3]], "forward": lambda weight: z * weight.mean()}
    >>> cal = DCGC(epochs=5).fit(z, [0, 0, 0, 1], mask=range(4), **given)
    >>> cal.predict_proba(z, **given).shape
    torch.Size([4, 2])
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

    def _predict(self, data: NodeInputs) -> Tensor:
        base = self._base()
        base.__dict__.update(self.base_state_)
        return base._predict(NodeInputs(self._new_logits(data), data.graph, training=data.training))

    def _base(self) -> Calibrator:
        return registry.get(self.base)(**(self.base_params or {}))

    def _network(self, data: NodeInputs) -> nn.Module:
        assert data.forward is not None
        return EdgeWeights(data.logits, data.neighbourhoods, data.forward, self.dropout)

    def _new_logits(self, data: NodeInputs) -> Tensor:
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
        sent: Tensor = self.sender(self.logits)
        received: Tensor = self.receiver(self.logits)

        def values(part: slice) -> Tensor:
            units = (sent[self.senders[part]] + received[self.receivers[part]]).relu()
            return (units if kept is None else units * kept[part]) @ weight

        # A block's hidden layer is computed again for its gradients, so that none is kept.
        how: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
        blocks = row_blocks(self.senders.numel(), weight.numel(), BLOCK)
        found: list[Tensor] = [checkpoint(values, part, **how) for part in blocks]
        return (torch.cat([weight.new_empty(0), *found]) + self.last.bias).relu()


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
