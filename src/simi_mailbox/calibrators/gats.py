"""GATS: attention over neighbours' logits gives every node its temperature."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simi_mailbox.calibrators.network import NetworkTemperatures
from simi_mailbox.exceptions import SolverError
from simi_mailbox.graph import Graph
from simi_mailbox.parameters import Count, Positive, hyperparameters
from simi_mailbox.softmax import confidence
from simi_mailbox.sparse import Csr, attend, matmul, products
from simi_mailbox.validation import CalibrationData, NodeInputs

TRAINING, NEIGHBOUR, FURTHER = 0, 1, 2  # steps from the nodes that the GNN was trained on
FLOOR, SLOPE = 0.1, 0.2


@hyperparameters
class GATS(NetworkTemperatures):
    """q_i = softmax(z_i / T_i), T_i = T₀ + mean_h softplus(ω δ_i + Σ_j α_ij γ_j τ_jh).

    Hsu et al., "What Makes Graph Neural Networks Miscalibrated?", NeurIPS 2022. j runs over the
    neighbours of i and i itself; h over ``heads``.

    * τ_j = Θ · (logits of j, scaled to [0, 1] and sorted): what j alone says of its temperature.
    * γ_j is learned for training nodes of the GNN (a₀) and for their neighbours (a₁), else 1.
    * α_i = softmax over j of LeakyReLU(z_i·z_j / (γ_i γ_j)): neighbours that agree count more.
    * δ_i = confidence of i minus the mean confidence over j.
    * T₀, ω, a₀, a₁, Θ are learned; T₀ starts at ``start``.

    Training nodes are those of ``train_mask``, or else of ``early_stopping_mask``; without either,
    γ = 1 everywhere. ``predict_proba`` takes ``train_mask`` as well. Without it, the graph of the
    fit has the training nodes of the fit, and any other graph has none.

    Parameters
    ----------
    heads, start : int, float
        Number of rows of Θ, and initial T₀ (published tables: 1, for CoraFull 1.5).
    strict_paper : bool
        Follow the released formula, in which temperatures may become negative (`SolverError`). By
        default, T₀, γ and T below 0.1 are bent to stay positive, x ↦ 0.1 exp(x / 0.1 − 1).
    lr, weight_decay, epochs, patience, seed
        See `network.NetworkCalibrator`. Published weight decays differ from graph to graph.

    Attributes
    ----------
    training_nodes_ : dict or None
        Their indices, and the fingerprint of their graph.

    Notes
    -----
    Differs from the released code: a node with constant logits has τ = 0 instead of 0/0.

    Examples
    --------
    >>> z, given = [[2.0, 0.0]] * 4, {"graph": [[0, 2], [1, 3]]}
    >>> GATS(epochs=5).fit(z, [0, 0, 0, 1], mask=range(4), **given).predict_proba(z, **given).shape
    (4, 2)
    """

    name = "gats"
    required_inputs = frozenset({"graph"})
    shift_invariant = False

    heads: Count = 8
    start: Positive = 1.0
    strict_paper: bool = False

    def _fit(self, data: CalibrationData) -> None:
        held_out = None if data.holdout is None else data.holdout.index
        index = held_out if data.training is None else data.training
        self.training_nodes_: dict[str, Any] | None = None
        if index is not None:
            fingerprint = data.neighbourhoods.fingerprint()
            self.training_nodes_ = {"index": index, "fingerprint": fingerprint}
        super()._fit(data)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        temperatures: Tensor = self._trained(data).temperatures(None)
        if self.strict_paper and bool((temperatures <= 0).any()):
            raise SolverError(
                f"the published formula of GATS gives {int((temperatures <= 0).sum())} nodes a "
                f"temperature that is not positive (lowest: {float(temperatures.min()):.3g}); "
                "strict_paper=False keeps all of them positive"
            )
        return temperatures

    def _network(self, data: NodeInputs) -> TemperatureAttention:
        known, graph, index = self.training_nodes_, data.neighbourhoods, data.training
        if known is None:
            index = None
        elif index is None and graph.fingerprint() == known["fingerprint"]:
            index = known["index"]
        distances, bent = training_distances(index, graph), not self.strict_paper
        return TemperatureAttention(data, distances, self.heads, self.start, bent)


class Field(NamedTuple):
    """What never changes while training, for some receiving nodes."""

    pattern: Csr
    products: Tensor  # z_i·z_j of every entry
    sorted: Tensor  # logits of sending nodes, scaled to [0, 1] and sorted
    gaps: Tensor  # confidence of receiving nodes minus that of their neighbourhood
    distances: Tensor  # `training_distances` of sending nodes
    pairs: Tensor  # 3 · that of the receiving + that of the sending node, of every entry

    @classmethod
    def of(cls, data: NodeInputs, distances: Tensor) -> Field:
        """All nodes, receiving and sending."""
        z, pattern = data.logits, Csr.closed(data.neighbourhoods)
        confident = confidence(z).to(z.dtype)
        share = pattern.indptr.diff().to(z.dtype).reciprocal()
        gaps = confident - matmul(pattern, share[pattern.rows], confident[:, None]).flatten()
        pairs = 3 * distances[pattern.rows] + distances[pattern.indices]
        return cls(pattern, products(pattern, z, z), sorted_unit(z), gaps, distances, pairs)

    def rows(self, index: Tensor) -> Field:
        """Some nodes receiving."""
        rows, entries = self.pattern.take(index)
        compact, columns = rows.compact()
        of_entries = self.products[entries], self.sorted[columns], self.gaps[index]
        return Field(compact, *of_entries, self.distances[columns], self.pairs[entries])


class TemperatureAttention(nn.Module):
    """Temperatures of nodes by the formula of `GATS`, in memory O(E + V·K): γ takes three values,
    so that attention scores are fixed numbers times one of nine learned factors."""

    def __init__(
        self, data: NodeInputs, distances: Tensor, heads: int, start: float = 1.0, bent: bool = True
    ) -> None:
        super().__init__()
        self.bent = bent
        self.theta = nn.Parameter(torch.empty(heads, data.num_classes))
        nn.init.xavier_uniform_(self.theta)
        self.base = nn.Parameter(torch.tensor(start))
        self.omega = nn.Parameter(torch.zeros(()))
        self.gamma = nn.Parameter(torch.ones(FURTHER))
        self._all = Field.of(data, distances)
        self._some = cache(self._all.rows)

    def forward(self, index: Tensor) -> Tensor:
        """Inverse temperatures of the nodes ``index``."""
        return self.temperatures(index).reciprocal()

    def temperatures(self, index: Tensor | None) -> Tensor:
        """Temperatures of the nodes ``index``, or of all nodes."""
        field = self._all if index is None else self._some(index)
        learned = positive(self.gamma) if self.bent else self.gamma
        gamma = torch.cat([learned, learned.new_ones(1)])
        factors = gamma.outer(gamma).reciprocal().flatten()
        scores = field.products * factors.index_select(0, field.pairs)
        sent = field.sorted @ self.theta.t() * gamma.index_select(0, field.distances)[:, None]
        received = attend(field.pattern, F.leaky_relu(scores, SLOPE), sent)
        result = F.softplus(received + (self.omega * field.gaps)[:, None]).mean(dim=1) + self.base
        return positive(result) if self.bent else result


def training_distances(index: Tensor | None, graph: Graph) -> Tensor:
    """0 for the training nodes ``index``, 1 for their neighbours, 2 for all others."""
    training = torch.zeros(graph.num_nodes, dtype=torch.bool)
    if index is not None:
        training[index] = True
    result = torch.full((graph.num_nodes,), FURTHER)
    result[graph.rows()[training[graph.indices]]] = NEIGHBOUR
    result[training] = TRAINING
    return result


def sorted_unit(logits: Tensor) -> Tensor:
    """Every row scaled to [0, 1] and sorted; a constant row, which has no scale, becomes zero."""
    lowest, highest = logits.aminmax(dim=1, keepdim=True)
    spread = highest - lowest
    unit = (logits - lowest) / spread.masked_fill(spread == 0, 1.0)
    return unit.sort(dim=1).values


def positive(x: Tensor) -> Tensor:
    """x above `FLOOR`; below it, smoothly bent so that it never reaches zero."""
    return (x - FLOOR).relu() + FLOOR * (x / FLOOR - 1).clamp(-10.0, 0.0).exp()
