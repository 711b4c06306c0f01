"""The API reference: one page for each package, made from the names that it offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import sys
from types import ModuleType

import simi_mailbox

ROOT = "simi_mailbox."
FEW_NAMES = {"audit": ("reads_only", "Audit")}
"""Packages of one file, which offer these of their names."""


def packages() -> list[str]:
    """Packages that users import from, the root first."""
    return ["", *sorted(simi_mailbox._PACKAGES)]


def names(package: str) -> list[str]:
    """What a package offers and no other package is the home of."""
    module = _module(package)
    offered = FEW_NAMES.get(package) or module.__all__
    # The root lends names from the packages, for short imports; they are told of at home.
    homes = simi_mailbox._HOMES
    lent = {name for name in offered if package == "" and homes.get(name) in simi_mailbox._PACKAGES}
    return sorted(name for name in offered if name not in lent and not name.startswith("__"))


def page(package: str) -> str:
    """The page of a package, in Markdown."""
    module = _module(package)
    lines = [f"# `{module.__name__}`", "", inspect.getdoc(module) or "", ""]
    lent = [name for name, home in simi_mailbox._HOMES.items() if home and package == ""]
    if lent:
        listed = ", ".join(f"`{name}`" for name in sorted(lent))
        lines += [f"Of the packages below, these can be imported from here: {listed}.", ""]
    for name in names(package):
        lines += ["```{eval-rst}", *_entry(f"{module.__name__}.{name}", getattr(module, name))]
        lines += ["```", ""]
    return "\n".join(lines)


def told(module: ModuleType, name: str) -> str:
    """The text under a constant or an alias, which Python itself does not keep."""
    for other in [module, *(m for key, m in sys.modules.items() if key.startswith(ROOT))]:
        body = ast.parse(inspect.getsource(other)).body
        for before, after in itertools.pairwise(body):
            target = getattr(before, "target", None) or (getattr(before, "targets", [None])[0])
            if getattr(target, "id", None) == name and isinstance(after, ast.Expr):
                return inspect.cleandoc(after.value.value)  # type: ignore[attr-defined]
    return ""


def _entry(path: str, value: object) -> list[str]:
    """What asks Sphinx for one name."""
    if isinstance(value, ModuleType):
        return [f".. automodule:: {path}", "   :members:"]
    if inspect.isclass(value):
        # What it inherits is told where it is defined: `Calibrator.fit` once, not per method.
        return [f".. autoclass:: {path}", "   :members:", "   :show-inheritance:"]
    if inspect.isroutine(value):
        return [f".. autofunction:: {path}"]
    package, _, name = path.rpartition(".")
    text = told(sys.modules[package], name)
    return [f".. py:data:: {path}", "", *(f"   {line}" for line in text.splitlines())]


def index() -> str:
    """The page that leads to all packages."""
    files = "\n".join(_module(package).__name__ for package in packages())
    lines = ["# API reference", "", "Generated from the names that each package offers.", ""]
    return "\n".join([*lines, "```{toctree}", files, "```", ""])


def pages() -> dict[str, str]:
    """File name -> text, of the whole reference."""
    made = {f"{_module(package).__name__}.md": page(package) for package in packages()}
    return {"index.md": index(), **made}


def _module(package: str) -> ModuleType:
    return importlib.import_module(f"simi_mailbox.{package}".rstrip("."))
