"""Graphs whose true probabilities are known, for tests of calibrators that learn a network."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import expit
from torch import Tensor

from simi_mailbox.graph import Graph


@dataclass(frozen=True)
class Problem:
    """Logits, graph, labels drawn from ``truth``, and three disjoint sets of nodes."""

    logits: Tensor
    graph: Graph
    y: Tensor
    truth: Tensor
    mask: Tensor
    holdout: Tensor
    test: Tensor

    def nll(self, probs):
        """Expected NLL of the test nodes under the truth: no noise from drawn labels."""
        cross = (self.truth * probs.clamp_min(1e-12).log()).sum(1)
        return float(-cross[self.test].mean())

    def cost(self, calibrator, **inputs):
        """Expected NLL after a fit, in units of the truth's."""
        given = {"mask": self.mask, "early_stopping_mask": self.holdout, **inputs}
        calibrator.fit(self.logits, self.y, **given)
        return self.nll(calibrator.predict_proba(self.logits, **inputs)) / self.nll(self.truth)


def homophilous(n=3000, classes=4, seed=0):
    """Logits that lean to a class, on a graph whose neighbours mostly share it."""
    generator = torch.Generator().manual_seed(seed)
    community = torch.randint(classes, (n,), generator=generator)
    logits = torch.randn(n, classes, generator=generator)
    strength = 1 + 3 * torch.rand(n, 1, generator=generator)
    logits += strength * F.one_hot(community, classes)
    a, b = torch.randint(n, (2, 30 * n), generator=generator)
    keep = (community[a] == community[b]) | (torch.rand(a.numel(), generator=generator) < 0.1)
    return logits, Graph.from_edges(torch.stack([a, b])[:, keep][:, : 3 * n], n)


def problem(logits, graph, temperature, seed=0):
    """Draw labels from softmax(z_i / T_i); half of the nodes for calibration, a quarter each."""
    generator = torch.Generator().manual_seed(seed + 1)
    truth = (logits / temperature[:, None]).softmax(dim=1)
    y = torch.multinomial(truth, 1, generator=generator).flatten()
    order = torch.randperm(len(y), generator=generator)
    half, three = len(y) // 2, 3 * len(y) // 4
    return Problem(logits, graph, y, truth, order[:half], order[half:three], order[three:])


def dense_gcn(graph):
    """D^(−½) (A + I) D^(−½)."""
    adjacency = torch.eye(graph.num_nodes)
    adjacency[graph.rows(), graph.indices] = 1
    scale = adjacency.sum(1).rsqrt()
    return scale[:, None] * adjacency * scale


def binary(n, *, seed, scale=0.5, bias=-1.0):
    """Scores, and labels drawn from σ(scale · s + bias)."""
    rng = np.random.default_rng(seed)
    s = 3 * rng.normal(size=n)
    return s, (rng.random(n) < expit(scale * s + bias)).astype(int)


def draw(logits, seed=0):
    """Labels drawn from the softmax of each row."""
    return (logits + np.random.default_rng(seed).gumbel(size=logits.shape)).argmax(1)


def cloud(n, seed=0, *, alone=0):
    """Normal logits of three classes on a random graph, whose last nodes are ``alone``."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) * 2
    return z, Graph.from_edges(rng.integers(0, n - alone, size=(2, 2 * n)), n)
