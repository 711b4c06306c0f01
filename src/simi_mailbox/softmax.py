"""Softmax with a temperature per node, in bounded memory; limits within which it has meaning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.graph import Graph

WIDEST = 100.0  # times the usual spread of a node's logits: what spreads further is cut to this
IMPOSSIBLE = 10.0
"""Times the usual spread: a class that lies at least so far below the top on every node, and at
least `VANISHING`, is one that no node can have."""
VANISHING = 20.0
HUGE = 1e15  # beyond this, squares and sums of logits mean nothing any more

APART = 2e-6  # relative distance of pooled probabilities from their mean
BLOCK_ELEMENTS = 1 << 17  # logits of a pass: a float64 block and its copy fit into a cache


def row_blocks(rows: int, columns: int, elements: int = BLOCK_ELEMENTS) -> Iterator[slice]:
    """Cut ``rows`` into slices of at most ``elements`` numbers (and at least one row)."""
    step = max(1, elements // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def entry_blocks(indptr: Tensor, entries: int) -> Iterator[tuple[int, int]]:
    """Cut the rows of a CSR matrix into runs of at most ``entries`` entries (or one row)."""
    rows = int(indptr.numel()) - 1
    start = 0
    while start < rows:
        limit = int(indptr[start]) + entries
        stop = int(torch.searchsorted(indptr, limit, right=True)) - 1
        stop = min(max(stop, start + 1), rows)
        yield start, stop
        start = stop


def moments(logits: Tensor, factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Σ_k exp(x_k), and the means of x and x² under softmax(x), where x = factor (z − max z)."""
    x = top_gaps(logits).mul_(factor[:, None])
    e = x.exp()
    s0 = e.sum(dim=1)
    m1 = e.mul_(x).sum(dim=1).div_(s0)
    m2 = e.mul_(x).sum(dim=1).div_(s0)
    return s0, m1, m2


