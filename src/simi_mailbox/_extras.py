"""Late imports of optional dependencies, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, *, extra: str) -> Any:
    """Import ``module``, or say which extra of this package brings it.

    Examples
    --------
    >>> require("math", extra="plot").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != top:
            raise
        raise ModuleNotFoundError(
            f"this needs {top!r}, which is not installed; "
            f"install it with: pip install 'simi-mailbox[{extra}]'",
            name=error.name,
        ) from error
