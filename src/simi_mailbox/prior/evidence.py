"""What speaks for the classes of a node, besides its logits: labels nearby, neighbours, counts.

Three kinds of functions and no other: maps over nodes, sums over the neighbours of an [n, k]
matrix (`Neighbours`), and small reductions over nodes (`Frame.of`). Whoever can sum over neighbours
on blocks can make all of the evidence on blocks. Everything is made of p = softmax(z / T), so that
neither the offset nor the unit of logits enters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.graph import Graph
from simi_mailbox.softmax import confidence, row_blocks, scaled_softmax
from simi_mailbox.sparse import Csr, exact_product
from simi_mailbox.validation import Labelled

EXPONENTS = ("log_degree", "inverse_degree", "sure")
"""Terms of a node's exponent: its degree, and how sure the model is of it."""
CLASSES = ("hidden", "near", "far", "trained_near", "trained_far", "shift", "around")
"""Terms of every class of a node."""
NEAR, FAR = 2.0, 0.1
"""Pseudo-labels one step away, pseudo-mass two steps away: a lone label does not speak at full
voice."""
COMMON = 2.0
"""Pseudo-labels of every class: a handful of labels does not tell how often classes occur."""
SUREST = 1e-12

Rows = slice | Tensor
"""Some nodes: a run of them, or their numbers."""


# --- maps over nodes ----------------------------------------------------------------------------


def exponent_terms(degree: Tensor, sure: Tensor) -> Tensor:
    """log(1 + degree), 1 / (1 + degree), log(−log confidence) of every node, [n, 3]."""
    more = degree.double() + 1.0
    doubt = -sure.clamp(1e-9, 1.0 - SUREST).log()
    return torch.stack([more.log(), more.reciprocal(), doubt.log()], dim=1)


def surprises(probs: Tensor, y: Tensor) -> Tensor:
    """What labels say beyond the probabilities of their nodes, and a column of ones, [m, K + 1].

    Examples
    --------
    >>> surprises(torch.tensor([[0.75, 0.25]]), torch.tensor([0])).tolist()
    [[0.25, -0.25, 1.0]]
    """
    rows = torch.cat([-probs, probs.new_ones(len(probs), 1)], dim=1)
    rows[torch.arange(len(y)), y] += 1.0
    return rows


def near(sums: Tensor) -> Tensor:
    """Mean surprise among neighbours, of `NEAR` pseudo-labels more."""
    return sums[:, :-1] / (sums[:, -1:] + NEAR)


def far(sums: Tensor) -> Tensor:
    """Mean surprise two steps away; ``sums`` without the node's own part."""
    return sums[:, :-1] / (sums[:, -1:].clamp(min=0.0) + FAR)


def relative_share(sums: Tensor, total: Tensor, mass: Tensor, pseudo: float) -> Tensor:
    """log of the share of each class around a node, relative to its share of all nodes.

    ``pseudo`` nodes of the usual shares are added, so that nobody around means nought.

    Examples
    --------
    >>> half = torch.tensor([0.5, 0.5])
    >>> relative_share(torch.zeros(1, 2), torch.zeros(1), half, 2.0).tolist()
    [[0.0, 0.0]]
    """
    share = sums / mass
    return share.add_(pseudo).div_((total + pseudo)[:, None]).log_()


def overlap(probs: Tensor, sums: Tensor, degree: Tensor) -> Tensor:
    """Mean over neighbours j of Σ_c p_ic p_jc, in [0, 1]; nought without neighbours.

    The chance that a node and a neighbour, each drawing a class by its probabilities, agree.
    """
    found = torch.empty(len(probs), dtype=torch.float64)
    for rows in row_blocks(*probs.shape):
        found[rows] = (probs[rows] * sums[rows]).sum(dim=1)
    return found.div_(degree.clamp(min=1))


# --- sums over neighbours -----------------------------------------------------------------------


