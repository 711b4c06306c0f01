"""Temperatures from what neighbours say of the prediction: ratio-binned scaling (RBS), LCCal."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from simi_mailbox.calibrators.base import Shapes, TemperatureCalibrator
from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import row_sums
from simi_mailbox.parameters import Count, hyperparameters
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.sparse import Csr, products
from simi_mailbox.temperature import group_temperatures
from simi_mailbox.validation import CalibrationData, NodeInputs

# Of LCCal: what its constants are chosen from, and the least temperature, the released ``eps``.
THRESHOLDS = tuple(step / 20 for step in range(2, 19))
OFFSETS = (-0.4, -0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
LOWEST = 0.1


@hyperparameters
class RatioBinnedScaling(TemperatureCalibrator):
    """One temperature for each range of how much the neighbours support the prediction.

        s_i = mean over neighbours j of p_j[ŷ_i]        (1 for nodes without neighbours)
        q_i = softmax(z_i / T_b(i)),   b(i) the bin of s_i among ``bins`` equal ones on [0, 1]

    (RBS; Liu et al., IJCNN 2022.) Each T_b minimises the cross-entropy of the calibration nodes of
    its bin. The closest ancestor of Simi-Mailbox, which adds the confidence as a second coordinate.

    Parameters
    ----------
    bins : int
        The authors use 2 to 4, chosen for each graph and model.

    Attributes
    ----------
    temperatures_ : float64 array [bins]

    Notes
    -----
    Bins are (l, u]. Differs from the released code in the exact solver instead of BFGS, and in bins
    whose optimum does not exist (no node, or all right): they take the common temperature.

    Examples
    --------
    >>> given = {"graph": [[0, 2], [1, 3]], "mask": range(4)}
    >>> RatioBinnedScaling().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], **given).temperatures_.round(2)
    array([1.82, 1.82, 1.82])
    """

    name = "ratio-binned"
    fitted: ClassVar[Shapes] = {"temperatures_": ("bins",)}
    required_inputs = frozenset({"graph"})

    bins: Count = 3

    def _fit(self, data: CalibrationData) -> None:
        z, nodes = data.calibration_logits, data.calibration
        bins = self._bin(data)[nodes.index]
        self.temperatures_ = group_temperatures(z, nodes.y, bins, self.bins)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.from_numpy(self.temperatures_)[self._bin(data)]

    def _bin(self, data: NodeInputs) -> Tensor:
        edges = torch.arange(1, self.bins, dtype=torch.float64) / self.bins
        return torch.bucketize(mean_support(data), edges)


@hyperparameters
class LCCal(TemperatureCalibrator):
    """Closed-form temperatures from a node's and its neighbours' confidence in its prediction.

        l_i = ( c_i + mean over neighbours j of cos(p_i, p_j) p_j[ŷ_i] ) / 2
        T_i = exp(c_i − l_i) − 1 + over + c̄_over                     if l_i ≤ threshold
        T_i = (1 − c_i) (exp(−l_i) − 1) + under + c̄_under            otherwise

    and at least 0.1, where c̄ is the mean confidence of the nodes on that side (Seo et al., released
    as NeurIPS-2023-LCCal; an earlier work of the authors of Simi-Mailbox). T_i is not fitted to the
    logits: a model that is far over- or underconfident is beyond what the constants can mend.

    Parameters
    ----------
    threshold, over, under : float, optional
        Constants left out are chosen on the calibration nodes. Published: 0.35, 0.1, 0 (Cora, GAT).

    Attributes
    ----------
    threshold_, over_, under_, mean_over_, mean_under_ : float
        The constants in use, and c̄ of both sides over all nodes of ``fit``.

    Notes
    -----
    Differs from the released code in the choice of constants, by cross-entropy over a grid (there,
    validation ECE by hand), and in storing c̄: predictions do not depend on other nodes.

    Examples
    --------
    >>> z, given = [[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]], {"graph": [[0, 1], [1, 2]]}
    >>> cal = LCCal(threshold=0.6, over=0.1, under=0.0).fit(z, [0, 0, 0], mask=range(3), **given)
    >>> cal.node_temperatures(z, **given).round(3)
    array([0.811, 0.823, 1.51 ])
    """

    name = "lccal"
    fitted: ClassVar[Shapes] = {
        name: () for name in ("threshold_", "over_", "mean_over_", "under_", "mean_under_")
    }
    required_inputs = frozenset({"graph"})

    threshold: float | None = None
    over: float | None = None
    under: float | None = None

    def _fit(self, data: CalibrationData) -> None:
        conf, local = local_confidence(data)
        index, best = data.calibration.index, float("inf")
        z, y = data.calibration_logits.to(torch.float64), data.calibration.y
        for threshold in THRESHOLDS if self.threshold is None else (self.threshold,):
            low, total, chosen = local <= threshold, 0.0, []
            for side, given in ((low, self.over), (~low, self.under)):
                here = side[index]
                mean = float(conf[side].mean() if bool(side.any()) else conf.mean())
                term = closed_form(conf, local, threshold)[index[here]] + mean
                # Without evidence for any offset prefer T near the mean confidence.
                offsets = OFFSETS if bool(here.any()) else (0.0,)
                losses = {
                    offset: float(_cross_entropy(z[here], y[here], term + offset))
                    for offset in (offsets if given is None else (given,))
                }
                offset = min(losses, key=losses.__getitem__)
                total += losses[offset]
                chosen += [offset, mean]
            if total < best:
                best, self.threshold_ = total, threshold
                self.over_, self.mean_over_, self.under_, self.mean_under_ = chosen

    def _temperatures(self, data: NodeInputs) -> Tensor:
        conf, local = local_confidence(data)
        low = local <= self.threshold_
        constant = torch.where(low, self.over_ + self.mean_over_, self.under_ + self.mean_under_)
        return (closed_form(conf, local, self.threshold_) + constant).clamp(min=LOWEST)


def closed_form(conf: Tensor, local: Tensor, threshold: float) -> Tensor:
    """The part of T that does not depend on offsets and means."""
    above = (1 - conf) * torch.expm1(-local)
    return torch.where(local <= threshold, torch.expm1(conf - local), above)


def local_confidence(data: NodeInputs) -> tuple[Tensor, Tensor]:
    """Confidence c_i and local confidence l_i of every node."""
    graph = data.neighbourhoods
    probs = scaled_softmax(data.logits.to(torch.float64))
    conf, predicted = probs.amax(dim=1), data.logits.argmax(dim=1)
    around = support(probs, predicted, graph, cosine=True) / graph.degree.clamp(min=1)
    return conf, (conf + around) / 2


def _cross_entropy(z: Tensor, y: Tensor, temperatures: Tensor) -> Tensor:
    scaled = z / temperatures.clamp(min=LOWEST).unsqueeze(1)
    return F.cross_entropy(scaled, y, reduction="sum")


def mean_support(data: NodeInputs) -> Tensor:
    """s_i of `RatioBinnedScaling`, in float64."""
    graph = data.neighbourhoods
    probs = scaled_softmax(data.logits)
    total = support(probs, data.logits.argmax(dim=1), graph).to(torch.float64)
    return torch.where(graph.degree > 0, total / graph.degree.clamp(min=1), 1.0)


def support(probs: Tensor, predicted: Tensor, graph: Graph, *, cosine: bool = False) -> Tensor:
    """Σ over neighbours j of p_j[ŷ_i], times the similarity of p_i and p_j if ``cosine``."""
    rows = graph.rows()
    terms = probs[graph.indices, predicted[rows]]
    if cosine and graph.num_entries:
        direction = probs / probs.norm(dim=1, keepdim=True)
        terms = terms * products(Csr.of(graph), direction, direction)
    return row_sums(terms, graph.indptr)
