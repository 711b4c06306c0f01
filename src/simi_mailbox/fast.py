"""Whether compiled loops are used, and by how many threads."""

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
Found = TypeVar("Found")

WORTH_ENTRIES = 1 << 29
"""Neighbours × classes from which on compiled loops are used: starting Numba takes a second."""
WORTH_NODES = 1 << 22
"""The same for nodes × classes, which are looked at a dozen times."""


@functools.cache
def kernels() -> Any:
    """The module `simi_mailbox.compiled`, or None where Numba is missing or switched off.

    Numba comes with the extra ``fast``. ``SIMI_MAILBOX_COMPILED=0`` in the environment switches it
    off; results then agree to about seven digits, because float32 sums are rounded differently.
    """
    if os.environ.get("SIMI_MAILBOX_COMPILED") == "0":
        return None
    try:
        from simi_mailbox import compiled
    except ImportError:  # not installed, or too old for the NumPy at hand
        return None
    return compiled


def each(function: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """``[function(item) for item in items]``, by as many threads as PyTorch may use.

    For functions that let go of the interpreter's lock. Threads that have nothing to do sleep; they
    do not spin, so that a busy machine loses nothing.
    """
    items = list(items)
    threads = min(torch.get_num_threads(), len(items))
    if threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))
