"""Evidence on a node's class besides its own logits: neighbours, labels near it, a hidden layer.

Every term is a function of a node's own row and of a few sums over its neighbours (`Sums`), which
`InMemory` supplies here and blocks on disk in `simi_mailbox.scale`. Everything is made of
p = softmax(z / T), so that the offset of logits does not enter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators.features import fit_prototypes, nearness
from simi_mailbox.calibrators.simi_mailbox.model import EXPONENTS, Base, Nodes
from simi_mailbox.graph import Graph
from simi_mailbox.softmax import row_blocks, scaled_softmax
from simi_mailbox.sparse import Csr, neighbour_sums
from simi_mailbox.validation import Labelled

CLASSES = ("neighbours", "neighbours_2_steps", "labels", "labels_2_steps", "hidden")
"""Terms of every class of a node; the last one only where a hidden layer is given."""
PSEUDO_NEIGHBOURS, PSEUDO_PREDICTIONS, PSEUDO_MASS = 2.0, 0.3, 0.1
"""Added to neighbours, and to predictions and labels two steps away: few are not believed."""

NO_CHANCE, LARGE = 5.0, 0.25
"""Standard errors and deviations by which calibration nodes differ that were not drawn."""

BLOCK = 1 << 19  # numbers of a run of nodes that are looked at together

NOBODY = Labelled(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


def term_names(*, hidden: bool) -> tuple[str, ...]:
    """All terms, in the order of a model's coefficients."""
    return (*EXPONENTS, *(CLASSES if hidden else CLASSES[:-1]))


# --- the formula ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known of some nodes: their own rows [m, K], and sums over their neighbours; of two
    steps, means over two random steps without what comes back to the node itself."""

    logits: Tensor
    probs: Tensor
    degree: Tensor
    predictions: Tensor  # Σ p_j over neighbours j
    predictions_2_steps: Tensor
    labels: Tensor  # Σ of the `label_residuals` of labelled neighbours, [m, K + 1]
    labels_2_steps: Tensor
    closeness: Tensor | None = None  # to every class in the hidden layer

    def rows(self, rows: slice) -> Sums:
        """Of some of these nodes."""
        parts: Any = (None if part is None else part[rows] for part in vars(self).values())
        return Sums(*parts)


@dataclass(frozen=True, eq=False)
class Units:
    """Means over all nodes that ``fit`` found, kept for every prediction."""

    temperature: float  # T of p = softmax(z / T)
    centre: Floats  # subtracted from the terms of the temperature, [2]
    class_share: Floats  # mean of p, as if one node of every class had been added, [K]
    mean_similarity: float  # for nodes without neighbours

    @classmethod
    def of(cls, temperature: float, totals: Floats) -> Units:
        """From the `unit_totals` of all nodes."""
        (nodes, linked, similar), degrees, mass = np.split(totals, [3, 5])
        share = (mass + 1.0) / (nodes + len(mass))
        return cls(temperature, degrees / nodes, share, float(similar / max(linked, 1.0)))


def unit_totals(probs: Tensor, degree: Tensor, similarity: Tensor) -> Floats:
    """What `Units` are made of, summed over some nodes: of parts of a graph it adds up."""
    mass = torch.zeros(probs.shape[1], dtype=torch.float64)
    for rows in row_blocks(*probs.shape):
        mass += probs[rows].sum(dim=0, dtype=torch.float64)
    counts = [len(degree), int((degree > 0).sum()), float(similarity.sum())]
    return np.concatenate([counts, degree_terms(degree).sum(dim=0).numpy(), mass.numpy()])


def degree_terms(degree: Tensor) -> Tensor:
    """log(1 + degree), 1 / (1 + degree), [m, 2]."""
    more = degree.double() + 1.0
    return torch.stack([more.log(), more.reciprocal()], dim=1)


def drawn_at_random(degree: Tensor, centre: Floats) -> bool:
    """Whether these nodes have the mean degree terms ``centre`` of all nodes, but for chance."""
    found = degree_terms(degree).numpy()
    away, spread = np.abs(found.mean(axis=0) - centre), found.std(axis=0)
    differs = away > np.maximum(LARGE, NO_CHANCE / np.sqrt(len(found))) * spread
    return not bool(differs.any())


def label_residuals(probs: Tensor, y: Tensor) -> Tensor:
    """What labels tell beyond their nodes' probabilities, and a column of ones, [m, K + 1]."""
    rows = torch.cat([-probs, probs.new_ones(len(probs), 1)], dim=1)
    rows[torch.arange(len(y)), y] += 1.0
    return rows