class Neighbours:
    """Sums over the neighbours of nodes.

    Examples
    --------
    >>> path = Neighbours(Graph.from_edges([[0, 1], [1, 2]]), torch.float64)
    >>> path.sums(torch.tensor([[1.0], [10.0], [100.0]], dtype=torch.float64)).tolist()
    [[10.0], [101.0], [10.0]]
    >>> path.back.tolist()
    [0.5, 1.0, 0.5]
    """

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        self.graph, self.degree = graph, graph.degree
        self.inverse = self.degree.clamp(min=1).to(dtype).reciprocal()
        self._csr = Csr.of(graph).with_values(torch.ones(1, dtype=dtype).expand(graph.num_entries))

    @cached_property
    def back(self) -> Tensor:
        """Chance to be back after two random steps."""
        csr = self._csr
        if not self.graph.is_directed:
            found = torch.empty_like(self.inverse)
            for rows in row_blocks(len(found), 1 + csr.num_entries // len(found)):
                part = _rows(csr, rows)
                values = self.inverse[part.indices].double()
                found[rows] = part.row_sums(values)
            return found.mul_(self.inverse)
        other, _ = csr.transposed
        pairs = (csr.rows.long() * csr.shape[1] + csr.indices, other.rows, other.indices)
        mutual = torch.isin(pairs[0], pairs[1].long() * csr.shape[1] + pairs[2])
        values = mutual.to(self.inverse.dtype) * self.inverse[csr.indices]
        return self.inverse * csr.row_sums(values)

    def sums(self, matrix: Tensor) -> Tensor:
        """Σ over neighbours j of matrix_j, of all nodes."""
        return _product(self._csr, matrix)

    def sums_of(self, nodes: Tensor, values: Tensor) -> Tensor:
        """The same of a matrix that is ``values`` at ``nodes`` and nought elsewhere."""
        csr, place = self._csr, torch.full((self._csr.shape[1],), -1, dtype=torch.int32)
        place[nodes] = torch.arange(len(nodes), dtype=torch.int32)
        column = place[csr.indices]
        kept = column >= 0
        before = torch.zeros(len(kept) + 1, dtype=torch.int32)
        torch.cumsum(kept, 0, out=before[1:])
        part = Csr(before[csr.indptr], column[kept], (csr.shape[0], len(nodes)))
        ones = torch.ones(part.num_entries, dtype=values.dtype)
        return _product(part.with_values(ones), values)

    def second(self, first: Tensor) -> Tensor:
        """Means over two random steps, of a matrix whose `sums` are ``first``."""
        steps = self._csr.with_values(self.inverse[self._csr.indices])  # a neighbour's 1 / degree
        return _product(steps, first).mul_(self.inverse[:, None])


def _rows(csr: Csr, rows: Rows) -> Csr:
    if not isinstance(rows, slice):
        return csr.take(rows)[0]
    start, stop, _ = rows.indices(csr.shape[0])
    low, high = int(csr.indptr[start]), int(csr.indptr[stop])
    cut = csr.indptr[start : stop + 1] - low
    return Csr(cut, csr.indices[low:high], (stop - start, csr.shape[1]))


def _product(csr: Csr, matrix: Tensor) -> Tensor:
    if not csr.num_entries:
        return matrix.new_zeros(csr.shape[0], matrix.shape[1])
    return exact_product(csr, matrix)


# --- what fit finds once ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Frame:
    """Units and middles of the evidence: found by ``fit``, kept for every prediction.

    Attributes
    ----------
    temperature : float
        Of temperature scaling: p = softmax(z / temperature).
    centre, spread : array [3]
        What is subtracted from the terms of the exponent, and what they are divided by.
    mass : array [K]
        Mean probability of every class, as if one node of each had been added.
    alone : float
        Mean overlap, for nodes without neighbours.
    """

    temperature: float
    centre: Floats
    spread: Floats
    mass: Floats
    alone: float

    @classmethod
    def of(cls, temperature: float, terms: Tensor, mass: Tensor) -> Frame:
        """From all nodes of a graph; ``mass`` is the sum of their probabilities."""
        centre, spread = terms.mean(dim=0), torch.ones(3, dtype=torch.float64)
        found = float(terms[:, 2].std(correction=0))
        spread[2] = found if found > 1e-9 else 1.0
        mean = (mass + 1.0) / (len(terms) + len(mass))
        return cls(temperature, centre.numpy(), spread.numpy(), mean.numpy(), 0.0)

    def settled(self, similarity: Tensor, alone: Tensor) -> Frame:
        """The same with the mean overlap, ``alone`` marking nodes without neighbours."""
        others = similarity[~alone]
        return replace(self, alone=float(others.mean()) if len(others) else 0.0)

    def centred(self, terms: Tensor) -> Tensor:
        """Terms of the exponent in their units."""
        centre, spread = (torch.from_numpy(x) for x in (self.centre, self.spread))
        return (terms - centre).div_(spread)

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Frame:
        """From the fields of a saved calibrator."""
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Known:
    """Labels that speak for their neighbours: the GNN was trained on some, not on the others."""

    calibration: Labelled
    trained: Labelled | None = None


def frequencies(known: Known, classes: int, counts: Floats | None = None) -> tuple[Tensor, bool]:
    """How often each class occurs: by these labels, or by the ``counts`` of ``fit`` if it had more.

    Also whether it is by these.

    Examples
    --------
    >>> two = Known(Labelled(torch.tensor([4, 7]), torch.tensor([0, 2])))
    >>> frequencies(two, 3)[0].tolist()
    [1.0, 0.0, 1.0]
    """
    parts = [part.y for part in (known.calibration, known.trained) if part is not None]
    found = torch.bincount(torch.cat(parts), minlength=classes).double()
    if counts is not None and counts.sum() > found.sum():
        return torch.from_numpy(counts), False
    return found, True


# --- all of it, in memory -----------------------------------------------------------------------


class Evidence:
    """The evidence on one graph, given to any rows that ask.

    Parameters
    ----------
    logits : Tensor [n, K]
    graph : Graph
    temperature : float
        Of temperature scaling.
    frame : Frame, optional
        That of ``fit``; found here if there is none.
    """

    def __init__(
        self, logits: Tensor, graph: Graph, temperature: float, frame: Frame | None = None
    ) -> None:
        self.logits, self.neighbours = logits, Neighbours(graph, logits.dtype)
        self.sure = confidence(logits, temperature)
        degree = graph.degree
        probs = scaled_softmax(logits, temperature)
        self._around = self.neighbours.sums(probs)
        terms = exponent_terms(degree, self.sure)
        similarity, isolated = overlap(probs, self._around, degree), degree == 0
        if frame is None:
            mass = torch.zeros(logits.shape[1], dtype=torch.float64)
            for rows in row_blocks(*logits.shape):
                mass += probs[rows].sum(dim=0, dtype=torch.float64)
            frame = Frame.of(temperature, terms, mass).settled(similarity, isolated)
        self.frame = frame
        self.terms = frame.centred(terms)
        self.similarity = similarity.masked_fill_(isolated, frame.alone)
        self.closeness: Tensor | None = None
        self._surprise: _Heard | None = None
        self._trained: _Heard | None = None

    @property
    def probs(self) -> Tensor:
        """softmax(z / T): not kept, because what is made of it is as large."""
        return scaled_softmax(self.logits, self.frame.temperature)

    def hear(self, known: Known, counts: Floats | None = None, *, part: bool = False) -> None:
        """Take labels in.

        They, or the ``counts`` of ``fit``, tell how often classes occur; if this graph is a
        ``part`` of that of ``fit``, the labels are among those.
        """
        n, k = self.logits.shape
        self._listen(known)
        self._own = torch.full((n,), -1, dtype=torch.int16 if k < 1 << 15 else torch.int32)
        for labels in (known.calibration, known.trained):
            if labels is not None:
                self._own[labels.index] = labels.y.to(self._own.dtype)
        self._frequency, ours = frequencies(known, k, counts)
        if not (ours or part):
            self._own.fill_(-1)

    def _listen(self, known: Known) -> None:
        mine, theirs = known.calibration, known.trained
        probs = scaled_softmax(self.logits[mine.index], self.frame.temperature)
        self._surprise = self._heard(mine, surprises(probs, mine.y))
        self._trained = None
        if theirs is not None:
            ones = torch.nn.functional.one_hot(theirs.y, self.logits.shape[1])
            self._trained = self._heard(theirs, ones.to(self.logits.dtype))

    def _heard(self, labels: Labelled, values: Tensor) -> _Heard:
        place = torch.full((len(self.logits),), -1, dtype=torch.int64)
        place[labels.index] = torch.arange(len(labels))
        sums = self.neighbours.sums_of(labels.index, values)
        return _Heard(sums, self.neighbours.second(sums), place, values)

    def gaps(self, rows: Rows) -> Tensor:
        """(z − max z) / T."""
        z = self.logits[rows]
        return (z - z.amax(dim=1, keepdim=True)).div_(self.frame.temperature)

    def classes(self, rows: Rows, wanted: tuple[str, ...]) -> dict[str, Tensor]:
        """The wanted terms of the classes of some nodes, [r, K] each."""
        return {name: getattr(self, f"_{name}_term")(rows) for name in wanted}

    @property
    def _mass(self) -> Tensor:
        return torch.from_numpy(self.frame.mass).to(self.logits.dtype)

    def _hidden_term(self, rows: Rows) -> Tensor:
        assert self.closeness is not None
        return self.closeness[rows]

    def _near_term(self, rows: Rows) -> Tensor:
        assert self._surprise is not None
        return near(self._surprise.sums[rows])

    def _far_term(self, rows: Rows) -> Tensor:
        assert self._surprise is not None
        return far(self._without_own(rows, self._surprise))

    def _trained_near_term(self, rows: Rows) -> Tensor:
        assert self._trained is not None
        sums = self._trained.sums[rows]
        return relative_share(sums, sums.sum(dim=1), self._mass, NEAR)

    def _trained_far_term(self, rows: Rows) -> Tensor:
        assert self._trained is not None
        sums = self._without_own(rows, self._trained).clamp_(min=0.0)
        return relative_share(sums, sums.sum(dim=1), self._mass, FAR)

    def _around_term(self, rows: Rows) -> Tensor:
        total = self.neighbours.degree[rows].to(self.logits.dtype)
        return relative_share(self._around[rows], total, self._mass, NEAR)

    def _shift_term(self, rows: Rows) -> Tensor:
        """log of the frequency of labels, own left out, relative to the mean probability."""
        own = self._own[rows].long()
        known = (own >= 0).nonzero().flatten()
        usual = self._frequency
        others = usual.expand(len(known), len(usual)).clone()
        others[torch.arange(len(known)), own[known]] -= 1.0
        others.clamp_(min=0.0)
        found = self._relative(usual[None]).expand(len(own), len(usual)).clone()
        found[known] = self._relative(others)
        return found

    def _relative(self, counts: Tensor) -> Tensor:
        mass, pseudo = torch.from_numpy(self.frame.mass), COMMON * counts.shape[1]
        found = relative_share(counts, counts.sum(dim=1), mass, pseudo)
        return found.to(self.logits.dtype)

    def _without_own(self, rows: Rows, heard: _Heard) -> Tensor:
        """Two steps away, the node's own part taken out."""
        found, own = heard.second[rows].clone(), heard.place[rows]
        known = (own >= 0).nonzero().flatten()
        back = self.neighbours.back[rows][known]
        found[known] -= back[:, None] * heard.values[own[known]]
        return found


@dataclass(frozen=True, eq=False)
class _Heard:
    """What some nodes say, one and two steps away; the place of each node among them, or −1."""

    sums: Tensor
    second: Tensor
    place: Tensor
    values: Tensor


class Gathered(Evidence):
    """The evidence on some ``rows`` of another, whose sums over neighbours are known.

    ``around`` and ``heard``, one and two steps away, are of these rows alone.
    """

    def __init__(
        self, whole: Evidence, rows: Tensor, degree: Tensor, around: Tensor, heard: list[Steps]
    ) -> None:
        neighbours: Any = SimpleNamespace(degree=degree)
        self.neighbours, self._around = neighbours, around
        self.logits, self.frame = whole.logits[rows], whole.frame
        self.closeness = None if whole.closeness is None else whole.closeness[rows]
        self._own, self._frequency = whole._own[rows], whole._frequency
        steps: list[Any] = [*heard, None, None]
        self._surprise, self._trained = steps[:2]

    def _without_own(self, rows: Rows, heard: Any) -> Tensor:
        found: Tensor = heard.far[rows]
        return found.clone()


@dataclass(frozen=True, eq=False)
class Steps:
    """What was heard one and two steps away, the own part taken out of the latter."""

    sums: Tensor
    far: Tensor
