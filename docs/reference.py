"""The API reference: one page for each room, made from the names that it offers."""

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
"""Rooms of one file, which offer these of their names."""


def rooms() -> list[str]:
    """Rooms that users import from, the root first."""
    return ["", *sorted(simi_mailbox._ROOMS)]


def names(room: str) -> list[str]:
    """What a room offers and no other room is the home of."""
    module = _module(room)
    offered = FEW_NAMES.get(room) or module.__all__
    # The root lends names from the rooms, for short imports; they are told of at home.
    homes = simi_mailbox._HOMES
    lent = {name for name in offered if room == "" and homes.get(name) in simi_mailbox._ROOMS}
    return sorted(name for name in offered if name not in lent and not name.startswith("__"))


def page(room: str) -> str:
    """The page of a room, in Markdown."""
    module = _module(room)
    lines = [f"# `{module.__name__}`", "", inspect.getdoc(module) or "", ""]
    lent = [name for name, home in simi_mailbox._HOMES.items() if home and room == ""]
    if lent:
        listed = ", ".join(f"`{name}`" for name in sorted(lent))
        lines += [f"Of the rooms below, these can be imported from here: {listed}.", ""]
    for name in names(room):
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
    room, _, name = path.rpartition(".")
    text = told(sys.modules[room], name)
    return [f".. py:data:: {path}", "", *(f"   {line}" for line in text.splitlines())]


def index() -> str:
    """The page that leads to all rooms."""
    files = "\n".join(_module(room).__name__ for room in rooms())
    lines = ["# API reference", "", "Generated from the names that each room offers.", ""]
    return "\n".join([*lines, "```{toctree}", files, "```", ""])


def pages() -> dict[str, str]:
    """File name -> text, of the whole reference."""
    made = {f"{_module(room).__name__}.md": page(room) for room in rooms()}
    return {"index.md": index(), **made}


def _module(room: str) -> ModuleType:
    return importlib.import_module(f"simi_mailbox.{room}".rstrip("."))
