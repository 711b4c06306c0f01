"""Calibration inside a PyTorch Geometric script: a model goes in, a calibrated model comes out.

The wrapper itself needs PyTorch alone; PyG is imported with the transforms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simi_mailbox._extras import late
from simi_mailbox.pyg.wrapper import CalibratedModel, calibrate

if TYPE_CHECKING:
    from simi_mailbox.pyg.transforms import CountNeighbours, WriteProbabilities

__all__ = ["CalibratedModel", "CountNeighbours", "WriteProbabilities", "calibrate"]

__getattr__, __dir__ = late(
    __name__, dict.fromkeys(("CountNeighbours", "WriteProbabilities"), "transforms")
)
