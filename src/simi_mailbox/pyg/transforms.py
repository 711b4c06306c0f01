"""What PyG's pipelines take: transforms of a ``Data``."""

from __future__ import annotations

from typing import Any

import torch

from simi_mailbox._extras import require
from simi_mailbox.graph import as_graph
from simi_mailbox.pyg.batches import fingerprints, row_sums
from simi_mailbox.pyg.wrapper import CalibratedModel

_BASE: Any = require("torch_geometric.transforms", extra="pyg").BaseTransform


class WriteProbabilities(_BASE):  # type: ignore[misc]
    """Write calibrated probabilities [n, K] of all nodes of a graph into ``data.prob``.

    Of a ``HeteroData``: of the nodes that are classified, into ``data[node_type].prob``.

    Parameters
    ----------
    calibrated : CalibratedModel
        As of `simi_mailbox.pyg.calibrate`.
    attr : str
        Where to write them.
    """

    def __init__(self, calibrated: CalibratedModel, attr: str = "prob") -> None:
        self.calibrated, self.attr = calibrated, attr

    def forward(self, data: Any) -> Any:
        """Write into a shallow copy, as PyG's transforms do."""
        node_type = self.calibrated.node_type
        store = data if node_type is None else data[node_type]
        store[self.attr] = self.calibrated.on(data).exp()
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(attr={self.attr!r})"


class CountNeighbours(_BASE):  # type: ignore[misc]
    """Write every node's number of neighbours into ``data.num_neighbours``, and what names it.

    Loaders cut this out with the nodes, so that a mini-batch can be checked for missing neighbours,
    and its nodes be known again where graph and inputs are those of ``fit``. Edges count in either
    direction, self-loops do not. Apply it again after any change of the graph.
    """

    def forward(self, data: Any) -> Any:
        """Write into a shallow copy, as PyG's transforms do."""
        data.num_neighbours = as_graph(data, data.num_nodes).degree
        data.node_number = torch.arange(data.num_nodes)
        data.row_sums = row_sums(data)
        data.fingerprints = fingerprints(data)
        return data
