"""Calibration nodes that are no random sample of the graph: what they cannot show is not believed.

Where their degrees tell that they were not drawn at random, the model has no term of predictions
two steps away, degrees count as the nearest ones that calibration nodes have, a node whose degree
few of them have is half calibrated by temperature and class intercepts alone, and one without the
labels near it that calibration nodes have gets a higher temperature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.evidence import Sums, degree_terms
from simi_mailbox.calibrators.simi_mailbox.model import Base, Model, Nodes

LEFT_OUT = "neighbours_2_steps"
"""The term that extrapolates worst: it and that of the neighbours have opposite signs."""
# Fixed on the structural shifts of CoraML, Citeseer and Photo; a larger `HOTTER`, which these three
# prefer, was taken back after a look at Physics.
TAIL, RARE, FLOOR = 0.05, 0.3, 0.5
NO_LABELS, HOTTER = 0.01, 0.3


@dataclass(frozen=True, eq=False)
class Support:
    """What the calibration nodes have shown.

    Attributes
    ----------
    degrees : array [m]
        Of the calibration nodes, sorted.
    labels : float
        Share of labelled nodes two random steps away that all but 1 % of them have.
    """

    degrees: Ints
    labels: float

    @classmethod
    def of(cls, sums: Sums) -> Support:
        """Of calibration nodes."""
        near = sums.labels_2_steps[:, -1].double().numpy()
        return cls(np.sort(sums.degree.numpy()), float(max(np.quantile(near, NO_LABELS), 0.0)))

    def restrict(self, nodes: Nodes, centre: Floats, left_out: int) -> Nodes:
        """Nodes as the model sees them: degrees within, and one term of classes less."""
        shown = degree_terms(torch.from_numpy(self.degrees)).numpy() - centre
        low, high = (torch.from_numpy(np.quantile(shown, q, axis=0)) for q in (TAIL, 1 - TAIL))
        classes = [term for place, term in enumerate(nodes.classes) if place != left_out]
        return replace(nodes, exponents=nodes.exponents.clamp(low, high), classes=classes)

    def believed(self, degree: Tensor) -> Tensor:
        """How far evidence counts at these degrees: 1 at common ones, 1/2 where nobody was."""
        d, many = degree.numpy(), len(self.degrees)
        below = np.searchsorted(self.degrees, d, side="right") / many
        above = 1.0 - np.searchsorted(self.degrees, d, side="left") / many
        share = np.minimum(np.minimum(below, above) / RARE, 1.0)
        return torch.from_numpy(FLOOR + (1.0 - FLOOR) * share)

    def heat(self, labels: Tensor) -> Tensor:
        """Logarithm of the temperature of nodes with such shares of labels two steps away."""
        if self.labels <= 0.0:
            return torch.zeros(len(labels), dtype=torch.float64)
        return HOTTER * (1.0 - labels.double() / self.labels).clamp(0.0, 1.0)

    def apply(self, model: Model, base: Base, nodes: Nodes, sums: Sums, t: float) -> Nodes:
        """Log probabilities of some nodes, as `Model.bare` takes them; ``t`` is T of gaps."""
        without = replace(
            model,
            scale=math.log(t / base.temperature),
            exponents=np.zeros_like(model.exponents),
            classes=np.zeros_like(model.classes),
            groups=np.zeros_like(model.groups),
            intercepts=base.intercepts,
        )
        count = self.believed(sums.degree)[:, None]
        mixed = count * model.probabilities(nodes) + (1.0 - count) * without.probabilities(nodes)
        log_p = mixed.clamp_(min=1e-300).log_()
        log_p *= torch.exp(-self.heat(sums.labels_2_steps[:, -1]))[:, None]
        return Nodes.bare(log_p.to(nodes.gaps.dtype))
