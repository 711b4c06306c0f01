"""What the readings of Simi-Mailbox share: groups of nodes, one temperature each."""

from __future__ import annotations

import warnings
from typing import ClassVar

import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.base import TemperatureCalibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Grouping, Scaling, find_groups
from simi_mailbox.inputs import CalibrationData, NodeInputs
from simi_mailbox.mailbox import mailbox
from simi_mailbox.softmax import confidence


class GroupedTemperature(TemperatureCalibrator):
    """Nodes are grouped by (confidence, mailbox); T_i is the temperature of the node's group.

    Attributes
    ----------
    temperatures_ : array [groups]
    groups_ : array [n]
        Group of every node that ``fit`` saw.
    centroids_, shift_, scale_ : arrays
        What assigns unseen nodes: see `simi_mailbox.grouping.Grouping`.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"graph"})

    n_groups: int
    scaling: Scaling
    seed: int

    temperatures_: Floats
    groups_: Ints
    centroids_: Floats
    shift_: Floats
    scale_: Floats

    @property
    def grouping_(self) -> Grouping:
        """The fitted scaling and centroids."""
        return Grouping(self.shift_, self.scale_, self.centroids_)

    def _check_params(self) -> None:
        if self.n_groups < 1:
            raise ValueError(f"n_groups must be at least 1, got {self.n_groups}")

    def _make_groups(self, data: CalibrationData) -> Floats:
        """Group all nodes (no label is read); returns their points (confidence, mailbox)."""
        wanted, labelled = self.n_groups, len(data.calibration)
        if labelled < wanted:
            warnings.warn(
                f"{labelled} calibration nodes cannot support {wanted} groups: "
                "falling back to one temperature for all nodes",
                CalibrationWarning,
                stacklevel=4,
            )
            wanted = 1
        points = self._points(data)
        grouping = find_groups(points, wanted, scaling=self.scaling, seed=self.seed)
        self.shift_, self.scale_ = grouping.shift, grouping.scale
        self.centroids_ = grouping.centroids
        self.groups_ = grouping.assign(points)
        return points

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.from_numpy(self.temperatures_[self._assign(data)])

    def _assign(self, data: NodeInputs) -> Ints:
        return self.grouping_.assign(self._points(data))

    def _points(self, data: NodeInputs) -> Floats:
        """What nodes are grouped by, before scaling: (confidence, mailbox)."""
        return node_points(data)


def node_points(data: NodeInputs) -> Floats:
    """(confidence, mailbox) of every node, before scaling."""
    similarity = mailbox(data.logits, data.neighbourhoods).double()
    return torch.stack([confidence(data.logits), similarity], dim=1).numpy()
