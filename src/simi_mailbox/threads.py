"""How many threads a piece of work is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from simi_mailbox.graph import Graph

WORTH = 1 << 22
"""Numbers touched by one pass over nodes and edges from which on threads pay for each other."""


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """Inside, PyTorch has one thread if the work is small, and as many as before if it is not.

    Training on a small graph is thousands of short operations. Threads that share one of them wait
    for each other at its end; on a machine whose cores are taken, each wait lasts until the system
    gives the other thread its turn, and a fit of a second takes a minute. One thread waits for
    nobody, and gives the same bits on every machine.

    Examples
    --------
    >>> before = torch.get_num_threads()
    >>> with threads_for(1000):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    if numbers >= WORTH or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def size_of_pass(num_nodes: int, num_classes: int, graph: Graph | None) -> int:
    """Numbers that one pass over all nodes and their neighbours touches.

    Examples
    --------
    >>> size_of_pass(3, 4, Graph.from_edges([[0, 1], [1, 2]]))
    28
    """
    return num_classes * (num_nodes + (0 if graph is None else graph.num_entries))
