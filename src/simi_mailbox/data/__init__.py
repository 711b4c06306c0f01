"""Datasets, splits and synthetic graphs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from simi_mailbox.data.catalogue import names
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.loading import available, load
from simi_mailbox.data.protocols import PROTOCOLS, make_split, num_splits
from simi_mailbox.data.split import Split

if TYPE_CHECKING:
    from simi_mailbox.data import synthetic

__all__ = [
    "PROTOCOLS",
    "NodeDataset",
    "Split",
    "available",
    "load",
    "make_split",
    "names",
    "num_splits",
    "synthetic",
]


def __getattr__(name: str) -> Any:
    if name == "synthetic":  # loaded when asked for: real graphs do without it
        return importlib.import_module("simi_mailbox.data.synthetic")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
