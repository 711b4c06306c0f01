"""A small problem shared by the tests."""

from dataclasses import dataclass

import numpy as np

from simi_mailbox import Graph


@dataclass(frozen=True)
class Problem:
    """Logits, labels, a graph and calibration nodes."""

    logits: np.ndarray
    y: np.ndarray
    edges: np.ndarray
    mask: np.ndarray

    @property
    def graph(self) -> Graph:
        return Graph.from_edges(self.edges, len(self.y))


def make_problem(
    seed: int, n: int = 120, k: int = 4, edges: int = 300, labelled: int = 60, sharpness: float = 3
) -> Problem:
    """Draw a problem whose labels follow the logits at a temperature of two."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * sharpness
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1)
    pairs = rng.integers(0, n, size=(2, edges))
    mask = np.sort(rng.choice(n, min(labelled, n), replace=False))
    return Problem(logits, y, pairs, mask)
