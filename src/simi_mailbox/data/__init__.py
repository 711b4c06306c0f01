"""Datasets, splits and synthetic graphs."""

from simi_mailbox.data import synthetic
from simi_mailbox.data.catalogue import names
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.loading import available, load
from simi_mailbox.data.protocols import PROTOCOLS, make_split, num_splits
from simi_mailbox.data.split import Split

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
