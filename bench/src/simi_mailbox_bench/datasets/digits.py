"""The embedded example: a nearest-neighbour graph over scikit-learn's handwritten digits."""

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.demo import digits_graph
from simi_mailbox_bench.datasets.dataset import NodeDataset, Split
from simi_mailbox_bench.datasets.protocols import class_members, generator

PER_CLASS, CALIBRATION, SPLITS = 20, 500, 10


def digits() -> NodeDataset:
    """The digits graph with ten official splits, drawn from fixed seeds.

    20 training nodes per class, 500 calibration nodes, all others test.

    Examples
    --------
    >>> digits()
    NodeDataset('Digits', nodes=1797, entries=19858, classes=10, features=64)
    """
    graph, x, y = digits_graph()
    official = tuple(_split(y, number) for number in range(SPLITS))
    return NodeDataset("Digits", graph, x, y, 10, official=official, source="scikit-learn")


def _split(y: Ints, number: int) -> Split:
    rng = generator("Digits", "official", number)
    train = np.concatenate([rng.permutation(nodes)[:PER_CLASS] for nodes in class_members(y)])
    rest = rng.permutation(np.setdiff1d(np.arange(y.size), train))
    return Split(train, rest[:CALIBRATION], rest[CALIBRATION:])
