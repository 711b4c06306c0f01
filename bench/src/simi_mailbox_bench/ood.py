"""Out-of-distribution detection: scores, how well one separates nodes, and nodes to test with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from torch import Tensor, nn
from torch.nn import functional as F

from simi_mailbox._arrays import Ints
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.parameters import Count, NonNegative, Positive, check_parameters
from simi_mailbox.sparse import Csr
from simi_mailbox.validation import Labelled, as_numpy, read_classes, read_logits
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.networks import glorot
from simi_mailbox_bench.backbones.training import (
    LowestLoss,
    Progress,
    check_width,
    read_graph,
    read_labels,
    train_loop,
)
from simi_mailbox_bench.datasets.dataset import Split

# --- scores: one number per node, higher for nodes like those trained on ----------------------


def max_probability(logits: Any) -> Tensor:
    """Largest softmax probability (Hendrycks & Gimpel, 2017)."""
    return torch.softmax(read_logits(logits), dim=1).amax(dim=1)


def energy(logits: Any) -> Tensor:
    """Negative free energy log Σ exp(z) (Liu et al., 2020)."""
    return torch.logsumexp(read_logits(logits), dim=1)


def propagated_energy(logits: Any, graph: Any, *, steps: int = 2, keep: float = 0.5) -> Tensor:
    """GNNSafe (Wu et al., 2023): energy, averaged with that of the neighbours ``steps`` times.

    In each step e ← keep · e + (1 - keep) · mean of the neighbours' e, zero without neighbours.
    """
    current = energy(logits)
    neighbourhoods = as_graph(graph, current.numel())
    rows, degree = neighbourhoods.rows(), neighbourhoods.degree.clamp_min(1).to(current.dtype)
    for _ in range(steps):
        received = torch.zeros_like(current).index_add_(0, rows, current[neighbourhoods.indices])
        current = keep * current + (1.0 - keep) * received / degree
    return current


def calibrated_confidence(
    calibrator: Calibrator, logits: Any, graph: Any = None, **inputs: Any
) -> Tensor:
    """Largest calibrated probability; the graph may be another one than the calibrator saw."""
    probs: Tensor = calibrator.predict_proba(read_logits(logits), graph=graph, **inputs)
    return probs.amax(dim=1)


@dataclass(frozen=True)
class Detection:
    """Quality of a score; ``fpr95``: unknown nodes let through with 95 % of the known ones."""

    auroc: float
    aupr: float
    fpr95: float


def evaluate(known: Any, unknown: Any) -> Detection:
    """Compare the scores of known (in-distribution) and unknown nodes."""
    positive, negative = (as_numpy(values).astype(np.float64) for values in (known, unknown))
    scores = np.concatenate([positive, negative])
    if not (positive.size and negative.size) or np.isnan(scores).any():
        raise ValueError("scores of known and unknown nodes are needed, none of them NaN")
    is_known = np.arange(scores.size) < positive.size
    passed_unknown, passed_known, _ = roc_curve(is_known, scores, drop_intermediate=False)
    return Detection(
        auroc=float(roc_auc_score(is_known, scores)),
        aupr=float(average_precision_score(is_known, scores)),
        fpr95=float(passed_unknown[np.searchsorted(passed_known, 0.95)]),
    )


# --- nodes to test with ------------------------------------------------------------------------


def random_blocks(graph: Graph, num_blocks: int, *, seed: int) -> Graph:
    """Structure out of distribution: edges drawn anew by a stochastic block model, as in GNNSafe.

    Nodes are cut by number into blocks of equal size (the last takes the rest). Two nodes are
    joined with 1.5 (same block) or 0.5 times the density of the given graph.
    """
    n = graph.num_nodes
    density = graph.num_entries / max(n * (n - 1), 1)
    rng = np.random.default_rng(seed)
    starts = np.arange(num_blocks) * (n // num_blocks)
    ends = np.append(starts[1:], n)
    parts: list[Ints] = []
    for a in range(num_blocks):
        for b in range(a, num_blocks):
            rows, columns = int(ends[a] - starts[a]), int(ends[b] - starts[b])
            if a == b:
                source, target = _unrank(_draw(rng, rows * (rows - 1) // 2, 1.5 * density))
            else:
                source, target = np.divmod(_draw(rng, rows * columns, 0.5 * density), columns)
            parts.append(np.stack([starts[a] + source, starts[b] + target]))
    return Graph.from_edges(np.concatenate(parts, axis=1), n)


def _draw(rng: np.random.Generator, population: int, probability: float) -> Ints:
    """Numbers 0..population-1, each kept on its own with this probability."""
    if population == 0:
        return np.empty(0, dtype=np.int64)
    drawn: Ints = rng.choice(population, size=rng.binomial(population, probability), replace=False)
    return drawn


def _unrank(pairs: Ints) -> tuple[Ints, Ints]:
    """Turn the number j (j - 1) / 2 + i of a pair i < j into the pair."""
    upper = ((1 + np.sqrt(1 + 8 * pairs.astype(np.float64))) / 2).astype(np.int64)
    return pairs - upper * (upper - 1) // 2, upper


def interpolated_features(x: Any, *, seed: int) -> Any:
    """Features w x_a + (1 - w) x_b of random nodes a, b with random w, for every node."""
    n = x.shape[0]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, n, size=(n, 2))
    weight = rng.random(n, dtype=np.float32)
    weights = np.stack([weight, 1 - weight], axis=1).reshape(-1)
    columns = chosen.reshape(-1), np.arange(0, 2 * n + 1, 2)
    mixture = sp.csr_array((weights, *columns), shape=(n, n))
    return sp.csr_array(mixture @ x) if sp.issparse(x) else np.asarray(mixture @ x)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A problem with fewer classes, -1 for other labels, and the nodes of those left out."""

    y: Ints
    split: Split
    unknown: Ints
    classes: tuple[int, ...]


