"""WATS: temperatures from the structure around a node, seen through graph wavelets."""

from typing import Literal

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simi_mailbox.calibrators.network import NetworkTemperatures, dropout
from simi_mailbox.graph import Graph
from simi_mailbox.parameters import Count, NonNegative, Share, Whole, hyperparameters
from simi_mailbox.sparse import Csr
from simi_mailbox.validation import NodeInputs

COLDEST = 1e-6  # added to temperatures, as in the released code


@hyperparameters
class WATS(NetworkTemperatures):
    """q_i = softmax(z_i / T_i), T_i = softplus(MLP(f_i)), f_i depending on the graph alone.

    Li et al., "WATS: Wavelet-Aware Temperature Scaling", arXiv 2506.23782. With x = log(1 + 2 deg)
    and the scaled Laplacian L̂ = L_sym − I, f_i holds a_k (T_k(L̂) x)_i for k = 0 … ``order``
    (Chebyshev polynomials), divided by the sum of their absolute values.

    Parameters
    ----------
    order, scale : int, float
        Highest polynomial, which is how many hops are seen, and scale s of the wavelet.
    kernel : "exponential" or "heat"
        a_k = exp(−s k), as in the released code, or the Chebyshev coefficients of the heat kernel
        exp(−s L_sym), as in the paper (there: order 3, scale 2).
    hidden, dropout : int, float
        Width of the MLP, and the share of its units dropped while training.
    lr, weight_decay, epochs, patience, seed
        See `network.NetworkCalibrator`.

    Notes
    -----
    Defaults are those of the released code, which the published tables come from. Differs from it
    in the alternating sign of the heat kernel's coefficients. An isolated node has L_sym = 0.

    Examples
    --------
    >>> z, given = [[2.0, 0.0]] * 4, {"graph": [[0, 2], [1, 3]]}
    >>> WATS(epochs=5).fit(z, [0, 0, 0, 1], mask=range(4), **given).predict_proba(z, **given).shape
    (4, 2)
    """

    name = "wats"
    required_inputs = frozenset({"graph"})

    order: Whole = 4
    scale: NonNegative = 0.4
    kernel: Literal["exponential", "heat"] = "exponential"
    hidden: Count = 64
    dropout: Share = 0.3
    weight_decay: NonNegative = 0.0
    epochs: Count = 1000
    patience: Count = 50

    def _network(self, data: NodeInputs) -> nn.Module:
        features = wavelet_features(data.neighbourhoods, self.order, self.scale, self.kernel)
        return StructureMLP(features.to(data.logits.dtype), self.hidden, self.dropout)


class StructureMLP(nn.Module):
    """One hidden layer over fixed node features."""

    def __init__(self, features: Tensor, hidden: int, dropout: float) -> None:
        super().__init__()
        self.features, self.dropout = features, dropout
        self.first = nn.Linear(features.shape[1], hidden)
        self.second = nn.Linear(hidden, 1)

    def forward(self, index: Tensor | None) -> Tensor:
        """Inverse temperatures of the nodes ``index``, or of all nodes."""
        seen = self.features if index is None else self.features[index]
        units = dropout(self.first(seen).relu(), self.dropout, self.training)
        return (F.softplus(self.second(units)).flatten() + COLDEST).reciprocal()


def wavelet_features(graph: Graph, order: int, scale: float, kernel: str) -> Tensor:
    """Structural features [n, order + 1] of every node, in float64."""
    degree = graph.degree.to(torch.float64)
    isolated = degree == 0
    root = degree.masked_fill(isolated, 1.0).rsqrt()
    adjacency = Csr.of(graph)
    adjacency = adjacency.with_values(-root[adjacency.rows] * root[adjacency.indices])

    def laplacian(x: Tensor) -> Tensor:  # L̂ x; L̂ is −1 on isolated nodes
        return adjacency @ x - x * isolated[:, None]

    terms = [torch.log1p((2 * degree).clamp_min(1e-6))[:, None]]
    if order:
        terms.append(laplacian(terms[0]))
    for _ in range(2, order + 1):
        terms.append(2 * laplacian(terms[-1]) - terms[-2])
    features = torch.cat(terms, dim=1) * kernel_coefficients(order, scale, kernel)
    return F.normalize(features, p=1.0, dim=1)


def kernel_coefficients(order: int, scale: float, kernel: str) -> Tensor:
    """a_0 … a_order: see `WATS`."""
    k = np.arange(order + 1)
    if kernel == "exponential":
        return torch.from_numpy(np.exp(-scale * k))
    # exp(−s (1 + x)) = e^−s [ I_0(s) + 2 Σ (−1)^k I_k(s) T_k(x) ]; ive is e^−s I.
    series = np.where(k == 0, 1.0, 2.0 * (-1.0) ** k) * scipy.special.ive(k, scale)
    return torch.from_numpy(series)
