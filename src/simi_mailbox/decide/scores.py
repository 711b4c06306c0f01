"""Conformity scores: how strange a class would be as the label of a node. Small is likely."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import neighbour_means
from simi_mailbox.softmax import row_blocks

Rows: TypeAlias = "slice | Ints"
Scored: TypeAlias = Callable[[Rows], Floats]

BLOCK_NUMBERS = 1 << 18
"""Scores worked on together: a block's temporaries stay far below the size of a large graph."""
BLOCK_SIMILARITIES = 1 << 22
"""Cosines held together while similar nodes are looked for."""
TIE = 1e-9
"""Difference of two cosines that counts as none."""


@dataclass(frozen=True)
class ScoredNodes:
    """What a score may look at: nothing in here is a label."""

    probs: Array
    graph: Graph | None = None
    features: torch.Tensor | None = None
    seed: int = 0

    def row_blocks(self) -> Iterator[slice]:
        """All rows in blocks of bounded memory."""
        n, k = self.probs.shape
        return row_blocks(n, k, BLOCK_NUMBERS)


class Score(ABC):
    """A conformity score: one number for each node and class, made without labels.

    Examples
    --------
    >>> LAC().prepare(ScoredNodes(np.array([[0.7, 0.2, 0.1]])))(slice(None)).round(2).tolist()
    [[0.3, 0.8, 0.9]]
    """

    name: ClassVar[str]
    required_inputs: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def prepare(self, nodes: ScoredNodes) -> Scored:
        """A function from rows to their scores [rows, K], in float64."""

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters, for files."""
        own = {key: v.to_dict() if isinstance(v, Score) else v for key, v in vars(self).items()}
        return {"name": self.name} | own


@dataclass(frozen=True)
class LAC(Score):
    """One minus the probability (Sadinle, Lei and Wasserman, 2019)."""

    name: ClassVar[str] = "lac"

    def prepare(self, nodes: ScoredNodes) -> Scored:
        return lambda rows: 1.0 - nodes.probs[rows].astype(np.float64)


@dataclass(frozen=True)
class APS(Score):
    """Probability of all classes up to this one, likeliest first (Romano et al., 2020).

    With ``randomized`` a random part of the class itself counts, u p; without it all of it. The
    draw u is made of the node's probabilities and the seed: the same in any order, batch or file.
    """

    name: ClassVar[str] = "aps"
    penalty = 0.0
    free = 1
    randomized: bool = True

    def prepare(self, nodes: ScoredNodes) -> Scored:
        def scored(rows: Rows) -> Floats:
            p = nodes.probs[rows].astype(np.float64)
            ordered, order = torch.sort(torch.from_numpy(p), dim=1, descending=True, stable=True)
            scores = ordered.cumsum(dim=1)
            if self.randomized:
                scores -= ordered * torch.from_numpy(row_uniforms(p, nodes.seed))[:, None]
            rank = torch.arange(1, p.shape[1] + 1, dtype=torch.float64)
            scores += self.penalty * (rank - self.free).clamp(min=0)
            return np.asarray(torch.empty_like(scores).scatter_(1, order, scores))

        return scored


@dataclass(frozen=True)
class RAPS(APS):
    """`APS` with a ``penalty`` for each rank beyond ``free`` (Angelopoulos et al., 2021)."""

    name: ClassVar[str] = "raps"
    penalty: float = 0.01
    free: int = 1

    def __post_init__(self) -> None:
        if not (self.penalty >= 0 and self.free >= 0):
            raise ValueError(f"penalty and free must not be negative, got {self}")


@dataclass(frozen=True)
class DAPS(Score):
    """Scores mixed with the mean of the neighbours' (Zargarbashi et al., 2023).

        s = (1 − weight) s_own + weight · mean over neighbours of s

    ``base`` is the score of single nodes that is mixed. A node without neighbours keeps its own
    scores (the released codes average over nothing there: its set is all classes).

    Examples
    --------
    >>> DAPS(weight=0.3, base=LAC())
    DAPS(weight=0.3, base=LAC())
    """

    name: ClassVar[str] = "daps"
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
    weight: float = 0.5
    base: Score = field(default_factory=APS)

    def __post_init__(self) -> None:
        self._check(weight=self.weight)

    def _check(self, **weights: float) -> None:
        if not (min(weights.values()) >= 0 and sum(weights.values()) <= 1):
            given = ", ".join(f"{name}={value}" for name, value in weights.items())
            raise ValueError(f"weights must not be negative, nor exceed 1 together; got {given}")
        base = self.base
        if not isinstance(base, Score) or base.required_inputs:
            raise ValueError(f"base must be a score of single nodes (LAC, APS, RAPS), got {base!r}")

    def prepare(self, nodes: ScoredNodes) -> Scored:
        assert nodes.graph is not None
        own = self._own(nodes)
        means = neighbour_means(nodes.graph, own)
        return lambda rows: (1 - self.weight) * own[rows] + self.weight * means(rows)

    def _own(self, nodes: ScoredNodes) -> Array:
        """The base's scores of all nodes, in the precision of the probabilities."""
        scored = self.base.prepare(nodes)
        kind = np.float32 if nodes.probs.dtype.itemsize <= 4 else np.float64
        scores = np.empty(nodes.probs.shape, dtype=kind)
        for rows in nodes.row_blocks():
            scores[rows] = scored(rows)
        return scores


