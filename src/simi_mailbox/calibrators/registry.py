"""Every calibrator is a string here, and nothing else about it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from simi_mailbox.suggestions import unknown

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator

    C = TypeVar("C", bound=type[Calibrator])

_CLASSES: dict[str, type[Calibrator]] = {}


def register(name: str) -> Callable[[C], C]:
    """Class decorator: make a calibrator known under ``name``."""

    def decorate(cls: C) -> C:
        if name in _CLASSES:
            raise ValueError(f"two calibrators are called {name!r}")
        cls.name = name
        _CLASSES[name] = cls
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
    return sorted(_CLASSES)


def get(name: str) -> type[Calibrator]:
    """Look a calibrator class up by its name.

    Examples
    --------
    >>> from simi_mailbox import calibrators
    >>> calibrators.get("temperature")()
    TemperatureScaling()
    """
    try:
        return _CLASSES[name]
    except KeyError:
        raise ValueError(unknown("calibrator", name, names())) from None