def overlap(probs: Tensor, predictions: Tensor, degree: Tensor) -> Tensor:
    """The mailbox similarity of p: mean over neighbours j of Σ_c p_ic p_jc; zero without any."""
    found = torch.empty(len(probs), dtype=torch.float64)
    for rows in row_blocks(*probs.shape):
        found[rows] = (probs[rows] * predictions[rows]).sum(dim=1, dtype=torch.float64)
    return found.div_(degree.clamp(min=1))


def without_own(second: Tensor, probs: Tensor, back: Tensor) -> Tensor:
    """Means over two random steps, less what came back to the node itself."""
    return second.addcmul_(probs, back[:, None], value=-1.0).clamp_(min=0.0)


def terms(sums: Sums, units: Units, groups: Floats) -> Nodes:
    """All terms of some nodes, as the model takes them; ``groups`` is their membership.

    neighbours          log of the share of a class among the neighbours' predictions, relative to
                        its share of all nodes, as if two average neighbours had been added
    neighbours_2_steps  the same two steps away, but for a number that all classes share
    labels              mean label residual of the neighbours, as if two zeros had been added
    labels_2_steps      the same two steps away
    hidden              −log distance to the class's mean in the hidden layer
    """
    z = sums.logits
    gaps = (z - z.amax(dim=1, keepdim=True)).div_(units.temperature)
    share = torch.from_numpy(units.class_share).to(z.dtype)
    around = (sums.predictions / share).add_(PSEUDO_NEIGHBOURS)
    around = around.div_(sums.degree.to(z.dtype)[:, None] + PSEUDO_NEIGHBOURS).log_()
    beyond = (sums.predictions_2_steps / (share * PSEUDO_PREDICTIONS)).log1p_()
    near = sums.labels[:, :-1] / (sums.labels[:, -1:] + PSEUDO_NEIGHBOURS)
    second = sums.labels_2_steps
    far = second[:, :-1] / (second[:, -1:].clamp(min=0.0) + PSEUDO_MASS)
    classes = [around, beyond, near, far, *([] if sums.closeness is None else [sums.closeness])]
    exponents = degree_terms(sums.degree) - torch.from_numpy(units.centre)
    return Nodes(gaps, exponents, classes, groups)


# --- who supplies the sums: a graph in memory -----------------------------------------------------


