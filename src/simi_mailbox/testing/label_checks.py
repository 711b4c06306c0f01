"""Whether labels that tell nothing are believed: a check for leaks of a node's own label.

Balanced labels, permuted among the calibration nodes, say nothing about which node has which. With
ℓ = log q of the fitted probabilities, Σ ℓ_i(y_i) − Σ mean of ℓ_i over all labels is zero in the
mean for probabilities made without these labels, and the number of parameters for a maximum of
their likelihood. A statistic that holds a node's own label, or lacks it in a total that is shared,
gives many times that.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.testing.cases import Case, CheckProblem, check, require

SIZES = ((20, 2), (60, 3), (150, 15))
"""Calibration labels, and classes."""
MANY_SIZES = (*SIZES, (200, 50), (2000, 4))
DEVIATIONS = 3.0
"""Standard deviations of chance that are granted."""


class PermutedGain(NamedTuple):
    """Σ ℓ(y) less its mean over permutations of the labels, and the deviation of that by chance."""

    labels: int
    classes: int
    gain: float
    deviation: float


@check(
    "permuted labels tell nothing",
    "leave a node's own label out of what is fitted on it, and do not take it out of totals that "
    "other nodes share; a method that fits many numbers says how many in `num_parameters`",
)
def _permuted(case: Case) -> None:
    for found in permuted_gains(case):
        granted = case.cls.num_parameters(found.classes) + DEVIATIONS * found.deviation
        require(
            found.gain <= granted,
            f"with {found.labels} permuted labels of {found.classes} classes the log likelihood is "
            f"{found.gain:.0f} above chance, where {granted:.0f} is granted",
        )


def permuted_gains(
    case: Case, sizes: tuple[tuple[int, int], ...] = SIZES
) -> Iterator[PermutedGain]:
    """Means over graphs of all shapes, which share logits and labels."""
    for labels, classes in sizes:
        rng, n = np.random.default_rng(labels + classes), 2 * labels
        logits = rng.normal(size=(n, classes)) * 2
        y = rng.permutation(np.arange(n) % classes)
        mask = np.sort(rng.choice(n, labels, replace=False))
        y[mask] = rng.permutation(np.arange(labels) % classes)
        features = rng.normal(size=(n, 8)).astype(np.float32)
        share = np.bincount(y[mask], minlength=classes) / labels
        found = []
        for edges in _graphs(logits.argmax(axis=1), rng):
            others = np.setdiff1d(np.arange(n), mask)
            problem = CheckProblem(logits, y, edges, features, mask, others)
            probs = np.asarray(case.refitted(problem, holdout=False))[mask]
            logs = np.log(np.maximum(probs, 1e-12))
            mean = logs @ share
            variance = float(((logs - mean[:, None]) ** 2 @ share).sum())
            found.append(((logs[np.arange(labels), y[mask]] - mean).sum(), variance**0.5))
        # Deviations are averaged as they are: on the same labels they are not independent.
        yield PermutedGain(labels, classes, *np.mean(found, axis=0).tolist())


def _graphs(predicted: Ints, rng: np.random.Generator) -> list[Ints]:
    """Edges of a random graph, stars, small dense components, bipartite ones, and among equals."""
    n = len(predicted)
    node, order = np.arange(n), np.argsort(predicted, kind="stable")
    left = node[node % 6 < 3]
    alike = [np.stack([order[:-d], order[d:]]) for d in (1, 2)]
    pairs = np.concatenate(alike, axis=1)
    cliques = [np.stack([node, node - node % 5 + d]) for d in range(5)]
    bipartite = [np.stack([left, left - left % 6 + 3 + d]) for d in range(3)]
    return [
        rng.integers(n, size=(2, 2 * n)),
        np.stack([node, node - node % 9]),
        np.concatenate(cliques, axis=1).clip(max=n - 1),
        np.concatenate(bipartite, axis=1).clip(max=n - 1),
        pairs[:, predicted[pairs[0]] == predicted[pairs[1]]],
    ]
