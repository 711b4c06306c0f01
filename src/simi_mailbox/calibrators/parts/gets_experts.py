"""The network of GETS: seven graph experts and a gate that picks a few of them for each node."""

from functools import reduce
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simi_mailbox.calibrators.parts.randomness import dropout, normal_like
from simi_mailbox.sparse import Csr, PerIndex, normalised_adjacency
from simi_mailbox.validation import NodeInputs

KINDS = ("logits", "features", "degree")
EXPERTS = [kinds for size in (1, 2, 3) for kinds in combinations(KINDS, size)]
"""What each expert sees: every non-empty subset."""
SMALLEST_NOISE = 0.01


class ExpertMixture(nn.Module):
    """z_i ⊙ softplus(Σ_m g_im · expert_m(i)): see `gets.GETS`."""

    balance: Tensor
    """How unevenly the last forward pass used the experts: CV²(importance) + CV²(load)."""

    def __init__(
        self,
        data: NodeInputs,
        degrees: int,
        *,
        select: int,
        hidden: int,
        feature_hidden: int,
        degree_hidden: int,
        dropout: float,
        noise: float,
    ) -> None:
        super().__init__()
        self.select, self.hidden, self.dropout, self.noise = select, hidden, dropout, noise
        dtype, classes = data.logits.dtype, data.num_classes
        self.logits = data.logits
        self.features = FeatureProduct(data, dtype)
        self.degree = data.neighbourhoods.degree.clamp_max(degrees - 1)
        self.adjacency = normalised_adjacency(data.neighbourhoods, dtype)
        self._rows = PerIndex(lambda index: self.adjacency.take(index)[0])

        width = {"logits": classes, "features": feature_hidden, "degree": degree_hidden}
        seers = [sum(kind in kinds for kinds in EXPERTS) for kind in KINDS]
        experts = len(EXPERTS)
        # One projection of the features for each expert that sees them, and one for the gate.
        self.project = nn.Linear(self.features.width, feature_hidden * (seers[1] + 1))
        self.embed = nn.Parameter(torch.randn(seers[2], degrees, degree_hidden))
        self.first = nn.ParameterList(
            [_glorot(sum(width[kind] for kind in kinds), hidden) for kinds in EXPERTS]
        )
        self.first_bias = nn.Parameter(torch.zeros(experts * hidden))
        self.second = nn.Parameter(torch.stack([_glorot(hidden, classes) for _ in EXPERTS]))
        self.second_bias = nn.Parameter(torch.zeros(experts, classes))
        self.gate = nn.Parameter(torch.zeros(feature_hidden + classes, experts))
        self.gate_noise = nn.Parameter(torch.zeros(feature_hidden + classes, experts))
        self._width = width

    def forward(self, index: Tensor | None) -> Tensor:
        """Calibrated logits of the nodes ``index``, or of all nodes."""
        sent, scores = self._first_layer()
        gates = self._gates(*scores.chunk(2, dim=1))
        units = (self.adjacency @ sent + self.first_bias).relu()
        units = dropout(units, self.dropout, self.training)
        rows = self.adjacency if index is None else self._rows(index)
        received = (rows @ units).view(-1, len(EXPERTS), self.hidden)
        opinions = torch.einsum("nmh,mhk->nmk", received, self.second) + self.second_bias
        chosen = slice(None) if index is None else index
        scale = torch.einsum("nmk,nm->nk", opinions, gates[chosen])
        return self.logits[chosen] * F.softplus(scale)

    def _first_layer(self) -> tuple[Tensor, Tensor]:
        """What experts see times their weights, before neighbours are added; and the gate's sums.

        (x P + b) W is computed as x (P W) + b W: the features of all nodes are multiplied with a
        dozen columns for each expert, not with its whole projection.
        """
        pieces: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
        for kinds, weights in zip(EXPERTS, self.first, strict=True):
            parts = torch.split(weights, [self._width[kind] for kind in kinds])
            for kind, part in zip(kinds, parts, strict=True):
                pieces[kind].append(part)
        gate = torch.cat([self.gate, self.gate_noise], dim=1)
        of_features, of_logits = torch.split(gate, [self._width["features"], self._width["logits"]])
        pieces["features"].append(of_features)
        pieces["logits"].append(of_logits)

        projections = torch.split(self.project.weight, self._width["features"])
        biases = torch.split(self.project.bias, self._width["features"])
        through = zip(projections, biases, pieces["features"], strict=True)
        columns, offsets = zip(*((p.t() @ w, b @ w) for p, b, w in through), strict=True)
        tables = [table @ w for table, w in zip(self.embed, pieces["degree"], strict=True)]
        seen = {
            "features": self.features(torch.cat(columns, dim=1)) + torch.cat(offsets),
            "logits": self.logits @ torch.cat(pieces["logits"], dim=1),
            "degree": torch.cat(tables, dim=1).index_select(0, self.degree),
        }
        each = {
            kind: iter(torch.split(all_of, self.hidden, dim=1)) for kind, all_of in seen.items()
        }
        sent = [reduce(torch.add, (next(each[kind]) for kind in kinds)) for kinds in EXPERTS]
        last = gate.shape[1]
        return torch.cat(sent, dim=1), seen["features"][:, -last:] + seen["logits"][:, -last:]

    def _gates(self, clean: Tensor, spread: Tensor) -> Tensor:
        noisy = self.training and self.noise > 0
        spread = self.noise * (F.softplus(spread) + SMALLEST_NOISE)
        scores = clean + spread * normal_like(clean) if noisy else clean
        top = scores.topk(min(self.select + 1, len(EXPERTS)), dim=1)
        best = top.values[:, : self.select].softmax(dim=1)
        gates = torch.zeros_like(scores).scatter(1, top.indices[:, : self.select], best)
        if noisy and self.select < len(EXPERTS):
            load = chance_of_selection(clean, scores, spread, top.values, self.select).sum(dim=0)
        else:
            load = (gates > 0).sum(dim=0).to(gates.dtype)
        self.balance = variation(gates.sum(dim=0)) + variation(load)
        return gates


class FeatureProduct:
    """features @ weights, differentiable in the weights, for dense and sparse features."""

    def __init__(self, data: NodeInputs, dtype: torch.dtype) -> None:
        features = data.features
        assert features is not None
        self.width = int(features.shape[1])
        self._matrix: Csr | Tensor
        if features.layout == torch.sparse_csr:
            offsets, columns = features.crow_indices(), features.col_indices()
            shape = (int(features.shape[0]), self.width)
            self._matrix = Csr(offsets, columns, shape, features.values().to(dtype))
        else:
            self._matrix = features.to(dtype)

    def __call__(self, weights: Tensor) -> Tensor:
        """The product [n, h]."""
        return self._matrix @ weights


def chance_of_selection(
    clean: Tensor, scores: Tensor, spread: Tensor, top: Tensor, select: int
) -> Tensor:
    """Probability that each expert is among the best ``select`` if its noise were drawn anew.

    Shazeer et al., "Outrageously Large Neural Networks", ICLR 2017. ``top`` holds the ``select``
    + 1 highest scores of every row.
    """
    last_in, first_out = top[:, select - 1 : select], top[:, select : select + 1]
    # An expert that is in must beat the best one that is out; one that is out, the last one in.
    rival = torch.where(scores > first_out, first_out, last_in)
    chance: Tensor = torch.special.ndtr((clean - rival) / spread)
    return chance


def variation(x: Tensor) -> Tensor:
    """Squared coefficient of variation: zero if all are equal."""
    return x.var() / (x.mean() ** 2 + 1e-10)


def _glorot(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns)))
