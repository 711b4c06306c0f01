"""Training many runs in several processes, one PyTorch thread each."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from simi_mailbox.models.bank import LogitBank, RunKey
from simi_mailbox.models.settings import Settings


def run_all(
    root: Path,
    keys: list[RunKey],
    processes: int,
    settings: Settings | None,
    on_done: Callable[[RunKey, float], None],
) -> None:
    """Train the runs that the bank at ``root`` lacks; see :meth:`LogitBank.fill`."""
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    if processes == 1:
        for key in keys:
            on_done(*train_one(root, key, settings))
        return
    # Spawned, not forked: a forked child inherits locks of PyTorch's thread pool.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_one_thread) as pool:
        pending = [pool.submit(train_one, root, key, settings) for key in keys]
        try:
            for future in as_completed(pending):
                on_done(*future.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def train_one(root: Path, key: RunKey, settings: Settings | None) -> tuple[RunKey, float]:
    """Train one run unless it is there; its seconds, 0 if it was."""
    bank = LogitBank(root)
    if bank.find(key, settings) is not None:
        return key, 0.0
    return key, bank.get(key, settings).seconds


def _one_thread() -> None:
    torch.set_num_threads(1)
