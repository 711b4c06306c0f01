"""The released code's reading of Simi-Mailbox, which reads test labels.

The paper says that a group's target is the accuracy of its *validation* nodes. The authors' code
averages over *all* nodes of the group, test nodes included. This class does what the code does, to
show where the printed numbers come from. It is not in the registry, it cannot be had through
`calibrators.get`, and every table marks it: it is no method that anybody could use.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch

from simi_mailbox.calibrators.simi_mailbox.paper import SimiMailboxPaper
from simi_mailbox.grouping import Scaling
from simi_mailbox.validation import CalibrationData

ORACLE = "simi-mailbox-oracle"


class SimiMailboxOracle(SimiMailboxPaper):
    """Simi-Mailbox with each group's accuracy taken over all its nodes: reads test labels.

    The loss is the paper's, CE(validation) + λ Σ_n (a_n − mean confidence of group n)², with a_n
    over every labelled node of the group. It is solved exactly instead of by Adam.

    Where a group has no validation node the released code sets a_n to 0, which pushes that group's
    temperature up for as long as Adam runs; solved exactly that would be the uniform distribution.
    Here such a group has the accuracy of all its nodes as its target, like the others.
    """

    name: ClassVar[str] = ORACLE
    reads_test_labels: ClassVar[bool] = True

    def __init__(
        self,
        *,
        n_groups: int = 15,
        penalty: float = 50.0,
        scaling: Scaling = "min-max",
        seed: int = 0,
    ) -> None:
        self.n_groups = n_groups
        self.penalty = penalty
        self.scaling = scaling
        self.seed = seed
        self.solver: Literal["exact", "adam"] = "exact"

    def _target_accuracy(self, data: CalibrationData) -> npt.NDArray[np.float64]:
        """Accuracy of all labelled nodes of every group: this is the leak."""
        if data.holdout is None:
            raise ValueError(
                "the oracle reads all labels: pass all other nodes as early_stopping_mask"
            )
        n = len(self.centroids_)
        index = torch.cat([data.calibration.index, data.holdout.index])
        y = torch.cat([data.calibration.y, data.holdout.y])
        right = (data.logits[index].argmax(dim=1) == y).numpy()
        group = self.groups_[index.numpy()]
        counts = np.bincount(group, minlength=n)
        hits = np.bincount(group, right, minlength=n)
        return np.where(counts > 0, hits / np.maximum(counts, 1), np.nan)
