"""Where the logits of a run come from: the logit bank, which trains what it does not have."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from simi_mailbox_bench.backbones.bank import BankedRun, LogitBank, RunKey
from simi_mailbox_bench.datasets import available, load
from simi_mailbox_bench.datasets.catalogue import find


def load_logits(run: RunKey) -> BankedRun:
    """Logits of a run, trained now if the bank does not have them."""
    return LogitBank().get(run)


def digest(logits: Any) -> str:
    """Short name of the very numbers: networks trained on two machines differ in their last bits.

    Examples
    --------
    >>> digest(np.zeros((2, 2))), digest(np.zeros((2, 2)) + 1e-9)
    ('66687aadf862', 'baf5550863d5')
    """
    array = np.ascontiguousarray(logits)
    return hashlib.sha256(array.tobytes()).hexdigest()[:12]


def graph_size(name: str) -> int:
    """Nodes and edge entries of a known dataset, without loading it.

    Examples
    --------
    >>> graph_size("Cora")
    13264
    """
    entry = find(name)
    return entry.nodes + entry.entries


def missing(names: list[str]) -> dict[str, str]:
    """Datasets that are not here, each with what to do about it."""
    here = set(available())
    return {name: _advice(name) for name in names if name not in here}


def _advice(name: str) -> str:
    try:
        load(name, download=False)
    except (FileNotFoundError, ValueError) as error:
        return str(error)
    return ""
