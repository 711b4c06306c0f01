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


def make_problem(seed, n=120, k=4, edges=300, labelled=60, sharpness=3):
    """Draw a problem whose labels follow the logits at a temperature of two."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * sharpness
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1)
    pairs = rng.integers(0, n, size=(2, edges))
    mask = np.sort(rng.choice(n, min(labelled, n), replace=False))
    return Problem(logits, y, pairs, mask)
