"""Datasets, splits and synthetic graphs."""

from simi_mailbox_bench.datasets.catalogue import names
from simi_mailbox_bench.datasets.dataset import NodeDataset, Split
from simi_mailbox_bench.datasets.loading import available, load
from simi_mailbox_bench.datasets.protocols import PROTOCOLS, make_split

__all__ = ["PROTOCOLS", "NodeDataset", "Split", "available", "load", "make_split", "names"]
