"""Calibrated node probabilities for graph neural networks.

Names are imported when they are first used: ``import simi_mailbox`` itself is light, and PyTorch
is loaded when work begins.

>>> import simi_mailbox
>>> cal = simi_mailbox.SimiMailbox()
>>> # cal.fit(logits, y, graph=edge_index, mask=val_mask).predict_proba(logits, graph=edge_index)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from simi_mailbox.exceptions import (
    CalibrationWarning,
    FileFormatError,
    NotFittedError,
    SolverError,
)

if TYPE_CHECKING:
    from simi_mailbox.calibrators import (
        Calibrator,
        SimiMailbox,
        SimiMailboxPaper,
        TemperatureScaling,
        load,
    )
    from simi_mailbox.graph import Graph
    from simi_mailbox.selection import select

__version__ = "0.1.0"

_HOMES = {
    "Calibrator": "calibrators",
    "Graph": "graph",
    "SimiMailbox": "calibrators",
    "SimiMailboxPaper": "calibrators",
    "TemperatureScaling": "calibrators",
    "load": "calibrators",
    "select": "selection",
}
"""Name -> the room it is imported from when it is first used."""

_ROOMS = (
    *("analysis", "audit", "calibrators", "data", "decide", "metrics", "models", "ood", "plots"),
    *("prior", "pyg", "report", "selftraining", "testing"),
)
"""Rooms that are there as attributes without an import of their own: ``simi_mailbox.metrics``."""

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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})
