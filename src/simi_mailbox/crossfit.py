"""Several calibrators on the same labels, each judged on nodes that it was not fitted on."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.metrics import accuracy, brier, ece, nll
from simi_mailbox.metrics._inputs import check
from simi_mailbox.metrics.sampling import of_weights, resampled
from simi_mailbox.validation import NO_LABEL, as_numpy, read_classes, read_index

METRICS = {"accuracy": accuracy, "ece": ece, "nll": nll, "brier": brier}


def full_length(y: Any, nodes: Ints, n: int) -> Any:
    """Labels of all ``n`` nodes, if those of ``nodes`` were given: −1 where none is known."""
    labels = as_numpy(y, "labels")
    if len(labels) == n:
        return labels
    full: Ints = np.full(n, NO_LABEL)
    full[nodes] = read_classes(labels, nodes, n, of="mask", only_these=True)
    return full


def cross_fitted(calibrator: Any, logits: Any, y: Any, *, mask: Any, **given: Any) -> Floats:
    """Probabilities [m, K] of the nodes of ``mask``, each from a fit that did not see its label.

    ``given`` is what else `cross_fitted_folds` takes.

    >>> from simi_mailbox import TemperatureScaling
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(200, 3, temperature=2.0, seed=0)
    >>> cross_fitted(TemperatureScaling(), problem.logits, problem.y, mask=range(50)).shape
    (50, 3)
    """
    nodes = read_index(mask, len(logits), "mask")
    folds = cross_fitted_folds(calibrator, logits, y, mask=nodes, **given)
    rows: dict[int, Floats] = {}
    for chosen, probs in folds:
        rows |= zip(chosen.tolist(), probs[chosen], strict=True)
    return np.stack([rows[node] for node in nodes.tolist()])


def cross_fitted_folds(
    calibrator: Any,
    logits: Any,
    y: Any,
    *,
    mask: Any,
    early_stopping_mask: Any = None,
    used_for_selection: bool = True,
    folds: int = 5,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
    **inputs: Any,
) -> Iterator[tuple[Ints, Floats]]:
    """Some calibration nodes, and the probabilities of *all* nodes from a fit without their labels.

    The nodes are cut into ``folds`` parts by ``seed``; for each part a copy of the calibrator is
    fitted on the others, and ``advance`` is called.
    """
    nodes = read_index(mask, len(logits), "mask")
    labels = full_length(y, nodes, len(logits))
    if folds < 2:
        raise ValueError(f"folds is {folds}; expected at least 2")
    if nodes.size < 2 * folds:
        raise ValueError(
            f"{nodes.size} calibration nodes are too few for {folds} folds: give at least "
            f"{2 * folds}, or judge on other nodes"
        )
    part = np.random.default_rng(seed).permutation(nodes.size) % folds
    calibrator = copy.copy(calibrator)
    fitting = {"early_stopping_mask": early_stopping_mask, "used_for_selection": used_for_selection}
    for k in range(folds):
        calibrator.fit(logits, labels, mask=nodes[part != k], **fitting, **inputs)
        probs = np.asarray(calibrator.predict_proba(logits, **inputs), dtype=np.float64)
        yield nodes[part == k], probs
        advance()


@dataclass(frozen=True)
class ComparedMethod:
    """One method among others; ``mark`` tells by metric whether it is ``"best"``, ``"tied"`` with
    the best (the paired interval of the difference holds zero), or neither (``""``)."""

    name: str
    values: dict[str, float]
    mark: dict[str, str]


def standings(
    probs: Mapping[str, Array], y: Array, *, level: float = 0.95, draws: int = 500, seed: int = 0
) -> list[ComparedMethod]:
    """Metrics of several methods on the same nodes, the best and what is tied with it: differences
    to the best are bootstrapped over nodes, the same ones for both methods."""
    measured = [
        [of_weights(metric, check(np.asarray(given), np.asarray(y))) for metric in METRICS.values()]
        for given in probs.values()
    ]
    samples = chain([np.ones(len(y), np.int64)], resampled(np.arange(len(y)), draws, seed))
    drawn = np.array(
        [[[value(weights) for value in method] for method in measured] for weights in samples]
    )
    found = [
        ComparedMethod(name, dict(zip(METRICS, drawn[0, k].tolist(), strict=True)), {})
        for k, name in enumerate(probs)
    ]
    for m, metric in enumerate(METRICS):
        losses = drawn[:, :, m] if metric != "accuracy" else -drawn[:, :, m]
        best = losses[0].min()
        # All alike, as accuracy is where every method keeps the predicted classes: none is best.
        alike = best == losses[0].max()
        behind = losses[1:] - losses[1:, [losses[0].argmin()]]
        low = np.quantile(behind, (1 - level) / 2, axis=0)
        for k, method in enumerate(found):
            mark = "best" if losses[0, k] == best else "tied" if low[k] <= 0 else ""
            method.mark[metric] = "" if alike else mark
    return found