@dataclass(frozen=True)
class SNAPS(DAPS):
    """`DAPS`, and the mean over nodes with similar features (Song et al., 2024).

        s = (1 − weight − similar) s_own + weight · neighbours' mean + similar · mean of the k nodes
        of most similar features, weighted by the cosine

    Only positive cosines count; a node without any keeps its own scores. Memory grows with nodes ×
    k, time with the square of nodes.
    """

    name: ClassVar[str] = "snaps"
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph", "features"})
    weight: float = 1 / 3
    similar: float = 1 / 3
    k: int = 20

    def __post_init__(self) -> None:
        self._check(weight=self.weight, similar=self.similar)
        if self.k < 1:
            raise ValueError(f"k must be at least 1, got {self.k}")

    def prepare(self, nodes: ScoredNodes) -> Scored:
        assert nodes.graph is not None
        assert nodes.features is not None
        return self.mixed(self._own(nodes), nodes.graph, similar_nodes(nodes.features, self.k))

    def mixed(self, own: Floats, graph: Graph, alike: Callable[[Rows], Any]) -> Scored:
        """Scores of rows, from those of the base and rows of similar nodes, however found."""
        near = neighbour_means(graph, own)

        def scored(rows: Rows) -> Floats:
            matrix = alike(rows)
            mean: Floats = matrix @ own
            alone = np.flatnonzero(np.diff(matrix.indptr) == 0)
            mean[alone] = own[rows][alone]
            rest = 1 - self.weight - self.similar
            return rest * own[rows] + self.weight * near(rows) + self.similar * mean

        return scored


SCORES: dict[str, type[Score]] = {cls.name: cls for cls in (LAC, APS, RAPS, DAPS, SNAPS)}


def resolve(score: str | Score) -> Score:
    """The score of that name with its defaults, or the score itself."""
    if isinstance(score, Score):
        return score
    if not isinstance(score, str) or score not in SCORES:
        names = ", ".join(SCORES)
        raise ValueError(f"unknown score {score!r}; choose from: {names}, or pass a Score")
    return SCORES[score]()


def from_dict(entry: dict[str, Any]) -> Score:
    """The score that ``to_dict`` described."""
    options = {k: from_dict(v) if k == "base" else v for k, v in entry.items() if k != "name"}
    return SCORES[entry["name"]](**options)


def row_uniforms(probs: Floats, seed: int) -> Floats:
    """A number in [0, 1) for every row, of its bits and the seed: conformal guarantees hold."""
    odd = np.random.default_rng(seed).integers(0, 2**63, probs.shape[1], dtype=np.uint64) * 2 + 1
    # −0.0 is another pattern of bits, but the same probability.
    bits = np.ascontiguousarray(probs + 0.0).view(np.uint64)
    # The low bits of rounded numbers are often zero: fold the high ones over them first.
    mixed = ((bits ^ (bits >> np.uint64(32))) * odd).sum(axis=1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def similar_nodes(features: torch.Tensor, k: int) -> Callable[[Rows], Any]:
    """A function from rows to the ``k`` most similar nodes: sparse shares [rows, n] of cosines."""
    if features.layout is torch.strided:
        x: Any = features.numpy()
    else:
        parts = (features.values(), features.col_indices(), features.crow_indices())
        x = sp.csr_matrix(tuple(part.numpy() for part in parts), shape=tuple(features.shape))
    unit = normalize(x.astype(np.float64))
    others = unit.T.tocsr() if sp.issparse(unit) else unit.T
    n = unit.shape[0]

    def search(rows: Rows) -> Any:
        index = np.arange(n)[rows]
        blocks = [index[part] for part in row_blocks(len(index), n, BLOCK_SIMILARITIES)]
        found = [_most_similar(unit[block] @ others, block, min(k, n)) for block in blocks]
        return sp.vstack(found, format="csr") if found else sp.csr_matrix((0, n))

    return search


def _most_similar(product: Any, rows: Ints, k: int) -> Any:
    """The ``k`` largest positive cosines of ``rows`` with other nodes, as shares of the row."""
    cosine = product.toarray() if sp.issparse(product) else product
    cosine[np.arange(len(rows)), rows] = -1.0  # no node is similar to itself
    least = np.partition(cosine, -k, axis=1)[:, -k, None] - 2 * TIE
    row, column = (cosine >= np.maximum(least, np.finfo(np.float64).tiny)).nonzero()
    value = cosine[row, column]
    # Of nodes that are equally similar but for rounding the first is taken, whatever the layout.
    order = np.lexsort((column, -(value / TIE).round(), row))
    order = order[np.arange(len(order)) - np.searchsorted(row, row) < k]
    row, column, value = row[order], column[order], value[order]
    value /= np.bincount(row, value, minlength=len(rows))[row]
    return sp.csr_matrix((value, (row, column)), shape=cosine.shape)
