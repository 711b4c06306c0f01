"""Every calibrator is a string here, and nothing else about it is."""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.plain_text import unknown

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator

METHODS = {
    "beta": "logistic:BetaCalibration",
    "cagcn": "cagcn:CaGCN",
    "dcgc": "dcgc:DCGC",
    "dirichlet": "logistic:Dirichlet",
    "ensemble-temperature": "temperature:EnsembleTemperatureScaling",
    "gats": "gats:GATS",
    "gets": "gets:GETS",
    "group-calibration": "group_calibration:GroupCalibration",
    "histogram": "binning:HistogramBinning",
    "isotonic": "binning:Isotonic",
    "lccal": "neighbours:LCCal",
    "platt": "logistic:PlattScaling",
    "ratio-binned": "neighbours:RatioBinnedScaling",
    "simcalib": "simcalib:SimCalib",
    "simi-mailbox": "simi_mailbox:SimiMailbox",
    "simi-mailbox-free": "simi_mailbox:SimiMailboxFree",
    "simi-mailbox-paper": "simi_mailbox:SimiMailboxPaper",
    "temperature": "temperature:TemperatureScaling",
    "uncalibrated": "temperature:Uncalibrated",
    "vector": "logistic:VectorScaling",
    "wats": "wats:WATS",
}
"""Name, and the module beside this one that holds the class: loaded when it is asked for."""

GROUP = "simi_mailbox.calibrators"
"""Entry points under which installed packages offer calibrators: ``name = "module:Class"``."""

_FROM_OUTSIDE: dict[str, type[Calibrator]] = {}


def forget(name: str) -> None:
    """Undo `plug_in`."""
    _FROM_OUTSIDE.pop(name, None)


def plug_in(target: str | type[Calibrator]) -> type[Calibrator]:
    """Make a class, or the one at ``"module:Class"``, known under its own name.

    >>> from simi_mailbox.calibrators import Uncalibrated, get
    >>> Mine = plug_in(type("Mine", (Uncalibrated,), {"name": "as-it-is"}))
    >>> get("as-it-is") is Mine
    True
    >>> forget("as-it-is")
    """
    try:
        found: Any = target
        if isinstance(target, str):
            module, _, title = target.partition(":")
            if not (module and title):
                raise LookupError("it names no class; expected module:Class")
            found = getattr(importlib.import_module(module), title)
        cls = _accepted(found, getattr(found, "name", ""))
    except Exception as error:
        raise ValueError(_trouble(str(target), error)) from error
    _FROM_OUTSIDE[cls.name] = cls
    return cls


def from_outside() -> dict[str, type[Calibrator]]:
    """Calibrators that are not of this package, by name."""
    offered = {name: cls for name, cls in _offered().items() if not isinstance(cls, str)}
    return {**offered, **_FROM_OUTSIDE}


def names() -> list[str]:
    """Names of all calibrators, those of installed plug-ins included, sorted.

    >>> "simi-mailbox" in names()
    True
    """
    return sorted({*METHODS, *from_outside()})


def get(name: str) -> type[Calibrator]:
    """Look a calibrator class up by its name.

    >>> get("temperature")()
    TemperatureScaling()
    """
    if name in METHODS:
        module, _, title = METHODS[name].partition(":")
        found: type[Calibrator] = getattr(importlib.import_module(f"{__package__}.{module}"), title)
        return found
    outside = {**_offered(), **_FROM_OUTSIDE}.get(name, unknown("calibrator", name, names()))
    if isinstance(outside, str):
        raise ValueError(outside)
    return outside


@functools.cache
def _offered() -> dict[str, type[Calibrator] | str]:
    """What installed packages offer, read once; instead of a class, why it cannot be used."""
    offered: dict[str, type[Calibrator] | str] = {}
    for point in entry_points(group=GROUP):
        try:
            offered[point.name] = _accepted(point.load(), point.name)
        except Exception as error:  # whatever a stranger's module does, the others go on
            trouble = _trouble(f"{point.name!r} ({point.value})", error)
            offered.setdefault(point.name, trouble)
            warnings.warn(trouble, RuntimeWarning, stacklevel=2)
    return offered


def _accepted(found: Any, name: str) -> type[Calibrator]:
    """The class, if it may be known under ``name``."""
    from simi_mailbox.calibrators.base import Calibrator

    if not (isinstance(found, type) and issubclass(found, Calibrator)):
        raise TypeError("it is no Calibrator")
    if not found.name or found.name != name:
        raise ValueError(f"its class has the name {found.name!r}, expected {name or 'one'!r}")
    if name in METHODS or _FROM_OUTSIDE.get(name, found) is not found:
        raise ValueError(f"two calibrators are called {name!r}")
    return found


def _trouble(plug_in: str, error: Exception) -> str:
    return f"the plug-in {plug_in} cannot be used: {type(error).__name__}: {error}"


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator that ``save`` wrote; `FileFormatError` if the file is damaged or newer.

    >>> import simi_mailbox, tempfile
    >>> cal = simi_mailbox.TemperatureScaling().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], mask=range(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(f"{folder}/cal.safetensors")
    ...     again = simi_mailbox.load(f"{folder}/cal.safetensors")
    >>> again.temperature_ == cal.temperature_
    True
    """
    from simi_mailbox import parameters
    from simi_mailbox.calibrators.base import Calibrator
    from simi_mailbox.files import DAMAGE

    name, params, state = parameters.load(path, Calibrator.kind)
    try:
        calibrator = get(name)(**params)
        calibrator._restore(state)
    except DAMAGE as error:
        raise FileFormatError(f"{path} does not describe a calibrator: {error}") from error
    return calibrator
