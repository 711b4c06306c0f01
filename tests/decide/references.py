"""The definitions of the papers, in loops: slow, and easy to check by eye."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity

from simi_mailbox import Graph


def lac(p: Any) -> list[float]:
    return [1 - float(q) for q in p]


def aps(p: Any, u: float, penalty: float = 0.0, free: int = 0) -> list[float]:
    ranked = sorted(range(len(p)), key=lambda k: (-p[k], k))
    scores, before = [0.0] * len(p), 0.0
    for place, k in enumerate(ranked, start=1):
        scores[k] = before + (1 - u) * float(p[k]) + penalty * max(place - free, 0)
        before += float(p[k])
    return scores


def mixed(own: Any, lists: list[tuple[float, list[dict[int, float]]]]) -> Any:
    """Weighted means over lists of related nodes; the rest of the weight is one's own."""
    result = np.zeros_like(own)
    for i in range(len(own)):
        rest = 1.0
        for weight, related in lists:
            rest -= weight
            total = sum(related[i].values())
            mean = sum(w * own[j] for j, w in related[i].items()) / total if total else own[i]
            result[i] += weight * mean
        result[i] += rest * own[i]
    return result


def neighbour_lists(graph: Graph) -> list[dict[int, float]]:
    return [dict.fromkeys(graph.neighbours(i).tolist(), 1.0) for i in range(graph.num_nodes)]


def similar_lists(x: Any, k: int) -> list[dict[int, float]]:
    lists = []
    for i, cosine in enumerate(cosine_similarity(x)):
        cosine[i] = 0.0
        best = np.argsort(-cosine.round(9), kind="stable")[:k].tolist()
        lists.append({j: float(cosine[j]) for j in best if cosine[j] > 0})
    return lists


def threshold(scores: Any, level: float) -> float:
    ordered = sorted(scores)
    place = math.ceil((len(ordered) + 1) * Fraction(str(level)))
    return ordered[place - 1] if place <= len(ordered) else math.inf


@dataclass(frozen=True)
class Problem:
    """Probabilities, labels drawn from them, a graph with lonely nodes, features, and a mask."""

    probs: Any
    y: Any
    graph: Graph
    features: Any
    mask: Any


def make_problem(seed: int, n: int = 90, k: int = 4, labelled: int = 40) -> Problem:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.4), size=n)
    probs = np.clip(probs, 1e-6, None)
    probs /= probs.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=k - 1)
    edges = rng.integers(0, max(n - 5, 1), size=(2, 2 * n))  # the last five nodes have no neighbour
    features = rng.normal(size=(n, 6))
    features[-1] = 0.0
    mask = np.sort(rng.choice(n, min(labelled, n), replace=False))
    return Problem(probs, y, Graph.from_edges(edges, n), features, mask)


def frauds(n: int = 6000, share: float = 0.03, seed: int = 0) -> tuple[Any, Any]:
    """Calibrated probabilities of a rare class, from a useful model, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.1, 0.1 * (1 - share) / share, n)
    return np.stack([1 - p, p], axis=1), (rng.random(n) < p).astype(int)
