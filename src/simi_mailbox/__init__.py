"""Calibrated node probabilities for graph neural networks.

Names are imported when they are first used: ``import simi_mailbox`` itself is light, and PyTorch
is loaded when work begins.

>>> import simi_mailbox
>>> cal = simi_mailbox.SimiMailbox()
>>> # cal.fit(logits, y, graph=edge_index, mask=val_mask).predict_proba(logits, graph=edge_index)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simi_mailbox._extras import late
from simi_mailbox.exceptions import (
    CalibrationWarning,
    FileFormatError,
    NotFittedError,
    SolverError,
)

if TYPE_CHECKING:
    from simi_mailbox import analysis as analysis
    from simi_mailbox import audit as audit
    from simi_mailbox import calibrators as calibrators
    from simi_mailbox import decide as decide
    from simi_mailbox import metrics as metrics
    from simi_mailbox import plots as plots
    from simi_mailbox import pyg as pyg
    from simi_mailbox import report as report
    from simi_mailbox import synthetic as synthetic
    from simi_mailbox import testing as testing
    from simi_mailbox.calibrators import (
        Calibrator,
        SimiMailbox,
        SimiMailboxPaper,
        TemperatureScaling,
        load,
    )
    from simi_mailbox.calibrators.simi_mailbox import prior as prior
    from simi_mailbox.graph import Graph
    from simi_mailbox.selection import select

__version__ = "0.1.0"

_PACKAGES = (
    *("analysis", "audit", "calibrators", "decide", "metrics", "monitor", "plots", "pyg"),
    *("report", "scale", "synthetic", "testing"),
)
"""Subpackages that are attributes without an import of their own: ``simi_mailbox.metrics``."""

_CALIBRATORS = ("Calibrator", "SimiMailbox", "SimiMailboxPaper", "TemperatureScaling", "load")
_HOMES = {
    "Graph": "graph",
    "prior": "calibrators.simi_mailbox",
    "select": "selection",
    **dict.fromkeys(_CALIBRATORS, "calibrators"),
    **dict.fromkeys(_PACKAGES, ""),
}
"""Name -> the module it is imported from when it is first used."""

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
    "select",
]


__getattr__, __dir__ = late(__name__, _HOMES)
