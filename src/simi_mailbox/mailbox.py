"""How much a node's logits agree with those of its neighbours."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.graph import Graph
from simi_mailbox.softmax import entry_blocks, row_blocks
from simi_mailbox.sparse import Csr, products

BLOCK_ENTRIES = 1 << 18  # neighbour entries looked at together; a few numbers of memory each


def mailbox(logits: Tensor, graph: Graph, *, block_entries: int = BLOCK_ENTRIES) -> Tensor:
    """Neighbourhood similarity m_i = mean over neighbours j of sigmoid(z_i · z_j); 0 without any.
    It depends neither on ``block_entries``, which bound the memory, nor on threads."""
    n = graph.num_nodes
    totals = torch.zeros(n, dtype=torch.float64)
    for start, stop in entry_blocks(graph.indptr, block_entries):
        column = graph.indices[int(graph.indptr[start]) : int(graph.indptr[stop])]
        row = torch.repeat_interleave(torch.arange(start, stop), graph.degree[start:stop])
        if not graph.is_directed:
            upper = column > row
            row, column = row[upper], column[upper]
        if not len(row):
            continue
        offsets = torch.zeros(stop - start + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(row - start, minlength=stop - start), 0, out=offsets[1:])
        similar = products(Csr(offsets, column, (stop - start, n)), logits[start:stop], logits)
        # In float64, because a vectorised float32 sigmoid rounds by a value's place in the block.
        values = similar.double().sigmoid_()
        # Columns first: every node then adds up its neighbours in their order, whatever the blocks.
        if not graph.is_directed:
            totals.index_add_(0, column, values)
        totals.index_add_(0, row, values)
    return totals.div_(graph.degree.clamp(min=1)).to(logits.dtype)


def agreement(predictions: Tensor, graph: Graph) -> Tensor:
    """Share of neighbours with the same predicted class, s(i); 0 for nodes without neighbours."""
    same = (predictions[graph.indices] == predictions[graph.rows()]).to(torch.float64)
    return row_sums(same, graph.indptr) / graph.degree.clamp(min=1)


def row_sums(values: Tensor, offsets: Tensor) -> Tensor:
    """Sum of ``values[offsets[i]:offsets[i + 1]]`` for every row ``i``; 0 for empty rows."""
    return torch.segment_reduce(values, "sum", offsets=offsets, axis=0, initial=0, unsafe=True)


def neighbour_means(graph: Graph, values: Array) -> Callable[[slice | Ints], Floats]:
    """A function from rows to the means of their neighbours' values; alone, a node's own."""
    degree = graph.degree.numpy()
    pattern, dense = Csr.of(graph), torch.from_numpy(values)

    def means(rows: slice | Ints) -> Floats:
        part, entries = pattern.take(torch.arange(len(degree))[rows])
        ones = torch.ones(len(entries), dtype=dense.dtype)
        result: Floats = (part.with_values(ones) @ dense).double().numpy()
        few = degree[rows]
        result /= np.maximum(few, 1)[:, None]
        alone = np.flatnonzero(few == 0)
        result[alone] = values[rows][alone]
        return result

    return means


def expected_agreement(probs: Array, graph: Graph) -> Floats:
    """Mean over neighbours j of Σ_k p_ik p_jk; 0 for nodes without neighbours."""
    means, result = neighbour_means(graph, probs), np.empty(len(probs))
    for rows in row_blocks(*probs.shape):
        result[rows] = np.einsum("nk,nk->n", probs[rows].astype(np.float64), means(rows))
    result[graph.degree.numpy() == 0] = 0.0
    return result


def mailbox_edges(probs: Array, graph: Graph) -> Floats:
    """Median confidence, and the median agreement of the nodes below and above it."""
    confidence, alike = probs.max(axis=1).astype(np.float64), expected_agreement(probs, graph)
    median = np.median(confidence)
    above = confidence >= median
    halves = [np.median(alike[part]) if part.any() else 0.0 for part in (~above, above)]
    return np.array([median, *halves])


def mailbox_groups(probs: Array, graph: Graph, edges: Floats) -> Ints:
    """0, 1: unconfident nodes with low, high neighbour agreement; 2, 3: confident ones."""
    above = (probs.max(axis=1).astype(np.float64) >= edges[0]).astype(np.int64)
    return np.asarray(2 * above + (expected_agreement(probs, graph) >= edges[1:][above]))
