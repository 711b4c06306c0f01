"""Fixed small inputs: drawn here and not by the library, so that they never change with it."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from simi_mailbox import Graph
from tests.cli.conftest import write, write_problem

NODES = 300


@dataclass(frozen=True)
class Sample:
    """A graph with everything that a method may be given."""

    logits: np.ndarray
    y: np.ndarray
    edges: np.ndarray
    features: np.ndarray
    hidden: np.ndarray
    mask: np.ndarray
    early_stopping: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @property
    def graph(self):
        return Graph.from_edges(self.edges, len(self.logits))

    def forward(self, edge_weight):
        """A frozen GNN: the logits, and a tenth of the neighbours'."""
        graph, z = self.graph, torch.from_numpy(self.logits)
        sent = z[graph.indices] * edge_weight.to(z.dtype).reshape(-1, 1)
        return z + 0.1 * torch.zeros_like(z).index_add(0, graph.rows(), sent)


@cache
def sample(classes, seed):
    """Overconfident logits on a homophilous graph; the last five nodes have no neighbour."""
    rng = np.random.default_rng([seed, classes])
    community = rng.integers(classes, size=NODES)
    logits = rng.normal(size=(NODES, classes))
    logits[np.arange(NODES), community] += 3.0 * rng.lognormal(0.0, 0.5, size=NODES)
    y = (logits / 2.0 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    pairs = rng.integers(NODES - 5, size=(2, 20 * NODES))
    alike = (community[pairs[0]] == community[pairs[1]]) | (rng.random(20 * NODES) < 0.1)
    features = np.concatenate([logits, rng.normal(size=(NODES, 3))], axis=1).astype(np.float32)
    hidden = np.tanh(logits @ rng.normal(size=(classes, 6)) / 3).astype(np.float32)
    order = rng.permutation(NODES)
    parts = [np.sort(order[a:b]) for a, b in ((0, 100), (100, 140), (140, 200), (200, NODES))]
    edges = pairs[:, alike][:, : 4 * NODES]
    return Sample(logits.astype(np.float32), y, edges, features, hidden, *parts)


def probabilities(classes, seed):
    """Nearly calibrated ones, as float64.

    Rounded, because randomised scores draw from the bits of a row, and the last bits of ``exp``
    differ from processor to processor.
    """
    z = sample(classes, seed).logits.astype(np.float64) / 1.8
    p: np.ndarray = np.exp(z - z.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).round(10)


def write_files(given):
    """The sample as files of a user in this folder, with names for nodes."""
    names = [f"n{i:03d}" for i in range(NODES)]
    classes = [f"class {c}" for c in range(given.logits.shape[1])]
    write_problem(given.logits.astype(np.float64), given.y, given.graph, names, classes)
    for name, nodes in (("mask", given.mask), ("test", given.test)):
        write(f"{name}.csv", ["id"], *([names[i]] for i in nodes))


def write_shards(folder, given):
    """The sample as a folder of shards."""
    for part in ("logits", "edges", "hidden"):
        (folder / part).mkdir(parents=True)
    for part, array in (("logits", given.logits), ("hidden", given.hidden)):
        np.save(folder / part / "0.npy", array[:120])
        np.save(folder / part / "1.npy", array[120:])
    np.save(folder / "edges" / "0.npy", given.edges)
    np.save(folder / "labels.npy", given.y)
    np.save(folder / "calibration.npy", given.mask)
    np.save(folder / "train.npy", given.train)
