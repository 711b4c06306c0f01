"""SimCalib, reimplemented from the paper."""

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators import features
from simi_mailbox.calibrators.base import Shapes
from simi_mailbox.calibrators.neighbours import mean_support
from simi_mailbox.calibrators.network import NetworkTemperatures, scaled_nll
from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import row_sums
from simi_mailbox.parameters import Count, NonNegative, hyperparameters
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs

FARTHEST = 4.0  # inputs further than this many standard deviations from the mean are cut off there
WIDEST = 3.0  # log T stays within this of the common temperature's: a factor of about 20 either way


@hyperparameters
class SimCalib(NetworkTemperatures):
    """Temperatures from similarity between nodes: a **reimplementation** of SimCalib.

        T_i = T · exp(g(φ_i)),   q_i = softmax(z_i / T_i)

    Tang et al., "SimCalib: Graph Neural Network Calibration based on Similarity between Nodes",
    AAAI 2024: φ holds Mahalanobis distances to class prototypes, homophily and relative degree. No
    code was released: every choice below is ours, and results must be labelled "reimplementation".

    Parameters
    ----------
    hidden : int
        Hidden units of g.
    lr, weight_decay, epochs, patience, seed
        See `network.NetworkCalibrator`.

    Attributes
    ----------
    temperature_ : float
        The common T, of temperature scaling.
    prototypes_, precision_, centre_, spread_ : float64 arrays
        Class means, inverse covariance, and the standardisation of φ.
    weights_ : dict of Tensor
        Of g.

    Notes
    -----
    ``features`` are the GNN's penultimate representations. Prototypes are class means over *all*
    nodes weighted by predicted probability, with one covariance within classes, shrunk by a tenth:
    no label enters. φ_i, standardised over the nodes of ``fit``: the distance to the predicted
    class's prototype; how much farther the nearest other one is; homophily, the mean probability
    that the neighbours give to the predicted class; log of the mean over neighbours of
    √((d_i+1)/(d_j+1)). A node without neighbours gets the mean of the last two. g is one layer of
    tanh units that starts at zero, that is, at temperature scaling, with |g| < 3. The weight decay
    was chosen, among 0.0005, 0.005, 0.05 and 0.2, by the likelihood of the nodes of Cora and
    Citeseer that are in no part of the splits, after test figures at 0.0005 had shown the need.

    Examples
    --------
    >>> z, given = [[2.0, 0.0]] * 4, {"graph": [[0, 2], [1, 3]], "features": [[1.0], [2.0]] * 2}
    >>> SimCalib(epochs=5).fit(z, [0, 0, 0, 1], mask=range(4), **given).epochs_
    5
    """

    name = "simcalib"
    fitted: ClassVar[Shapes] = {
        "prototypes_": ("classes", "features"),
        "precision_": ("features", "features"),
        "centre_": (4,),
        "spread_": (4,),
        "temperature_": (),
    }
    required_inputs = frozenset({"graph", "features"})

    hidden: Count = 16
    weight_decay: NonNegative = 0.05

    def _fit(self, data: CalibrationData) -> None:
        probs = scaled_softmax(data.logits.to(torch.float64)).numpy()
        self.prototypes_, self.precision_ = features.fit_prototypes(
            features.feature_matrix(data), probs
        )
        raw = self._inputs(data)
        # Nodes without neighbours have no local similarity: they do not count for its mean.
        raw[:, np.isnan(raw).all(axis=0)] = 0.0
        self.centre_, spread = np.nanmean(raw, axis=0), np.nanstd(raw, axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        self.temperature_ = global_temperature(data.calibration_logits, data.calibration.y)[0]
        self._train(data, likelihood=scaled_nll(data.logits.to(torch.float64) / self.temperature_))

    def _temperatures(self, data: NodeInputs) -> Tensor:
        inverse: Tensor = self._trained(data)(torch.arange(data.num_nodes))
        return self.temperature_ / inverse

    def _built(self, data: NodeInputs) -> nn.Module:  # in float64, whatever the logits are
        return self._network(data)

    def _network(self, data: NodeInputs) -> nn.Module:
        inputs = np.nan_to_num((self._inputs(data) - self.centre_) / self.spread_)
        return Response(torch.from_numpy(inputs.clip(-FARTHEST, FARTHEST)), self.hidden)

    def _inputs(self, data: NodeInputs) -> Floats:
        """φ before standardisation; NaN where a node has no neighbours."""
        features.check_width(data, self.prototypes_.shape[1])
        found = features.distances(features.feature_matrix(data), self.prototypes_, self.precision_)
        away = torch.from_numpy(found)
        predicted = data.logits.argmax(dim=1, keepdim=True)
        own = away.gather(1, predicted)
        other = away.scatter(1, predicted, math.inf).amin(dim=1, keepdim=True)
        graph = data.neighbourhoods
        local = torch.stack([mean_support(data), log_relative_degree(graph)], dim=1)
        local[graph.degree == 0] = math.nan
        return torch.cat([own, other - own, local], dim=1).numpy()


class Response(nn.Module):
    """exp(−g(φ_i)): the inverse temperature of node i, relative to the common one."""

    def __init__(self, inputs: Tensor, hidden: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.first = nn.Linear(inputs.shape[1], hidden, dtype=inputs.dtype)
        self.last = nn.Linear(hidden, 1, dtype=inputs.dtype)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, index: Tensor) -> Tensor:
        """Relative inverse temperatures of the nodes ``index``."""
        g: Tensor = self.last(self.first(self.inputs[index]).tanh()).squeeze(1)
        return (-WIDEST * (g / WIDEST).tanh()).exp()


def log_relative_degree(graph: Graph) -> Tensor:
    """Log of the mean over neighbours j of √((d_i+1)/(d_j+1)); −inf without neighbours."""
    root = (graph.degree + 1).to(torch.float64).sqrt()
    total = root * row_sums(root.reciprocal()[graph.indices], graph.indptr)
    return (total / graph.degree.clamp(min=1)).log()
