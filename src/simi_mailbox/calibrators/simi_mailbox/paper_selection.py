"""How `SimiMailboxPaper` chooses: groupings to try, and the ECE that a choice is judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.adam import Tabulated
from simi_mailbox.grouping import Grouping
from simi_mailbox.metrics.calibration_error import bin_outcomes
from simi_mailbox.softmax import top_gaps
from simi_mailbox.temperature import ConfidenceCurve, CrossEntropy, Curve, PaperLoss
from simi_mailbox.validation import Labelled


def group_accuracy(logits: Tensor, labelled: Labelled, groups: Tensor, n_groups: int) -> Floats:
    """Share of the labelled nodes of every group that are predicted right; NaN without any."""
    right = (logits[labelled.index].argmax(dim=1) == labelled.y).double().numpy()
    group = groups[labelled.index].numpy()
    counts = np.bincount(group, minlength=n_groups)
    hits = np.bincount(group, right, minlength=n_groups)
    return np.where(counts > 0, hits / np.maximum(counts, 1), np.nan)


class Trial:
    """Nodes in groups, and the loss as a function of the groups' temperatures.

    ``tabulated`` keeps what was computed, for a solver that asks thousands of times.
    """

    def __init__(
        self, logits: Tensor, grouping: Grouping, groups: Tensor, *, tabulated: bool
    ) -> None:
        self.logits, self.grouping, self.groups = logits, grouping, groups
        self.n_groups = len(grouping.centroids)
        self._kept: Callable[[Curve], Curve] = Tabulated if tabulated else lambda curve: curve
        self._curve = self._kept(ConfidenceCurve(logits, groups, self.n_groups))

    def loss_on(self, labelled: Labelled, penalties: Sequence[float]) -> PaperLoss:
        """The loss on some labelled nodes, for some weights λ."""
        z, group = self.logits[labelled.index], self.groups[labelled.index]
        ce = self._kept(CrossEntropy(z, labelled.y, group, self.n_groups))
        accuracy = group_accuracy(self.logits, labelled, self.groups, self.n_groups)
        return PaperLoss(self._curve, ce, accuracy, penalties)


class Judge:
    """ECE of some nodes under the temperatures of a fit on others: one or more pairs of these.

    ``pairs`` are (fitted on, judged on); all judged nodes are put into the same bins. With
    ``bins`` zero nothing is judged.
    """

    def __init__(self, pairs: Sequence[tuple[Labelled, Labelled]], bins: int) -> None:
        self.fitted, self._judged = zip(*pairs, strict=True)
        self._bins = bins

    def on(self, trial: Trial) -> Callable[[Sequence[Floats]], Floats]:
        """Temperatures [weights, groups] of all fits -> ECE of every weight."""
        if not self._bins:
            return lambda found: np.zeros(len(found[0]))
        index = torch.cat([part.index for part in self._judged])
        y = torch.cat([part.y for part in self._judged])
        z = trial.logits[index]
        gaps, right = top_gaps(z).numpy(), (z.argmax(dim=1) == y).double().numpy()
        sizes = [len(part) for part in self._judged]
        fit = np.repeat(np.arange(len(sizes)), sizes)
        place = fit * trial.n_groups + trial.groups[index].numpy()

        def ece(temperatures: Sequence[Floats]) -> Floats:
            each = np.concatenate(temperatures, axis=1)[:, place]
            # Rounded: rounding errors must not choose between epochs.
            return np.array([_ece(gaps, row, right, self._bins) for row in each]).round(12)

        return ece


def _ece(gaps: Floats, temperature: Floats, right: Floats, bins: int) -> float:
    confidence: Floats = 1.0 / np.exp(gaps / temperature[:, None]).sum(axis=1)
    return bin_outcomes(confidence, right, bins).ece


def lowest(
    path: Iterable[Sequence[Floats]], ece: Callable[[Sequence[Floats]], Floats], patience: int
) -> tuple[Floats, Ints]:
    """Lowest ECE of every weight along a path, and its epoch (the last of equals).

    The search of a weight ends after ``patience`` epochs without an equal or better one.
    """
    least, best, searched = np.array(np.inf), np.array(0), np.array(True)
    for epoch, temperatures in enumerate(path, start=1):
        found = ece(temperatures)
        better = searched & (found <= least)
        least, best = np.where(better, found, least), np.where(better, epoch, best)
        searched = searched & (epoch - best < patience)
        if not searched.any():
            break
    return least, best
