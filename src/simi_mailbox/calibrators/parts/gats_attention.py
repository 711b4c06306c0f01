"""The network of GATS, without a gather over the edges.

z_i·z_j is fixed, and γ takes three values, so the attention scores are fixed numbers times one of
nine learned factors: an epoch costs O(E·heads + V·K·heads), and memory never holds O(E·K).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simi_mailbox.graph import Graph
from simi_mailbox.softmax import confidence
from simi_mailbox.sparse import Csr, PerIndex, attend, matmul, products
from simi_mailbox.validation import NodeInputs

TRAINING, NEIGHBOUR, FURTHER = 0, 1, 2
"""How far a node is from the nodes that the GNN was trained on."""
FLOOR = 0.1
SLOPE = 0.2


@dataclass(frozen=True)
class Field:
    """What never changes while training, for some receiving nodes."""

    pattern: Csr
    products: Tensor
    sorted: Tensor
    """Sorted logits of the sending nodes, in [0, 1]."""
    gaps: Tensor
    """Confidence of the receiving nodes minus that of their neighbourhood."""
    distances: Tensor | None
    """0, 1 or 2 for every sending node: see `training_distances`."""
    pairs: Tensor | None
    """3 · distance of the receiving + distance of the sending node, for every entry."""


class TemperatureAttention(nn.Module):
    """Temperatures of nodes by the formula of `gats.GATS`."""

    def __init__(
        self,
        data: NodeInputs,
        distances: Tensor | None = None,
        heads: int = 8,
        start: float = 1.0,
        bent: bool = True,
    ) -> None:
        super().__init__()
        self.bent = bent
        self.theta = nn.Parameter(torch.empty(heads, data.num_classes))
        nn.init.xavier_uniform_(self.theta)
        self.base = nn.Parameter(torch.tensor(start))
        self.omega = nn.Parameter(torch.zeros(()))
        if distances is not None:
            self.gamma = nn.Parameter(torch.ones(FURTHER))
        self._all = whole_field(data, distances)
        self._some = PerIndex(self._rows)

    def forward(self, index: Tensor | None) -> Tensor:
        """Inverse temperatures of the nodes ``index``, or of all nodes."""
        return self.temperatures(index).reciprocal()

    def temperatures(self, index: Tensor | None) -> Tensor:
        """Temperatures of the nodes ``index``, or of all nodes."""
        field = self._all if index is None else self._some(index)
        scores, sent = field.products, field.sorted @ self.theta.t()
        if field.distances is not None and field.pairs is not None:
            learned = positive(self.gamma) if self.bent else self.gamma
            gamma = torch.cat([learned, learned.new_ones(1)])
            factors = gamma.outer(gamma).reciprocal().flatten()
            scores = scores * factors.index_select(0, field.pairs)
            sent = sent * gamma.index_select(0, field.distances)[:, None]
        received = attend(field.pattern, F.leaky_relu(scores, SLOPE), sent)
        result = F.softplus(received + (self.omega * field.gaps)[:, None]).mean(dim=1) + self.base
        return positive(result) if self.bent else result

    def _rows(self, index: Tensor) -> Field:
        field = self._all
        rows, entries = field.pattern.take(index)
        compact, columns = rows.compact()
        return Field(
            compact,
            field.products[entries],
            field.sorted[columns],
            field.gaps[index],
            None if field.distances is None else field.distances[columns],
            None if field.pairs is None else field.pairs[entries],
        )


def whole_field(data: NodeInputs, distances: Tensor | None) -> Field:
    """All nodes, receiving and sending."""
    z, pattern = data.logits, Csr.closed(data.neighbourhoods)
    confident = confidence(z).to(z.dtype)
    share = pattern.indptr.diff().to(z.dtype).reciprocal()
    mean = matmul(pattern, share[pattern.rows], confident[:, None]).flatten()
    pairs = None
    if distances is not None:
        pairs = 3 * distances[pattern.rows] + distances[pattern.indices]
    return Field(
        pattern, products(pattern, z, z), sorted_unit(z), confident - mean, distances, pairs
    )


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