def leave_out_classes(
    y: Ints, split: Split, unknown: Sequence[int], *, drop: Sequence[int] = ()
) -> LeftOut:
    """Classes ``unknown`` are never seen, nor are those in ``drop``, which do not count at all."""
    y = read_classes(y, np.arange(len(y)), len(y))
    present = {int(k) for k in np.unique(y)}
    known = tuple(sorted(present - {*unknown, *drop}))
    if not unknown or not {*unknown, *drop} <= present or len(known) < 2:
        raise ValueError(
            f"leave out classes that some node has and keep at least two, got unknown="
            f"{list(unknown)} and drop={list(drop)} of classes {sorted(present)}"
        )
    renamed = np.full(len(y), -1, dtype=np.int64)
    for new, old in enumerate(known):
        renamed[y == old] = new
    parts = [part[renamed[part] >= 0] for part in (split.train, split.val, split.test)]
    return LeftOut(renamed, Split(*parts), np.flatnonzero(np.isin(y, list(unknown))), known)


# --- the classifier ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassifierSettings:
    """Training of the classifier; the defaults are GNNSafe's."""

    hidden: Count = 64
    lr: Positive = 0.01
    weight_decay: NonNegative = 1e-2
    epochs: Count = 200
    row_normalise: bool = True

    def __post_init__(self) -> None:
        check_parameters(self)


class _Network(nn.Module):
    def __init__(self, in_dim: int, hidden: int, classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight0 = nn.Parameter(glorot((in_dim, hidden), generator))
        self.bias0 = nn.Parameter(torch.zeros(hidden))
        self.norm = nn.BatchNorm1d(hidden)
        self.weight1 = nn.Parameter(glorot((hidden, classes), generator))
        self.bias1 = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Features, adjacency: Csr) -> Tensor:
        hidden = adjacency @ (x @ self.weight0) + self.bias0
        hidden = F.relu(self.norm(hidden))
        return adjacency @ (hidden @ self.weight1) + self.bias1


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """A trained classifier that can be asked about its own graph or another one."""

    model: nn.Module
    settings: ClassifierSettings
    in_dim: int
    best_epoch: int

    @torch.no_grad()
    def logits(self, x: Any, graph: Any) -> Tensor:
        """Logits [n, K] of every node of a graph whose features mean the same."""
        features, adjacency = read_graph(x, graph, row_normalise=self.settings.row_normalise)
        check_width(features, self.in_dim, "classifier")
        result: Tensor = self.model(features, adjacency)
        return result


def train_classifier(
    x: Any,
    graph: Any,
    y: Any,
    split: Split,
    *,
    num_classes: int | None = None,
    settings: ClassifierSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainedClassifier:
    """Train GNNSafe's GCN with batch normalisation; the validation loss chooses the epoch."""
    settings = settings or ClassifierSettings()
    features, adjacency = read_graph(x, graph, row_normalise=settings.row_normalise)
    n, in_dim = features.shape
    train, val, classes = read_labels(y, split, n, num_classes)
    model = _Network(in_dim, settings.hidden, classes, seed)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )

    def loss(nodes: Labelled) -> Tensor:
        return F.cross_entropy(model(features, adjacency)[nodes.index], nodes.y)

    @torch.no_grad()
    def validate() -> tuple[float]:
        return (float(loss(val)),)

    rule, epochs = LowestLoss(), settings.epochs
    best = train_loop(
        model, optimiser, lambda: loss(train), validate, rule, epochs=epochs, progress=progress
    )
    return TrainedClassifier(model, settings, in_dim, best.epoch)
