"""The demonstration: two graphs, a simple GNN each, and what calibration does to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simi_mailbox import calibrators, metrics, models
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.digits import digits
from simi_mailbox.data.split import Split
from simi_mailbox.data.synthetic import copied_pages

GCN = models.Settings(hidden=16, epochs=200)
"""The size and the epochs of Kipf and Welling's GCN."""

TITLES = {
    "copies": "Pages and copies, simple graph convolution",
    "digits": "Handwritten digits, two-layer GCN",
}
"""The examples, and what their tables and reports are called."""

METHODS = ("uncalibrated", "temperature", "simi-mailbox")


@dataclass(frozen=True)
class Outcome:
    """One row of the demonstration's table."""

    method: str
    accuracy: float
    ece: float
    noise_floor: float
    nll: float
    brier: float


@dataclass(frozen=True)
class Demonstration:
    """Everything the demonstration computed, for printing and drawing."""

    title: str
    dataset: NodeDataset
    split: Split
    logits: Any
    probabilities: dict[str, Any]
    outcomes: list[Outcome]


def run_demo(seed: int = 0, example: str = "copies") -> Demonstration:
    """Train a GNN, calibrate it on some nodes, judge it on the others.

    ``"copies"`` is made: pages that are witnesses of their own, and copies that a model which adds
    up neighbours takes for as many witnesses, so that one temperature cannot be right.
    ``"digits"`` is real: images joined to their nearest neighbours, where one temperature is
    nearly all that is needed.

    Examples
    --------
    >>> from simi_mailbox.demo import run_demo
    >>> before, temperature, after = run_demo().outcomes
    >>> before.accuracy == after.accuracy, after.ece < temperature.ece / 2
    (True, True)
    """
    dataset, logits = _copies(seed) if example == "copies" else _digits(seed)
    split = dataset.official[0]
    probabilities = {}
    for method in METHODS:
        calibrator = calibrators.get(method)()
        calibrator.fit(logits, dataset.y, graph=dataset.graph, mask=split.val)
        probabilities[method] = calibrator.predict_proba(logits, graph=dataset.graph)
    outcomes = [
        judge(name, probs[split.test], dataset.y[split.test])
        for name, probs in probabilities.items()
    ]
    return Demonstration(TITLES[example], dataset, split, logits, probabilities, outcomes)


def _copies(seed: int) -> tuple[NodeDataset, Any]:
    from sklearn.linear_model import LogisticRegression

    pages = copied_pages(seed=seed)
    train = pages.dataset.official[0].train
    # Logistic regression on sums over neighbours: the simplest graph convolution (Wu et al., 2019).
    model = LogisticRegression(max_iter=1000).fit(pages.sums[train], pages.dataset.y[train])
    return pages.dataset, model.decision_function(pages.sums)


def _digits(seed: int) -> tuple[NodeDataset, Any]:
    dataset = digits()
    run = models.train(dataset, dataset.official[0], "gcn", seed=seed, settings=GCN)
    return dataset, run.logits.numpy()


def judge(method: str, probs: Any, y: Any) -> Outcome:
    """Measure one method on the test nodes."""
    return Outcome(
        method=method,
        accuracy=metrics.accuracy(probs, y),
        ece=metrics.ece(probs, y),
        noise_floor=metrics.noise_floor(probs).mean,
        nll=metrics.nll(probs, y),
        brier=metrics.brier(probs, y),
    )
