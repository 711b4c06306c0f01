"""`csbm`: a synthetic node-classification dataset together with its true class posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.synthetic.block_model import BlockModel, draw_graph
from simi_mailbox.graph import Graph


@dataclass(frozen=True, eq=False)
class SyntheticGraph:
    """A drawn graph and the exact class posteriors of every node, [n, classes], float64.

    Attributes
    ----------
    dataset : NodeDataset
    model : BlockModel
    propensities : ndarray [n]
    given_features : ndarray
        P(y_i | x_i): Bayes' rule for the Gaussian mixture. What the best model without a graph
        can know.
    given_rest : ndarray
        P(y_i | all features, all edges, the classes of all other nodes): what is left uncertain
        when everything but the node's own class is known. P(y_i | features, edges) with the
        other classes unknown lies between the two and has no closed form, so it is not offered.

    Examples
    --------
    >>> drawn = csbm(500, classes=2, seed=0)
    >>> rows = np.arange(500), drawn.dataset.y
    >>> bool(drawn.given_rest[rows].mean() > drawn.given_features[rows].mean())
    True
    """

    dataset: NodeDataset
    model: BlockModel
    propensities: Floats
    given_features: Floats
    given_rest: Floats


def csbm(n: int, classes: int = 4, **parameters: Any) -> SyntheticGraph:
    """Draw a contextual stochastic block model with its true posteriors.

    Parameters
    ----------
    n, classes
        Number of nodes and of classes.
    **parameters
        The other parameters of `BlockModel`: prior, mean_degree, homophily, degree_law,
        exponent, features, separation, noise, seed.

    Examples
    --------
    >>> drawn = csbm(2000, classes=3, homophily=0.9, seed=0)
    >>> drawn.dataset.num_nodes, drawn.given_rest.shape
    (2000, (2000, 3))
    >>> 0.85 < drawn.dataset.homophily() < 0.95
    True
    """
    model = BlockModel(n, classes, **parameters)
    labels, theta = model.labels(), model.propensities()
    dataset = NodeDataset(
        name=f"csbm-{n}-{classes}-{model.seed}",
        graph=draw_graph(model, labels, theta),
        x=model.node_features(labels),
        y=labels,
        num_classes=classes,
        source="synthetic",
    )
    evidence = _feature_evidence(model, dataset.x)
    rest = evidence + _edge_evidence(model, dataset.graph, labels, theta)
    return SyntheticGraph(dataset, model, theta, _normalise(evidence), _normalise(rest))


def _normalise(evidence: Floats) -> Floats:
    posterior = np.exp(log_softmax(evidence, axis=1))
    posterior.flags.writeable = False
    return np.asarray(posterior)


def _feature_evidence(model: BlockModel, x: Any) -> Floats:
    # log π_k - |x - μ_k|² / 2σ², without the |x|² that all classes share.
    means = model.means()
    scores = x.astype(np.float64) @ means.T - (means**2).sum(axis=1) / 2
    return np.asarray(np.log(model.class_probabilities) + scores / model.noise**2)


def _edge_evidence(model: BlockModel, graph: Graph, labels: Ints, theta: Floats) -> Floats:
    """Log-likelihood, up to a constant, of a node's edges and non-edges for each class of it.

    An edge contributes log(1 - exp(-λ)), a missing one -λ; so the sum is that of
    log(exp(λ) - 1) over neighbours minus the sum of λ over all other nodes. λ depends only on
    whether the two classes agree, which makes this linear in the number of edges.
    """
    n, classes = model.n, model.classes
    within, between = model.rates
    rows, columns = graph.rows().numpy(), graph.indices.numpy()
    product = theta[rows] * theta[columns]
    agree, differ = (_log_expm1(product * rate) for rate in (within, between))
    gain = np.bincount(
        rows * classes + labels[columns], weights=agree - differ, minlength=n * classes
    ).reshape(n, classes)
    weight: Floats = np.bincount(labels, weights=theta, minlength=classes).astype(np.float64)
    others = np.tile(weight, (n, 1))
    others[np.arange(n), labels] -= theta
    return np.asarray(gain - theta[:, None] * (within - between) * others)


def _log_expm1(rate: Floats) -> Floats:
    # The floor stands for the logarithm of 0 where a kind of edge is impossible.
    return np.asarray(np.log(np.maximum(np.expm1(rate), np.finfo(np.float64).tiny)))
