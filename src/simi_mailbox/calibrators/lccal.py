"""LCCal: temperatures in closed form from local confidence."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from simi_mailbox.calibrators.base import TemperatureCalibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes
from simi_mailbox.mailbox import support
from simi_mailbox.parameters import hyperparameters
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.validation import CalibrationData, NodeInputs

THRESHOLDS = tuple(step / 20 for step in range(2, 19))
OFFSETS = (-0.4, -0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
LOWEST = 0.1
"""Temperatures are never below this (the released code's ``eps``)."""


@hyperparameters
class LCCal(TemperatureCalibrator):
    """Closed-form temperatures from a node's and its neighbours' confidence in its prediction.

        l_i = ( c_i + mean over neighbours j of cos(p_i, p_j) p_j[ŷ_i] ) / 2
        T_i = exp(c_i − l_i) − 1 + over + c̄_over                     if l_i ≤ threshold
        T_i = (1 − c_i) (exp(−l_i) − 1) + under + c̄_under            otherwise

    and at least 0.1, where c̄ is the mean confidence of the nodes on that side (Seo et al., released
    as NeurIPS-2023-LCCal; an earlier work of the authors of Simi-Mailbox).

    T_i is made of confidences, not fitted to the logits: the result depends on their size, and a
    model that is far over- or underconfident is beyond what the constants can mend (Cora's
    test ECE of 2 to 5 % becomes 7 to 31 with logits × 0.1, and 13 to 17 with × 100). A constant
    added to a node's logits changes nothing, so log-probabilities are as good.

    Parameters
    ----------
    threshold, over, under : float, optional
        Constants left out are chosen on the calibration nodes. The one published setting, for Cora
        and GAT, is 0.35, 0.1 and 0.

    Attributes
    ----------
    threshold_, over_, under_ : float
        The constants in use.
    mean_over_, mean_under_ : float
        c̄ of the two sides, over all nodes that ``fit`` saw (all nodes, if a side is empty).

    Notes
    -----
    Differs from the released code in sampling the similarities on the edges instead of building
    the dense matrix of all pairs; in the choice of the constants, by cross-entropy over a grid that
    contains its defaults (1, 1, 0.4), where the authors searched the validation ECE by hand; and in
    storing c̄, so that a prediction does not depend on the other nodes it is made with. A node
    without neighbours has a neighbour mean of 0, as there. ``early_stopping_mask`` is not used.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    >>> path = np.array([[0, 1], [1, 2]])
    >>> cal = LCCal(threshold=0.6, over=0.1, under=0.0)
    >>> cal.fit(z, [0, 0, 0], graph=path, mask=[0, 1, 2]).node_temperatures(z, graph=path).round(3)
    array([0.811, 0.823, 1.51 ])
    """

    name: ClassVar[str] = "lccal"
    fitted: ClassVar[Shapes] = dict.fromkeys(
        ("threshold_", "over_", "mean_over_", "under_", "mean_under_"), ()
    )
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})

    threshold: float | None = None
    over: float | None = None
    under: float | None = None

    def _fit(self, data: CalibrationData) -> None:
        conf, local = local_confidence(data)
        index, best = data.calibration.index, float("inf")
        thresholds = THRESHOLDS if self.threshold is None else (self.threshold,)
        for threshold in thresholds:
            low = local <= threshold
            total, chosen = 0.0, []
            for side, given in ((low, self.over), (~low, self.under)):
                mean = float(conf[side].mean() if bool(side.any()) else conf.mean())
                here = side[index]
                term = closed_form(conf, local, threshold)[index[here]] + mean
                z, y = data.calibration_logits[here], data.calibration.y[here]
                loss, offset = _best_offset(z, y, term, OFFSETS if given is None else (given,))
                total += loss
                chosen += [offset, mean]
            if total < best:
                best = total
                self.threshold_ = threshold
                self.over_, self.mean_over_, self.under_, self.mean_under_ = chosen

    def _temperatures(self, data: NodeInputs) -> Tensor:
        conf, local = local_confidence(data)
        low = local <= self.threshold_
        constant = torch.where(low, self.over_ + self.mean_over_, self.under_ + self.mean_under_)
        return (closed_form(conf, local, self.threshold_) + constant).clamp(min=LOWEST)


def closed_form(conf: Tensor, local: Tensor, threshold: float) -> Tensor:
    """The part of T that does not depend on offsets and means."""
    return torch.where(
        local <= threshold, torch.expm1(conf - local), (1 - conf) * torch.expm1(-local)
    )


def local_confidence(data: NodeInputs) -> tuple[Tensor, Tensor]:
    """Confidence c_i and local confidence l_i of every node."""
    graph = data.neighbourhoods
    probs = scaled_softmax(data.logits.to(torch.float64))
    conf, predicted = probs.amax(dim=1), data.logits.argmax(dim=1)
    around = support(probs, predicted, graph, cosine=True) / graph.degree.clamp(min=1)
    return conf, (conf + around) / 2


def _best_offset(
    z: Tensor, y: Tensor, term: Tensor, offsets: tuple[float, ...]
) -> tuple[float, float]:
    """Least summed cross-entropy of softmax(z / (term + offset)), and the offset that has it."""
    if len(y) == 0:
        # No evidence for any offset: prefer T near the mean confidence.
        return 0.0, 0.0 if len(offsets) > 1 else offsets[0]

    def loss(offset: float) -> float:
        scaled = z.to(torch.float64) / (term + offset).clamp(min=LOWEST).unsqueeze(1)
        return float(F.cross_entropy(scaled, y, reduction="sum"))

    losses = [loss(offset) for offset in offsets]
    best = min(range(len(offsets)), key=losses.__getitem__)
    return losses[best], offsets[best]
