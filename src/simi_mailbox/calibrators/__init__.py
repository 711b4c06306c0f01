"""Calibrators: a file per method and its close relatives, one contract, one registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simi_mailbox._extras import late
from simi_mailbox.calibrators.registry import METHODS, get, load, names, plug_in

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator as Calibrator
    from simi_mailbox.calibrators.base import TemperatureCalibrator as TemperatureCalibrator
    from simi_mailbox.calibrators.binning import HistogramBinning as HistogramBinning
    from simi_mailbox.calibrators.binning import Isotonic as Isotonic
    from simi_mailbox.calibrators.cagcn import CaGCN as CaGCN
    from simi_mailbox.calibrators.dcgc import DCGC as DCGC
    from simi_mailbox.calibrators.gats import GATS as GATS
    from simi_mailbox.calibrators.gets import GETS as GETS
    from simi_mailbox.calibrators.group_calibration import GroupCalibration as GroupCalibration
    from simi_mailbox.calibrators.logistic import BetaCalibration as BetaCalibration
    from simi_mailbox.calibrators.logistic import Dirichlet as Dirichlet
    from simi_mailbox.calibrators.logistic import PlattScaling as PlattScaling
    from simi_mailbox.calibrators.logistic import VectorScaling as VectorScaling
    from simi_mailbox.calibrators.neighbours import LCCal as LCCal
    from simi_mailbox.calibrators.neighbours import RatioBinnedScaling as RatioBinnedScaling
    from simi_mailbox.calibrators.simcalib import SimCalib as SimCalib
    from simi_mailbox.calibrators.simi_mailbox import SimiMailbox as SimiMailbox
    from simi_mailbox.calibrators.simi_mailbox import SimiMailboxFree as SimiMailboxFree
    from simi_mailbox.calibrators.simi_mailbox import SimiMailboxPaper as SimiMailboxPaper
    from simi_mailbox.calibrators.temperature import (
        EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    )
    from simi_mailbox.calibrators.temperature import TemperatureScaling as TemperatureScaling
    from simi_mailbox.calibrators.temperature import Uncalibrated as Uncalibrated
    from simi_mailbox.calibrators.wats import WATS as WATS


_HOMES = {title: module for module, title in (home.split(":") for home in METHODS.values())}
_HOMES |= dict.fromkeys(("Calibrator", "TemperatureCalibrator"), "base")

__all__ = [*_HOMES, "get", "load", "names", "plug_in"]

__getattr__, __dir__ = late(__name__, _HOMES)
