"""The demonstration: a real graph, a classic GNN, and what calibration does to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simi_mailbox import calibrators, metrics, models
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.digits import digits
from simi_mailbox.data.split import Split

GCN = models.Settings(hidden=16, epochs=200)
"""The size and the epochs of Kipf and Welling's GCN."""

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

    dataset: NodeDataset
    split: Split
    logits: Any
    probabilities: dict[str, Any]
    outcomes: list[Outcome]


def run_demo(seed: int = 0) -> Demonstration:
    """Train a GCN on the digits graph, calibrate it on 500 nodes, judge it on the others.

    Examples
    --------
    >>> from simi_mailbox.demo import run_demo
    >>> demo = run_demo()
    >>> before, after = demo.outcomes[0], demo.outcomes[-1]
    >>> before.accuracy == after.accuracy, after.ece < before.ece / 4
    (True, True)
    """
    dataset = digits()
    split = dataset.official[0]
    logits = models.train(dataset, split, "gcn", seed=seed, settings=GCN).logits.numpy()
    probabilities = {}
    for method in METHODS:
        calibrator = calibrators.get(method)()
        calibrator.fit(logits, dataset.y, graph=dataset.graph, mask=split.val)
        probabilities[method] = calibrator.predict_proba(logits, graph=dataset.graph)
    outcomes = [
        judge(name, probs[split.test], dataset.y[split.test])
        for name, probs in probabilities.items()
    ]
    return Demonstration(dataset, split, logits, probabilities, outcomes)


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
