"""CaGCN: a small GCN over the logits gives every node its temperature."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simi_mailbox.calibrators.network import Loss, NetworkTemperatures, dropout, scaled_nll
from simi_mailbox.parameters import Count, NonNegative, Share, hyperparameters
from simi_mailbox.sparse import Csr, normalised_adjacency
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs


@hyperparameters
class CaGCN(NetworkTemperatures):
    """q_i = softmax(z_i · t_i) with t = softplus(Â relu(Â Z W₁ + b₁) w₂ + b₂).

    Wang et al., "Be Confident! Towards Trustworthy Graph Neural Networks via Confidence
    Calibration", NeurIPS 2021, in the variant of the tables of GATS and of all work built on them:
    fitted by cross-entropy, stopped early on the GNN's training nodes if those are given as
    ``early_stopping_mask``. Â = D^-1/2 (A + I) D^-1/2; the temperature is 1 / t_i.

    Parameters
    ----------
    hidden, dropout : int, float
        Width of the hidden layer, and the share of its units dropped while training.
    margin : float
        Weight of the original work's further loss, (1/m) [ Σ_right (1 − p₁ + p₂) + Σ_wrong (p₁ −
        p₂) ] with the two largest probabilities p₁, p₂. Original: 0.5; published comparisons: 0.
    lr, weight_decay, epochs, patience, seed
        See `network.NetworkCalibrator`.

    Notes
    -----
    Differs from the original code: softplus where that has log(exp(u) + 1.1); there, the nodes
    fitted on also decide when to stop.

    Examples
    --------
    >>> z, given = [[2.0, 0.0]] * 4, {"graph": [[0, 2], [1, 3]]}
    >>> CaGCN(epochs=5).fit(z, [0, 0, 0, 1], mask=range(4), **given).predict_proba(z, **given).shape
    (4, 2)
    """

    name = "cagcn"
    required_inputs = frozenset({"graph"})
    shift_invariant = False

    hidden: Count = 16
    dropout: Share = 0.5
    margin: NonNegative = 0.0

    def _fit(self, data: CalibrationData) -> None:
        objective = margin_loss(data.logits, self.margin) if self.margin else None
        self._train(data, likelihood=scaled_nll(data.logits), objective=objective)

    def _network(self, data: NodeInputs) -> nn.Module:
        return ScaleGCN(data, self.hidden, self.dropout)


class ScaleGCN(nn.Module):
    """Two GCN layers over the logits, which give each node its inverse temperature."""

    def __init__(self, data: NodeInputs, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.first = nn.Linear(data.num_classes, hidden)
        self.second = nn.Linear(hidden, 1)
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        adjacency = normalised_adjacency(data.neighbourhoods, data.logits.dtype)
        self._all = adjacency, adjacency @ data.logits
        self._some = cache(self._rows)

    def forward(self, index: Tensor | None) -> Tensor:
        """Inverse temperatures of the nodes ``index``, or of all nodes."""
        adjacency, smoothed = self._all if index is None else self._some(index)
        units = self.first(smoothed).relu()
        units = dropout(units, self.dropout, self.training)
        sent = units @ self.second.weight.t()
        return F.softplus(adjacency @ sent + self.second.bias).flatten()

    def _rows(self, index: Tensor) -> tuple[Csr, Tensor]:
        adjacency, smoothed = self._all
        rows, columns = adjacency.take(index)[0].compact()
        return rows, smoothed[columns]


def margin_loss(logits: Tensor, weight: float) -> Loss:
    """The original objective of CaGCN: NLL plus ``weight`` times the margin term."""

    nll = scaled_nll(logits)

    def loss(scale: Tensor, nodes: Labelled) -> Tensor:
        z = logits[nodes.index]
        top = (z * scale[:, None]).softmax(dim=1).topk(2, dim=1).values
        gap = top[:, 0] - top[:, 1]
        right = z.argmax(dim=1) == nodes.y
        return nll(scale, nodes) + weight * torch.where(right, 1 - gap, gap).mean()

    return loss
