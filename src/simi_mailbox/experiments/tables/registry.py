"""All tables by name. Another module adds its own with `register`."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from simi_mailbox.experiments.tables.base import Table
from simi_mailbox.suggestions import unknown

_TABLES: dict[str, Table] = {}

# Modules that register tables when imported; one that is not there yet is passed over.
PROVIDERS = [
    "simi_mailbox.experiments.tables.paper",
    "simi_mailbox.experiments.tables.every_method",
    "simi_mailbox.experiments.tables.timing",
    "simi_mailbox.experiments.tables.builtin",
    "simi_mailbox.experiments.downstream",
]


def register(table: Table) -> Table:
    """Make a table known under its name."""
    if table.name in _TABLES:
        raise ValueError(f"two tables are called {table.name!r}")
    _TABLES[table.name] = table
    return table


def names() -> list[str]:
    """Names of all tables, in the order in which they were registered.

    Examples
    --------
    >>> "table1" in names()
    True
    """
    _load()
    return list(_TABLES)


def get(name: str) -> Table:
    """A table by its name; an unknown name lists the choices.

    Examples
    --------
    >>> get("table1").backbones
    ('gcn', 'gat')
    """
    _load()
    if name in _TABLES:
        return _TABLES[name]
    raise ValueError(unknown("table", name, _TABLES))


def _load(find: Callable[[str], object] = importlib.import_module) -> None:
    for provider in PROVIDERS:
        try:
            find(provider)
        except ModuleNotFoundError as error:
            if error.name != provider:
                raise
