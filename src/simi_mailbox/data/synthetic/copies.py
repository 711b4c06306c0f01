"""`copied_pages`: a graph on which one temperature cannot be right, with its true posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.split import Split
from simi_mailbox.graph import Graph

NOISE = 0.1
"""How much copies of one page differ."""


@dataclass(frozen=True, eq=False)
class CopiedPages:
    """Pages, their links, and the probability with which each is of each class.

    Attributes
    ----------
    dataset : NodeDataset
        With one official split: a sixth of the nodes to train on, a sixth to calibrate on.
    probs : ndarray, float64 [n, classes]
        P(class | all features, all edges, who copies): labels are drawn from these.
    copied : ndarray, bool [n]
        Whether the page belongs to a ring of copies. No model is told.
    sums : ndarray, float64 [n, features]
        Features of a page and of all its neighbours, added up: what the simplest graph
        convolution (Wu et al., 2019) looks at.
    """

    dataset: NodeDataset
    probs: Floats
    copied: Bools
    sums: Floats


def copied_pages(
    n: int = 6000,
    classes: int = 3,
    *,
    share: float = 0.4,
    ring: int = 12,
    degree: int = 8,
    features: int = 4,
    weight: float = 0.6,
    prior: Sequence[float] | None = None,
    seed: int = 0,
) -> CopiedPages:
    """Draw pages of which some are witnesses of their own and some copies of each other.

    Features are Gaussian, and each page says something of its own class: evidence
    s_i = weight · x_i · (class directions). An ordinary page links to ordinary pages, and every
    neighbour is a witness: its class is drawn from softmax(log prior + s_i + Σ_neighbours s_j).
    Pages of a ring have nearly the same features and link to each other: twelve copies of one
    witness are one, and the class is drawn from softmax(log prior + s_i).

    A model that adds up neighbours is too sure of rings and too unsure of the others, and no single
    temperature helps both. Labels are independent given everything, so that the error of any
    probabilities can be measured without the noise of labels.

    Parameters
    ----------
    n, classes
        Number of nodes and of classes.
    share, ring
        Share of rings among groups of ``ring`` consecutive nodes.
    degree
        Mean number of neighbours, about.
    features, weight
        Number of features, and how much they say.
    prior
        Of the classes; all alike without it.
    seed
        Same seed, same graph.

    Examples
    --------
    >>> pages = copied_pages(600, seed=0)
    >>> pages.dataset.official[0], round(float(pages.copied.mean()), 2)
    (Split(train=100, val=100, test=400), 0.38)
    """
    rng = np.random.default_rng(seed)
    circle = np.arange(n) // ring
    copied = (rng.random(circle[-1] + 1) < share)[circle]
    if copied.all() or not copied.any():
        raise ValueError(f"share={share} of {circle[-1] + 1} rings leaves pages of one kind only")
    directions = rng.standard_normal((classes, features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x = rng.standard_normal((n, features))
    original = rng.standard_normal((circle[-1] + 1, features))[circle[copied]]
    x[copied] = original + NOISE * x[copied]
    x = x.astype(np.float32)

    source = rng.integers(0, n, n * degree // 2)
    inside = np.minimum(circle[source] * ring + rng.integers(0, ring, source.size), n - 1)
    anyone = rng.choice(np.flatnonzero(~copied), source.size)
    graph = Graph.from_edges(np.stack([source, np.where(copied[source], inside, anyone)]), n)

    own = x.astype(np.float64)
    links = (np.ones(graph.num_entries), graph.indices.numpy(), graph.indptr.numpy())
    sums = own + sp.csr_array(links, shape=(n, n)) @ own
    told = np.where(copied[:, None], own, sums) @ (weight * directions.T)
    probs = softmax(
        told + np.log(np.full(classes, 1 / classes) if prior is None else prior), axis=1
    )
    drawn = (rng.random((n, 1)) > np.cumsum(probs, axis=1)).sum(axis=1)
    order = rng.permutation(n)
    split = Split(*(np.sort(part) for part in np.split(order, [n // 6, n // 3])))
    dataset = NodeDataset(
        name=f"copied-pages-{n}-{classes}-{seed}",
        graph=graph,
        x=x,
        y=np.minimum(drawn, classes - 1),
        num_classes=classes,
        official=(split,),
        source="synthetic",
    )
    return CopiedPages(dataset, probs, copied, sums)
