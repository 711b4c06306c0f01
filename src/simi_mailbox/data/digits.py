"""The embedded example: a nearest-neighbour graph over scikit-learn's handwritten digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.protocols import class_members, generator
from simi_mailbox.data.split import Split
from simi_mailbox.graph import Graph

NEIGHBOURS, PER_CLASS, CALIBRATION, SPLITS = 8, 20, 500, 10


def digits() -> NodeDataset:
    """Build the digits graph: real data that needs no download.

    Nodes are the 1,797 images of 8 × 8 pixels bundled with scikit-learn (features: the 64 raw
    pixel values, 0 to 16). Each is joined to its 8 nearest neighbours in pixel space, and the
    edges are made undirected. There are ten official splits, drawn from fixed seeds: 20 training
    nodes per class, 500 calibration nodes, all others test.

    Examples
    --------
    >>> dataset = digits()
    >>> dataset
    NodeDataset('Digits', nodes=1797, entries=19858, classes=10, features=64)
    >>> dataset.official[0]
    Split(train=200, val=500, test=1097)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = np.asarray(bunch.data, dtype=np.float32)
    y = np.asarray(bunch.target, dtype=np.int64)
    return NodeDataset(
        name="Digits",
        graph=Graph.from_edges(_nearest(x), y.size),
        x=x,
        y=y,
        num_classes=10,
        official=tuple(_split(y, number) for number in range(SPLITS)),
        source="scikit-learn",
    )


def _nearest(x: Any) -> Ints:
    # Pixel values are integers, so squared distances are exact; with the node number as the last
    # digits of the key, ties fall to the lower number on every machine, where a library's
    # neighbour search would leave them open.
    n = len(x)
    norms = (x.astype(np.int64) ** 2).sum(axis=1)
    distance = norms[:, None] + norms[None, :] - 2 * (x @ x.T).astype(np.int64)
    keys = distance * n + np.arange(n)
    np.fill_diagonal(keys, np.iinfo(np.int64).max)
    nearest = np.argpartition(keys, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    target = np.repeat(np.arange(n), NEIGHBOURS)
    return np.stack([nearest.reshape(-1), target])


def _split(y: Ints, number: int) -> Split:
    rng = generator("Digits", "official", number)
    train = np.concatenate([rng.permutation(nodes)[:PER_CLASS] for nodes in class_members(y)])
    rest = rng.permutation(np.setdiff1d(np.arange(y.size), train))
    return Split(train, rest[:CALIBRATION], rest[CALIBRATION:])
