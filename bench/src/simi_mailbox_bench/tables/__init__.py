"""Tables of the paper and of our own: what each shows, the work behind it, and its lines."""

from __future__ import annotations

import importlib

from simi_mailbox.plain_text import unknown
from simi_mailbox_bench.tables.base import Cell, Line, Selection, Table, TableResult

__all__ = ["Cell", "Line", "Selection", "Table", "TableResult", "get", "names"]

HOMES = (
    ("calibration", "table1 table1-5 released obs t2a gc recent scaling sensitivity het1 het2"),
    ("calibration", "sparse mlp sage gin kde class nll brier"),
    ("calibration", "registry registry-debiased registry-kde registry-nll registry-brier"),
    ("calibration", "versus versus-kde versus-nll versus-brier"),
    ("calibration", "registry-accuracy moving moving-accuracy moving-nll ablation ablation-ece"),
    ("calibration", "binary binary-ece binary-brier binary-auprc"),
    ("timing", "t2b t2b-wall t2b-epochs t2b-per-epoch"),
    ("calibration", "digits"),
    ("gpn", "gpn"),
    ("ood", "ood ood-aupr ood-fpr95"),
    ("selftraining", "self-training-gcn self-training-gat"),
    ("decide", "decide"),
    ("shift", "shift monitor update twitch"),
)
"""Modules here and the tables that each has (in its ``TABLES``), in the order of the list.

A module is imported when one of its tables is asked for: who shows one need not load the others.
"""


def names() -> list[str]:
    """Names of all tables."""
    return [name for _, listed in HOMES for name in listed.split()]


def get(name: str) -> Table:
    """A table by its name; an unknown name lists the choices."""
    for home, listed in HOMES:
        if name in listed.split():
            tables = importlib.import_module(f"{__name__}.{home}").TABLES
            found: Table = next(table for table in tables if table.name == name)
            return found
    raise ValueError(unknown("table", name, names()))
