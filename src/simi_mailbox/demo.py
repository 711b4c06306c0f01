"""The demonstration: two graphs, a simple graph convolution each, and what calibration does."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox import calibrators, metrics
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.graph import Graph
from simi_mailbox.synthetic import copied_pages

TITLES = {
    "copies": "Pages and copies, simple graph convolution",
    "digits": "Handwritten digits, simple graph convolution",
}
"""The examples, and what their tables and reports are called."""

METHODS = ("uncalibrated", "temperature", "simi-mailbox")
METRICS = ("accuracy", "ece", "nll", "brier")

_NEIGHBOURS, _PER_CLASS, _CALIBRATION = 8, 20, 500


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration computed; ``outcomes``: metrics of each method on test nodes."""

    title: str
    graph: Graph
    y: Ints
    val: Ints
    test: Ints
    logits: Any
    probabilities: dict[str, Any]
    outcomes: dict[str, dict[str, float]]


def run_demo(seed: int = 0, example: str = "copies") -> Demonstration:
    """Train a GNN, calibrate it on some nodes, judge it on the others.

    The GNN is the simplest graph convolution (Wu et al., 2019). ``"copies"`` is synthetic
    (`synthetic.copied_pages`): temperature scaling cannot be right. ``"digits"`` is real: images
    joined to their nearest neighbours, where temperature scaling is nearly all that is needed.
    """
    from sklearn.linear_model import LogisticRegression

    if example == "copies":
        pages = copied_pages(seed=seed)
        graph, y, train, val, test = pages.graph, pages.y, pages.train, pages.val, pages.test
        features = pages.sums
    else:
        graph, x, y = digits_graph()
        train, val, test = _digits_split(y, seed)
        features = _neighbour_means(_neighbour_means(x / 16, graph), graph)  # pixels, 0 to 1
    model = LogisticRegression(max_iter=1000).fit(features[train], y[train])
    logits = np.asarray(model.decision_function(features))
    probabilities, outcomes = {}, {}
    for method in METHODS:
        calibrator = calibrators.get(method)().fit(logits, y, graph=graph, mask=val)
        probabilities[method] = probs = calibrator.predict_proba(logits, graph=graph)
        measured = {name: getattr(metrics, name)(probs[test], y[test]) for name in METRICS}
        outcomes[method] = {**measured, "noise_floor": metrics.noise_floor(probs[test]).mean}
    return Demonstration(TITLES[example], graph, y, val, test, logits, probabilities, outcomes)


def digits_graph() -> tuple[Graph, Array, Ints]:
    """Graph, features and classes of scikit-learn's handwritten digits: no download.

    Nodes are the 1,797 images of 8 × 8 pixels (features: the 64 raw pixel values, 0 to 16). Each
    is joined to its 8 nearest neighbours in pixel space.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x, n = np.asarray(bunch.data, dtype=np.float32), len(bunch.data)
    # Pixel values are integers, so squared distances are exact; with the node number as the last
    # digits of the key, ties fall to the lower number on every machine, where a library's
    # neighbour search would leave them open.
    norms = (x.astype(np.int64) ** 2).sum(axis=1)
    distance = norms[:, None] + norms[None, :] - 2 * (x @ x.T).astype(np.int64)
    keys = distance * n + np.arange(n)
    np.fill_diagonal(keys, np.iinfo(np.int64).max)
    nearest = np.argpartition(keys, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    edges = np.stack([nearest.reshape(-1), np.repeat(np.arange(n), _NEIGHBOURS)])
    return Graph.from_edges(edges, n), x, np.asarray(bunch.target, dtype=np.int64)


def _digits_split(y: Ints, seed: int) -> tuple[Ints, Ints, Ints]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(y.size)
    train = np.concatenate([order[y[order] == k][:_PER_CLASS] for k in range(10)])
    rest = rng.permutation(np.setdiff1d(order, train))
    return train, rest[:_CALIBRATION], rest[_CALIBRATION:]


def _neighbour_means(x: Array, graph: Graph) -> Array:
    """Mean of a node's own features and those of its neighbours."""
    total = x.astype(np.float64)
    np.add.at(total, graph.rows().numpy(), x[graph.indices.numpy()])
    return np.asarray(total / (1 + graph.degree.numpy()[:, None]))
