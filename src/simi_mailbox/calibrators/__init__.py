"""Calibrators: one file per method, one contract (`base.Calibrator`), one registry."""

from simi_mailbox.calibrators.base import Calibrator, TemperatureCalibrator
from simi_mailbox.calibrators.io import load
from simi_mailbox.calibrators.registry import get, names, register
from simi_mailbox.calibrators.simi_mailbox import SimiMailbox
from simi_mailbox.calibrators.simi_mailbox_paper import SimiMailboxPaper
from simi_mailbox.calibrators.temperature import TemperatureScaling
from simi_mailbox.calibrators.uncalibrated import Uncalibrated

__all__ = [
    "Calibrator",
    "SimiMailbox",
    "SimiMailboxPaper",
    "TemperatureCalibrator",
    "TemperatureScaling",
    "Uncalibrated",
    "get",
    "load",
    "names",
    "register",
]
