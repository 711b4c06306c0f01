"""Calibration inside a PyTorch Geometric script: a model goes in, a calibrated model comes out.

The wrapper itself needs PyTorch alone; PyG is imported with the transforms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from simi_mailbox.pyg.wrapper import CalibratedModel, calibrate

if TYPE_CHECKING:
    from simi_mailbox.pyg.transforms import CountNeighbours, WriteProbabilities

__all__ = ["CalibratedModel", "CountNeighbours", "WriteProbabilities", "calibrate"]


def __getattr__(name: str) -> Any:
    if name in ("CountNeighbours", "WriteProbabilities"):
        return getattr(importlib.import_module("simi_mailbox.pyg.transforms"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
