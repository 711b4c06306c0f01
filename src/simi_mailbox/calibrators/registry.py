"""Every calibrator is a string here, and nothing else about it is."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from simi_mailbox import states
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE
from simi_mailbox.suggestions import unknown

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator

    C = TypeVar("C", bound=type[Calibrator])

KIND = states.Kind("calibrator", version=1)

METHODS = {
    "cagcn": "cagcn:CaGCN",
    "dcgc": "dcgc:DCGC",
    "dirichlet": "dirichlet:Dirichlet",
    "ensemble-temperature": "ensemble_temperature:EnsembleTemperatureScaling",
    "gats": "gats:GATS",
    "gets": "gets:GETS",
    "group-calibration": "group_calibration:GroupCalibration",
    "histogram": "histogram:HistogramBinning",
    "isotonic": "isotonic:Isotonic",
    "lccal": "lccal:LCCal",
    "ratio-binned": "ratio_binned:RatioBinnedScaling",
    "simcalib": "simcalib:SimCalib",
    "simi-mailbox": "simi_mailbox:SimiMailbox",
    "simi-mailbox-paper": "simi_mailbox_paper:SimiMailboxPaper",
    "temperature": "temperature:TemperatureScaling",
    "uncalibrated": "uncalibrated:Uncalibrated",
    "vector": "vector:VectorScaling",
    "wats": "wats:WATS",
}
"""Name, and the module beside this one that holds the class: loaded when it is asked for."""

RENAMED = {
    "groups": "n_groups",
    "intercept": "intercept_penalty",
    "lam": "penalty",
    "network_": "weights_",
    "off_diagonal": "penalty",
    "pseudo_labels": "prior_strength",
}
"""Names that older files use for parameters and fitted values."""

_FROM_OUTSIDE: dict[str, type[Calibrator]] = {}


def register(name: str) -> Callable[[C], C]:
    """Class decorator: make a calibrator from outside this package known under ``name``."""

    def decorate(cls: C) -> C:
        if name in names():
            raise ValueError(f"two calibrators are called {name!r}")
        cls.name = name
        _FROM_OUTSIDE[name] = cls
        return cls

    return decorate


def names() -> list[str]:
    """Names of all calibrators, sorted.

    Examples
    --------
    >>> from simi_mailbox import calibrators
    >>> "simi-mailbox" in calibrators.names()
    True
    """
    return sorted({**METHODS, **_FROM_OUTSIDE})


def get(name: str) -> type[Calibrator]:
    """Look a calibrator class up by its name.

    Examples
    --------
    >>> from simi_mailbox import calibrators
    >>> calibrators.get("temperature")()
    TemperatureScaling()
    """
    if name in METHODS:
        module, _, title = METHODS[name].partition(":")
        found: type[Calibrator] = getattr(importlib.import_module(f"{__package__}.{module}"), title)
        return found
    if name in _FROM_OUTSIDE:
        return _FROM_OUTSIDE[name]
    raise ValueError(unknown("calibrator", name, names()))


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator that ``save`` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, is no calibrator, or was written in a newer format.

    Examples
    --------
    >>> import numpy as np, tempfile, simi_mailbox
    >>> logits = np.random.default_rng(0).normal(size=(50, 3))
    >>> cal = simi_mailbox.TemperatureScaling().fit(logits, logits.argmax(1), mask=np.arange(50))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(f"{folder}/cal.safetensors")
    ...     again = simi_mailbox.load(f"{folder}/cal.safetensors")
    >>> bool((again.predict_proba(logits) == cal.predict_proba(logits)).all())
    True
    """
    name, *parts = states.load(path, KIND)
    params, state = ({RENAMED.get(key, key): part[key] for key in part} for part in parts)
    try:
        calibrator = get(name)(**params)
        calibrator._restore(state)
    except DAMAGE as error:
        raise FileFormatError(f"{path} does not describe a calibrator: {error}") from error
    return calibrator
