"""Calibrated node probabilities for graph neural networks.

>>> import simi_mailbox
>>> cal = simi_mailbox.SimiMailbox()
>>> # cal.fit(logits, y, graph=edge_index, mask=val_mask).predict_proba(logits, graph=edge_index)
"""

from simi_mailbox._sparse import silence_beta_notice
from simi_mailbox.calibrators import (
    Calibrator,
    SimiMailbox,
    SimiMailboxPaper,
    TemperatureScaling,
    load,
)
from simi_mailbox.exceptions import (
    CalibrationWarning,
    FileFormatError,
    NotFittedError,
    SolverError,
)
from simi_mailbox.graph import Graph

silence_beta_notice()

__version__ = "0.1.0"

__all__ = [
    "CalibrationWarning",
    "Calibrator",
    "FileFormatError",
    "Graph",
    "NotFittedError",
    "SimiMailbox",
    "SimiMailboxPaper",
    "SolverError",
    "TemperatureScaling",
    "__version__",
    "load",
]