def scaled_softmax(logits: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    """softmax(z_i / T_i) in the dtype of the logits; ``temperature`` is one, or one per node."""
    n, k = logits.shape
    each = torch.as_tensor(temperature, dtype=torch.float64).reshape(-1).expand(n)
    result = torch.empty_like(logits)
    for rows in row_blocks(n, k):
        probs = torch.sub(logits[rows], logits[rows].amax(dim=1, keepdim=True), out=result[rows])
        probs /= each[rows].to(probs.dtype)[:, None]
        probs.exp_()
        probs /= probs.sum(dim=1, keepdim=True)
    return result


def confidence(logits: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    """Largest probability of every node, max_k softmax(z_i / T_i)_k, in float64."""
    n, k = logits.shape
    result = torch.empty(n, dtype=torch.float64)
    for rows in row_blocks(n, k):
        gaps = top_gaps(logits[rows])
        gaps /= temperature[rows, None] if isinstance(temperature, Tensor) else temperature
        result[rows] = gaps.exp_().sum(dim=1)
    return result.reciprocal_()


def top_gaps(logits: Tensor) -> Tensor:
    """z_ik − max_l z_il in float64: never positive, zero at the predicted class."""
    z = logits.to(torch.float64)
    return z - z.amax(dim=1, keepdim=True)


def keep_argmax(probs: Tensor, logits: Tensor) -> None:
    """Undo, in place, ties that rounding made: the predicted class goes the smallest step up."""
    for block in row_blocks(*logits.shape):
        p, winner = probs[block], logits[block].argmax(dim=1)
        lost = (winner != p.argmax(dim=1)).nonzero().flatten()
        top = p[lost].amax(dim=1)
        p[lost, winner[lost]] = torch.nextafter(top, torch.full_like(top, torch.inf))


def preserve_predictions(probs: Tensor, predicted: Tensor) -> float:
    """Replace rows, in place, by the nearest ones (Kullback-Leibler) with ``predicted`` on top, and
    return their share. The classes above the predicted one get the mean of all of these."""
    own = probs.gather(1, predicted[:, None])[:, 0]
    rows = (probs.amax(dim=1) > own).nonzero().flatten()
    if not len(rows):
        return 0.0
    q, top = probs[rows], predicted[rows][:, None]
    others = q.scatter(1, top, -1.0).sort(dim=1, descending=True).values[:, :-1]
    counts = torch.arange(1, q.shape[1], dtype=q.dtype) + 1.0
    mean = (others.cumsum(dim=1) + own[rows][:, None]).div_(counts)
    # The j-th largest is pooled if it is above the mean of the predicted class and those before it.
    before = torch.cat([own[rows][:, None], mean[:, :-1]], dim=1)
    pooled = (others > before).sum(dim=1, keepdim=True)
    level = mean.gather(1, pooled - 1)
    # A little apart, so that the predicted class is on top of logarithms in float32 as well.
    least = others.gather(1, pooled - 1)
    q = torch.where(q >= least, level * (1.0 - APART), q)
    probs[rows] = q.scatter_(1, top, level * (1.0 + APART * pooled.to(q.dtype)))
    return len(rows) / len(probs)


@dataclass(frozen=True)
class LogitRange:
    """What ``fit`` leaves of logits, also for prediction: a class masked on every node is taken
    out, and a single node with a logit of 1e9 is cut down."""

    num_classes: int
    classes: Ints  # the possible ones
    widest: float  # largest distance of a logit to the top one of its node

    @classmethod
    def of(cls, logits: Tensor, labels: Tensor | None = None) -> LogitRange:
        """Of these logits; a class that one of the ``labels`` names is possible."""
        best, spread, _ = logit_gaps(logits)
        named = np.empty(0, dtype=np.int64) if labels is None else np.unique(labels.numpy())

        def usual(classes: Ints | None) -> float:
            some = spread if classes is None else logit_gaps(logits[:, classes])[1]
            return float(np.median(some))

        return cls.from_gaps(best, named, usual)

    @classmethod
    def from_gaps(
        cls, best: Floats, named: Ints, usual_spread: Callable[[Ints | None], float]
    ) -> LogitRange:
        """By how near each class comes to the top; those ``named`` are possible. ``usual_spread``
        is the median over nodes of the mean distance to the top, of all classes or of some."""
        every = np.arange(len(best))
        doubtful = np.setdiff1d(every[best <= -VANISHING], named)
        kept = every
        if len(doubtful) and len(every) - len(doubtful) >= 2:
            usual = usual_spread(np.setdiff1d(every, doubtful))
            kept = np.setdiff1d(every, doubtful[best[doubtful] <= -IMPOSSIBLE * usual])
        else:
            usual = usual_spread(None)
        if not np.isfinite(best[kept]).all():
            lost = kept[~np.isfinite(best[kept])][0]
            raise ValueError(
                f"the logits of class {lost} are −inf on every node, but a label names this class "
                "or no two others are left: give it finite logits"
            )
        return cls(len(best), kept, WIDEST * usual if usual > 0 else np.inf)

    def cut(self, logits: Tensor) -> Tensor:
        """Logits [n, possible classes] within these limits; the same tensor if nothing is cut."""
        z = logits
        if len(self.classes) < self.num_classes:
            masked = np.setdiff1d(np.arange(self.num_classes), self.classes)
            depth = logits[:, masked] - logits.amax(dim=1, keepdim=True)
            back = (depth > -VANISHING).nonzero()
            if len(back):
                node, column = back[0].tolist()
                raise ValueError(
                    f"node {node} gives class {masked[column]} a logit near its others, but the "
                    "class was masked on every node when this calibrator was fitted"
                )
            z = logits[:, self.classes].contiguous()
        low, high = (float(end) for end in z.aminmax())
        if high - low > self.widest:  # else no node can: offsets between nodes only add to it
            z = self._narrow(z)
            low, high = (float(end) for end in z.aminmax())
        if max(-low, high) > HUGE:
            node = int(z.abs().amax(dim=1).argmax())
            raise ValueError(
                f"node {node} has a logit of size {max(-low, high):.3g}; calibration works up to "
                f"{HUGE:g}: divide all logits by the same number"
            )
        return z

    def _narrow(self, z: Tensor) -> Tensor:
        """Cut down the nodes that spread too far; the top class stays on top."""
        _, _, reach = logit_gaps(z)
        far = np.flatnonzero(reach > self.widest)
        if len(far):
            warnings.warn(
                f"the logits of {len(far)} {'node' if len(far) == 1 else 'nodes'} spread more than "
                f"{WIDEST:g} times as far as usual; the first is node {far[0]}, by "
                f"{reach[far[0]]:.3g}: cut down to {self.widest:.3g}",
                CalibrationWarning,
                stacklevel=6,
            )
            ordinary = np.setdiff1d(np.arange(len(z)), far)
            offset = z[ordinary].mean(dim=1).median() if len(ordinary) else z.new_zeros(())
            gaps = (z[far] - z[far].amax(dim=1, keepdim=True)).clamp(min=-self.widest)
            z = z.clone()
            z[far] = gaps - gaps.mean(dim=1, keepdim=True) + offset
        return z

    def restore(self, probs: Tensor) -> Tensor:
        """Probabilities of all classes: zero for those that were taken out."""
        if len(self.classes) == self.num_classes:
            return probs
        whole = probs.new_zeros(len(probs), self.num_classes)
        whole[:, self.classes] = probs
        return whole

    def number(self, y: Tensor) -> Tensor:
        """The same labels, counted among the possible classes."""
        place = np.full(self.num_classes, -1)
        place[self.classes] = np.arange(len(self.classes))
        return torch.from_numpy(place)[y]


def logit_gaps(logits: Tensor) -> tuple[Floats, Floats, Floats]:
    """Per class the least distance to the top; per node the mean and the largest distance."""
    n, k = logits.shape
    best = torch.full((k,), -torch.inf, dtype=torch.float64)
    mean, largest = torch.empty(n, dtype=torch.float64), torch.empty(n, dtype=torch.float64)
    for rows in row_blocks(n, k):
        gaps = top_gaps(logits[rows])
        mean[rows], largest[rows] = -gaps.mean(dim=1), -gaps.amin(dim=1)
        best = torch.maximum(best, gaps.amax(dim=0))
    return best.numpy(), mean.numpy(), largest.numpy()


WORTH_THREADS = 1 << 22  # numbers touched by a pass from which on threads pay


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """Inside, PyTorch has one thread if the work is small: threads would wait for each other after
    every short operation, and one gives the same bits on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if numbers >= WORTH_THREADS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def size_of_pass(logits: Tensor, graph: Graph | None) -> int:
    """Numbers that one pass over all nodes and their neighbours touches."""
    return int(logits.shape[1]) * (len(logits) + (0 if graph is None else graph.num_entries))
