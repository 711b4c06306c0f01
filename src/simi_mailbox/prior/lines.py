"""The evidence in compiled loops: of every node one line of the processor's cache at a time.

What neighbours are predicted to be, and what labelled nodes say one and two steps away, are sums
over neighbours of 2 K + 2 numbers, or 3 K + 2 with training labels. Here they are taken for a few
classes at a time, as many as fit into `compiled.LINE` numbers of a node, or twice that where
neighbours are many: a look at a neighbour is one line or two, sums stay in registers, and nothing
as large as the logits is kept. The reference is `simi_mailbox.prior.evidence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox import fast
from simi_mailbox._arrays import Array, Floats
from simi_mailbox.graph import Graph
from simi_mailbox.prior.baseline import BEYOND, COLDER, EXPONENT_PASSES, EXPONENT_SETTLED, HOTTER
from simi_mailbox.prior.evidence import (
    COMMON,
    FAR,
    NEAR,
    Evidence,
    Frame,
    Gathered,
    Known,
    Neighbours,
    Rows,
    Steps,
    exponent_terms,
)
from simi_mailbox.softmax import row_blocks
from simi_mailbox.sparse import Csr, shares

MANY = 32
"""Neighbours of a node, on average, from which on lines are looked at by twos."""
WEIGHTS = ("hidden", "near", "far", "trained_near", "trained_far", "around")


class Lines(Evidence):
    """`Evidence` whose ``similarity`` is found by the first look at all neighbours."""

    def __init__(
        self, logits: Tensor, graph: Graph, temperature: float, frame: Frame | None, kernels: Any
    ) -> None:
        self.logits, self.graph, self._kernels = logits.contiguous(), graph, kernels
        self._unit, self._open = 1.0 / temperature, frame is None
        n, k = logits.shape
        self.sure = torch.empty(n, dtype=torch.float64)
        self._top = torch.empty(n, dtype=logits.dtype)
        self._arrays = graph.indptr.numpy(), graph.indices.numpy()
        self._runs = list(pairwise(shares(self._arrays[0])))
        self._line = kernels.WIDTHS[graph.num_entries >= MANY * n]

        def look(rows: slice) -> Floats:
            mass = np.zeros(k)
            z, top, sure = (part[rows].numpy() for part in (self.logits, self._top, self.sure))
            kernels.tops(z, self._unit, top, sure, mass)
            return mass

        mass = torch.from_numpy(np.sum(fast.each(look, row_blocks(n, k)), axis=0))
        self.frame = frame or Frame.of(temperature, self._plain_terms(), mass)
        self.closeness = None
        self._parts, self._speakers = 1, torch.empty(0, dtype=torch.int64)
        self._overlap: Tensor | None = None

    def _plain_terms(self) -> Tensor:
        return exponent_terms(self.graph.indptr.diff(), self.sure)

    @property
    def terms(self) -> Tensor:  # type: ignore[override]
        """Not kept: two numbers of a node make three."""
        return self.frame.centred(self._plain_terms())

    @property
    def similarity(self) -> Tensor:  # type: ignore[override]
        if self._overlap is None:
            indptr, indices = self._arrays
            found = torch.zeros(len(self.logits), dtype=torch.float64)
            k, parts, self._parts = self.logits.shape[1], self._parts, 1
            for start, width, lines, _ in self._panels():
                count = min(width, k - start)
                self._each(self._kernels.overlaps, indptr, indices, lines, count, found.numpy())
            self._parts = parts
            self._found(found)
        assert self._overlap is not None
        return self._overlap

    def _found(self, overlaps: Tensor) -> None:
        isolated = self.graph.indptr.diff() == 0
        overlaps /= self.graph.indptr.diff().clamp(min=1)
        if self._open:
            self.frame = self.frame.settled(overlaps, isolated)
        self._overlap = overlaps.masked_fill_(isolated, self.frame.alone)

    def _each(self, kernel: Callable[..., None], *given: Any) -> None:
        fast.each(lambda rows: kernel(rows, *given), self._runs)

    # --- labels -------------------------------------------------------------------------------

    def _listen(self, known: Known) -> None:
        parts = [known.calibration, *([known.trained] if known.trained is not None else [])]
        speakers, place = torch.unique(
            torch.cat([part.index for part in parts]), return_inverse=True
        )
        self._labels = torch.full((len(speakers), 2), -1, dtype=torch.int32)
        for column, part in enumerate(parts):
            here, place = place[: len(part)], place[len(part) :]
            self._labels[here, column] = part.y.int()
        self._speakers, self._parts = speakers, 1 + len(parts)
        self._place = torch.full((len(self.logits),), -1, dtype=torch.int32)
        self._place[speakers] = torch.arange(len(speakers), dtype=torch.int32)
        graph, indptr, indices = self.graph, *self._arrays
        if graph.is_directed:  # those who listen are not those who are listened to
            back, _ = Csr.of(graph).transposed
            indptr, indices = back.indptr.numpy(), back.indices.numpy()
        given = speakers.numpy(), indptr, indices
        count = int((indptr[given[0] + 1] - indptr[given[0]]).sum())
        ends = np.zeros(graph.num_nodes + 2, dtype=np.int32 if count < 1 << 31 else np.int64)
        self._kernels.count_speakers(*given, ends)
        np.cumsum(ends, out=ends)
        heard = np.empty(max(count, 1), dtype=np.int32)
        self._kernels.place_speakers(*given, ends, heard)
        self._heard_by = ends, heard

    def _panels(self) -> Iterator[tuple[int, int, Array, Array]]:
        """First class and number of classes of a panel, lines of all nodes, and what is said.

        From last to first: the place after the last class holds the counts that all others need.
        """
        kernels, (n, k) = self._kernels, self.logits.shape
        width = self._line // self._parts
        indptr, lines = self._arrays[0], _aligned(n, self._line, self.logits.dtype)
        said = np.empty((len(self._speakers), self._line), dtype=lines.dtype)
        logits, top, sure = (part.numpy() for part in (self.logits, self._top, self.sure))
        for start in reversed(range(0, k + (self._parts > 1), width)):
            given = logits, top, sure, self._unit, indptr, start, width, lines
            self._each(kernels.fill_probabilities, *given)
            if self._parts > 1:
                speakers, labels = self._speakers.numpy(), self._labels.numpy()
                kernels.fill_said(speakers, labels, k, start, width, lines, said)
                self._each(kernels.fill_heard, *self._heard_by, said, indptr, width, lines)
            yield start, width, lines, said

    # --- what is asked ------------------------------------------------------------------------

    @property
    def _back(self) -> Tensor:
        """Chances to be back, where they do not come with the lines."""
        if not self.graph.is_directed:
            return self._top[:0]
        return Neighbours(self.graph, self.logits.dtype).back

    def classes(self, rows: Rows, wanted: tuple[str, ...]) -> dict[str, Tensor]:
        nodes = torch.arange(len(self.logits))[rows]
        k, dtype = self.logits.shape[1], self.logits.dtype
        degree = self.graph.indptr.diff()[nodes]
        each = degree.clamp(min=1).double()[:, None]
        sums = torch.empty(len(nodes), self._line, dtype=torch.float64)
        around = torch.empty(len(nodes), k, dtype=dtype)
        heard = [
            Steps(*(torch.empty(len(nodes), k + (number == 0), dtype=dtype) for _ in range(2)))
            for number in range(self._parts - 1)
        ]
        own = self._place[nodes].long()
        mine = (own >= 0).nonzero().flatten()
        back = self._back
        returns = back[nodes[mine]].double() if len(back) else None
        for start, width, lines, said in self._panels():
            self._kernels.gather_lines(nodes.numpy(), *self._arrays, lines, sums.numpy())
            if returns is None and start + width > k:
                returns = sums[mine, k - start] / degree[mine].clamp(min=1)
            around[:, start : start + width] = sums[:, : min(width, k - start)].to(dtype)
            for number, steps in enumerate(heard, start=1):
                stop = min(start + width, steps.sums.shape[1])
                columns = slice(number * width, number * width + stop - start)
                steps.sums[:, start:stop] = (torch.from_numpy(lines)[nodes, columns] * each).to(
                    dtype
                )
                far = sums[:, columns] / each
                assert returns is not None
                far[mine] -= returns[:, None] * torch.from_numpy(said)[own[mine], columns]
                steps.far[:, start:stop] = far.to(dtype)
        del lines, said
        return Gathered(self, nodes, degree, around, heard).classes(slice(None), wanted)

    def apply(self, terms: Mapping[str, float], exponents: Tensor, moved: Tensor | None) -> Tensor:
        """Fill ``moved`` with the scores of a baseline; without it, move ``exponents`` to them.

        The exponents are those nearest to the scores, as `baseline.nearest_exponents` has them; the
        scores are right up to a number for each node, which makes no difference to probabilities.
        Returns what the scores promise of the predicted classes, of no node where they ``moved``.
        """
        n, k = self.logits.shape
        factors = exponents.exp_().mul_(self._unit).numpy()
        found = torch.zeros(n, dtype=torch.float64)
        sums = self.logits.new_zeros(0 if moved is not None else n, 3)
        highest = torch.full((len(sums),), -torch.inf)
        voices, returns = torch.empty(n, 2), torch.empty(len(self._speakers), dtype=torch.float64)
        back = self._back
        mass = torch.from_numpy(self.frame.mass)
        counts = torch.stack([self._frequency, (self._frequency - 1.0).clamp(min=0.0)])
        shift = (counts / mass + COMMON * k).log_().mul_(terms.get("shift", 0.0))
        usual = torch.cat([mass.reciprocal()[None], shift]).numpy()
        weights = tuple(float(terms.get(name, 0.0)) for name in WEIGHTS)
        empty = self.logits[:0].numpy()
        close = empty if self.closeness is None else self.closeness.numpy()
        kept = back.numpy(), voices.numpy(), returns.numpy()
        own = self._own.numpy(), (NEAR, FAR), weights, usual, *kept
        z, top, place = (part.numpy() for part in (self.logits, self._top, self._place))
        out = (
            found.numpy(),
            highest.numpy(),
            sums.numpy(),
            empty if moved is None else moved.numpy(),
        )
        for start, width, lines, said in self._panels():
            panel = (start, width, self._parts), z, top, factors, place, said
            self._each(self._kernels.add_evidence, *self._arrays, lines, *panel, *own, close, *out)
        del lines, said, panel
        self._found(found)
        if moved is None:
            bracket = HOTTER, COLDER, math.exp(BEYOND) * self._unit
            bounds = bracket, EXPONENT_PASSES, EXPONENT_SETTLED
            self._each(self._kernels.nearest_exponents, z, top, factors, sums.numpy(), *bounds)
        exponents.div_(self._unit).log_()
        return sums[:, 2].div_(sums[:, 0])


def _aligned(rows: int, columns: int, dtype: torch.dtype) -> Array:
    """A matrix whose rows begin where lines of the cache do.

    NumPy asks the system for large pages, PyTorch does not; looks at random rows gain by them.
    """
    size = rows * columns * dtype.itemsize
    store = np.empty(size + 128, dtype=np.uint8)
    start = -store.ctypes.data % 128
    kind = np.float64 if dtype == torch.float64 else np.float32
    return store[start : start + size].view(kind).reshape(rows, columns)