class InMemory:
    """Sums over the neighbours of a graph in memory, for any rows; ``closeness`` is [n, K]."""

    def __init__(
        self, logits: Tensor, graph: Graph, temperature: float, closeness: Tensor | None = None
    ) -> None:
        self.logits, self.graph, self.closeness = logits, graph, closeness
        self.probs = scaled_softmax(logits, temperature)
        self.csr = Csr.of(graph)
        self._size: tuple[int, int] = (logits.shape[0], logits.shape[1])
        self.steps = graph.degree.clamp(min=1).to(logits.dtype).reciprocal()
        self._take(NOBODY, self.probs[:0])

    def take_labels(self, labelled: Labelled, base: Base) -> None:
        """Let these labels inform about the nodes around theirs."""
        self._take(labelled, base.probabilities(self.logits[labelled.index]))

    def _take(self, labelled: Labelled, expected: Tensor) -> None:
        self._residuals = label_residuals(expected, labelled.y)
        self._own = self._residuals * self._chance_back(labelled.index)[:, None]
        self._place = torch.full((len(self.probs),), -1, dtype=torch.int64)
        self._place[labelled.index] = torch.arange(len(labelled))

    def _labels_near(self, part: Csr) -> Tensor:
        """Sums of residuals over the entries of ``part`` that are labelled."""
        return neighbour_sums(part.renumbered(self._place, len(self._residuals)), self._residuals)

    def _chance_back(self, nodes: Tensor) -> Tensor:
        """That two random steps end where they began."""
        paths, _ = self.csr.take(nodes)
        back = self.steps[paths.indices].double()
        if self.graph.is_directed:  # only where the edge is there in the other direction, too
            n, here = self.graph.num_nodes, nodes[paths.rows]
            there = self.csr.indices.long() * n + self.csr.rows
            back *= torch.isin(here * n + paths.indices, there)
        return paths.row_sums(back).to(self.steps.dtype).mul_(self.steps[nodes])

    def similarity(self) -> Tensor:
        """Of all nodes, without what `Sums` hold besides."""
        found = torch.empty(len(self.probs), dtype=torch.float64)
        for rows in row_blocks(*self._size, BLOCK):
            around = neighbour_sums(self.csr.run(rows), self.probs)
            found[rows] = overlap(self.probs[rows], around, self.graph.degree[rows])
        return found

    def sums(self, nodes: Tensor) -> Sums:
        """Of some nodes."""
        entries = self.csr.take(nodes)[0]
        part, used = entries.compact()
        beyond = self.csr.take(used)[0]
        near, far = self._labels_near(entries), self._labels_near(beyond)
        around = neighbour_sums(part, self.probs[used])
        second, columns = beyond.compact()
        beside = neighbour_sums(second, self.probs[columns])
        return self._sums(nodes, part, around, beside, near, far, self.steps[used])

    def all_sums(self) -> Iterator[tuple[slice, Sums]]:
        """Of all nodes, run by run: what lies between the runs is never held at once."""
        near, around = self._labels_near(self.csr), neighbour_sums(self.csr, self.probs)
        for rows in row_blocks(*self._size, BLOCK):
            given = self.csr.run(rows), around[rows], around, near[rows], near, self.steps
            yield rows, self._sums(rows, *given)

    def _sums(
        self, rows: Tensor | slice, part: Csr, around: Tensor, beside: Tensor, near: Tensor,
        far: Tensor, steps: Tensor,
    ) -> Sums:  # fmt: skip
        """``around`` and ``near`` of the rows of ``part``; ``beside``, ``far`` of its columns."""
        probs, degree = self.probs[rows], self.graph.degree[rows]
        nodes = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        beyond = neighbour_sums(part, beside, steps).mul_(self.steps[rows][:, None])
        beyond = without_own(beyond, probs, self._chance_back(nodes))
        second = torch.zeros_like(near)
        if len(self._residuals):
            second = neighbour_sums(part, far, steps).mul_(self.steps[rows][:, None])
            place = self._place[rows]
            known = (place >= 0).nonzero().flatten()
            second[known] -= self._own[place[known]]
        return Sums(
            self.logits[rows], probs, degree, around, beyond, near, second,
            None if self.closeness is None else self.closeness[rows],
        )  # fmt: skip


def closeness(
    hidden: Tensor, probs: Tensor, prototypes: dict[str, Floats] | None = None
) -> tuple[dict[str, Floats], Tensor]:
    """Means of the classes in a hidden layer (no label enters), and −log distances to them."""
    dense = hidden if hidden.layout is torch.strided else hidden.to_dense()
    x = np.asarray(dense.numpy(), dtype=np.float64)
    if prototypes is None:
        means, precision = fit_prototypes(x, probs.double().numpy())
        prototypes = {"means": means, "precision": precision}
    return prototypes, torch.from_numpy(nearness(x, **prototypes)).to(probs.dtype)
