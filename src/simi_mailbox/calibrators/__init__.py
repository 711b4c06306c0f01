"""Calibrators: one file per method, one contract (`base.Calibrator`), one registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simi_mailbox._extras import late
from simi_mailbox.calibrators.registry import METHODS, get, load, names, plug_in, register

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator, TemperatureCalibrator
    from simi_mailbox.calibrators.beta import BetaCalibration
    from simi_mailbox.calibrators.cagcn import CaGCN
    from simi_mailbox.calibrators.dcgc import DCGC
    from simi_mailbox.calibrators.dirichlet import Dirichlet
    from simi_mailbox.calibrators.ensemble_temperature import EnsembleTemperatureScaling
    from simi_mailbox.calibrators.gats import GATS
    from simi_mailbox.calibrators.gets import GETS
    from simi_mailbox.calibrators.group_calibration import GroupCalibration
    from simi_mailbox.calibrators.histogram import HistogramBinning
    from simi_mailbox.calibrators.isotonic import Isotonic
    from simi_mailbox.calibrators.lccal import LCCal
    from simi_mailbox.calibrators.platt import PlattScaling
    from simi_mailbox.calibrators.ratio_binned import RatioBinnedScaling
    from simi_mailbox.calibrators.simcalib import SimCalib
    from simi_mailbox.calibrators.simi_mailbox import (
        SimiMailbox,
        SimiMailboxFree,
        SimiMailboxPaper,
    )
    from simi_mailbox.calibrators.temperature import TemperatureScaling
    from simi_mailbox.calibrators.uncalibrated import Uncalibrated
    from simi_mailbox.calibrators.vector import VectorScaling
    from simi_mailbox.calibrators.wats import WATS

_HOMES = {title: module for module, title in (home.split(":") for home in METHODS.values())}
_HOMES |= dict.fromkeys(("Calibrator", "TemperatureCalibrator"), "base")

__all__ = [
    "DCGC",
    "GATS",
    "GETS",
    "WATS",
    "BetaCalibration",
    "CaGCN",
    "Calibrator",
    "Dirichlet",
    "EnsembleTemperatureScaling",
    "GroupCalibration",
    "HistogramBinning",
    "Isotonic",
    "LCCal",
    "PlattScaling",
    "RatioBinnedScaling",
    "SimCalib",
    "SimiMailbox",
    "SimiMailboxFree",
    "SimiMailboxPaper",
    "TemperatureCalibrator",
    "TemperatureScaling",
    "Uncalibrated",
    "VectorScaling",
    "get",
    "load",
    "names",
    "plug_in",
    "register",
]

__getattr__, __dir__ = late(__name__, _HOMES)
