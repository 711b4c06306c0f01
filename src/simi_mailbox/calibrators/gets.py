"""GETS: a mixture of graph experts scales every logit of every node."""

from __future__ import annotations

from functools import cache, reduce
from itertools import combinations
from typing import Annotated

import torch
import torch.nn.functional as F
from scipy.sparse import issparse
from torch import Tensor, nn

from simi_mailbox.calibrators.features import check_width, feature_matrix
from simi_mailbox.calibrators.network import NetworkCalibrator, dropout, normal_like
from simi_mailbox.parameters import Constraint, Count, NonNegative, Positive, Share, hyperparameters
from simi_mailbox.sparse import Csr, normalised_adjacency
from simi_mailbox.validation import CalibrationData, NodeInputs

KINDS = ("logits", "features", "degree")
EXPERTS = [kinds for size in (1, 2, 3) for kinds in combinations(KINDS, size)]
"""What each expert sees: every non-empty subset."""
Selection = Annotated[Count, Constraint(f"and ≤ {len(EXPERTS)}", lambda x: x <= len(EXPERTS))]
LARGEST_DEGREE = 255
SMALLEST_NOISE = 0.01


@hyperparameters
class GETS(NetworkCalibrator):
    """q_i = softmax(z_i ⊙ softplus(Σ_m g_im t_im)): each t_im ∈ R^K comes from expert m's GCN.

    Zhuang et al., "GETS: Ensemble Temperature Scaling for Calibration in Graph Neural Networks",
    ICLR 2025. There is one expert, a two-layer GCN, for every non-empty subset of {logits,
    projected features, degree embedding}: seven. The gate g_i = softmax of the ``select`` largest
    of x W_g + ε · (softplus(x W_n) + 0.01), with x = [projected features, z_i] and normal noise ε
    while training. ``balance`` · (CV²(importance) + CV²(load)) keeps experts in use.

    Parameters
    ----------
    select : int
        Experts for each node (paper: 1 or 2).
    hidden, feature_hidden, degree_hidden : int
        Widths of the experts, of projected features, of degree embeddings.
    dropout, noise, balance : float
        Share of hidden units dropped while training, strength of the gate's noise (published: 1),
        and weight of the balance term.
    lr, weight_decay, epochs, patience, seed
        See `network.NetworkCalibrator`. Published values differ from graph to graph.

    Notes
    -----
    Predicted classes may change. Differs from the released code: degree embeddings are trained
    (there, they are made after the optimiser took its list of parameters, and stay random); degrees
    above 255 share a row; the adjacency always has self loops (there, only on Planetoid graphs).
    Features enter as they are given: pass those that the GNN was trained on, in the same scale.

    Examples
    --------
    >>> z, given = [[2.0, 0.0]] * 4, {"graph": [[0, 2], [1, 3]], "features": [[1.0], [2.0]] * 2}
    >>> GETS(epochs=5).fit(z, [0, 0, 0, 1], mask=range(4), **given).predict_proba(z, **given).shape
    (4, 2)
    """

    name = "gets"
    required_inputs = frozenset({"graph", "features"})
    shift_invariant = False

    select: Selection = 2
    hidden: Count = 16
    feature_hidden: Count = 64
    degree_hidden: Count = 32
    dropout: Share = 0.5
    noise: NonNegative = 1.0
    balance: NonNegative = 1.0
    lr: Positive = 0.1
    weight_decay: NonNegative = 0.0
    epochs: Count = 1000
    patience: Count = 50

    @classmethod
    def num_parameters(cls, num_classes: int) -> int:
        return 100  # networks trained for some epochs

    def _fit(self, data: CalibrationData) -> None:
        self._train(data, penalty=lambda network: self.balance * network.balance)

    def _predict(self, data: NodeInputs) -> Tensor:
        check_width(data, self.weights_["project.weight"].shape[1])
        return torch.softmax(self._trained(data)(None), dim=1)

    def _network(self, data: NodeInputs) -> ExpertMixture:
        degrees = min(int(data.neighbourhoods.degree.max()), LARGEST_DEGREE) + 1
        if hasattr(self, "weights_"):  # nodes of larger degree than the fit has seen share a row
            degrees = self.weights_["embed"].shape[1]
        return ExpertMixture(self, data, degrees)


class ExpertMixture(nn.Module):
    """z_i ⊙ softplus(Σ_m g_im · expert_m(i)): see `GETS`."""

    balance: Tensor  # CV²(importance) + CV²(load) of the experts in the last forward pass

    def __init__(self, settings: GETS, data: NodeInputs, degrees: int) -> None:
        super().__init__()
        self.select, self.hidden = settings.select, settings.hidden
        self.dropout, self.noise = settings.dropout, settings.noise
        hidden, width, deep = settings.hidden, settings.feature_hidden, settings.degree_hidden
        self.logits, classes = data.logits, data.num_classes
        features = feature_matrix(data).astype(data.logits.numpy().dtype)
        given = Csr.from_scipy(features) if issparse(features) else torch.from_numpy(features)
        self.features: Csr | Tensor = given
        self.degree = data.neighbourhoods.degree.clamp_max(degrees - 1)
        self.adjacency = normalised_adjacency(data.neighbourhoods, data.logits.dtype)
        self._rows = cache(lambda index: self.adjacency.take(index)[0])

        self._width = {"logits": classes, "features": width, "degree": deep}
        seers = {kind: sum(kind in kinds for kinds in EXPERTS) for kind in KINDS}
        # One projection of the features for each expert that sees them, and one for the gate.
        self.project = nn.Linear(int(features.shape[1]), width * (seers["features"] + 1))
        self.embed = nn.Parameter(torch.randn(seers["degree"], degrees, deep))
        self.first = nn.ParameterList(
            [_glorot(sum(self._width[kind] for kind in kinds), hidden) for kinds in EXPERTS]
        )
        self.first_bias = nn.Parameter(torch.zeros(len(EXPERTS) * hidden))
        self.second = nn.Parameter(torch.stack([_glorot(hidden, classes) for _ in EXPERTS]))
        self.second_bias = nn.Parameter(torch.zeros(len(EXPERTS), classes))
        self.gate = nn.Parameter(torch.zeros(width + classes, len(EXPERTS)))
        self.gate_noise = nn.Parameter(torch.zeros(width + classes, len(EXPERTS)))

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
        (x P + b) W is computed as x (P W) + b W: a dozen columns for each expert."""
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
            "features": self.features @ torch.cat(columns, dim=1) + torch.cat(offsets),
            "logits": self.logits @ torch.cat(pieces["logits"], dim=1),
            "degree": torch.cat(tables, dim=1).index_select(0, self.degree),
        }
        each = {kind: iter(torch.split(part, self.hidden, dim=1)) for kind, part in seen.items()}
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


def chance_of_selection(
    clean: Tensor, scores: Tensor, spread: Tensor, top: Tensor, select: int
) -> Tensor:
    """Probability of being among the best ``select`` with new noise (Shazeer et al., ICLR 2017)."""
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
