"""Late imports: of names when they are first used, of extras when they are needed."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def late(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """``__getattr__`` and ``__dir__`` of a package that imports its names late."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{homes[name] or name}")
        value = getattr(module, name) if homes[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *homes})


def require(module: str, *, extra: str) -> Any:
    """Import ``module``, or say which extra of this package brings it."""
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
