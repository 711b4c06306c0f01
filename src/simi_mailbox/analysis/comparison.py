"""Several methods on the same nodes, or one with several values of a hyper-parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simi_mailbox import metrics
from simi_mailbox._arrays import Floats
from simi_mailbox.analysis.judged import judged_rows
from simi_mailbox.inputs import as_numpy

Metric = Literal["ece", "nll", "brier", "accuracy"]
_METRICS: dict[str, Any] = {
    "ece": metrics.ece,
    "nll": metrics.nll,
    "brier": metrics.brier,
    "accuracy": metrics.accuracy,
}


@dataclass(frozen=True)
class MethodComparison:
    """One metric of several methods.

    Attributes
    ----------
    metric : str
        Name of the metric.
    names : tuple of str
        Names of the methods.
    values, low, high : float64 [methods]
        The metric on all judged nodes and the ends of its bootstrap interval.
    floor : float64 [methods]
        For the calibration error: what a perfectly calibrated model with the same confidences
        would show on as many nodes, on average. NaN for other metrics.
    level : float
        Coverage of the intervals.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> probs = {"sure": [[0.9, 0.1]] * 4, "unsure": [[0.5, 0.5]] * 4}
    >>> found = analysis.compare_methods(probs, [0, 0, 1, 1], metric="brier")
    >>> dict(zip(found.names, found.values.round(2).tolist()))
    {'sure': 0.82, 'unsure': 0.5}
    """

    metric: str
    names: tuple[str, ...]
    values: Floats
    low: Floats
    high: Floats
    floor: Floats
    level: float


def compare_methods(
    probs: Mapping[str, Any],
    y: Any,
    *,
    nodes: Any = None,
    metric: Metric = "ece",
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> MethodComparison:
    """Compare methods by one metric, with bootstrap intervals.

    Parameters
    ----------
    probs : mapping of str to array [n, K]
        Probabilities of all nodes by name of method.
    y, nodes
        As in `judge`; labels are needed.
    metric : {"ece", "nll", "brier", "accuracy"}
        What to compare.
    level, draws, seed
        As of `metrics.bootstrap_interval`.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([0, 1], [80, 20])
    >>> sure, fair = np.tile([0.99, 0.01], (100, 1)), np.tile([0.8, 0.2], (100, 1))
    >>> table = compare_methods({"sure": sure, "fair": fair}, y, draws=100)
    >>> table.names, table.values.round(2).tolist()
    (('sure', 'fair'), [0.19, 0.0])
    """
    if metric not in _METRICS:
        raise ValueError(f"metric must be one of {', '.join(_METRICS)}, got {metric!r}")
    if not probs:
        raise ValueError("no method to compare: pass at least one name with its probabilities")
    measure = _METRICS[metric]
    values, low, high, floor = [], [], [], []
    for given in probs.values():
        rows = judged_rows(given, y, nodes)
        chosen, labels = rows.probs, rows.known_labels
        values.append(measure(chosen, labels))
        interval = metrics.bootstrap_interval(
            measure, chosen, labels, level=level, draws=draws, seed=seed
        )
        low.append(interval.low)
        high.append(interval.high)
        floor.append(metrics.noise_floor(chosen, seed=seed).mean if metric == "ece" else np.nan)
    return MethodComparison(
        metric,
        tuple(probs),
        np.array(values),
        np.array(low),
        np.array(high),
        np.array(floor),
        level,
    )


@dataclass(frozen=True)
class Sensitivity:
    """A metric over values of one hyper-parameter.

    Attributes
    ----------
    parameter : str
        Name of the hyper-parameter.
    metric : str
        Name of the metric.
    values : float64 [v]
        Values that were tried, ascending.
    mean, std : float64 [v]
        Over runs; population standard deviation, as in the paper.
    runs : int
        Number of runs behind each point.
    reference : float
        The metric of a method without this parameter, for a line to compare with; NaN if none.
    reference_name : str
        Its name.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> found = analysis.sensitivity([5, 10], [[1.0, 3.0], [2.0, 2.0]], parameter="n_groups")
    >>> found.mean.tolist(), found.std.tolist(), found.runs
    ([2.0, 2.0], [1.0, 0.0], 2)
    """

    parameter: str
    metric: str
    values: Floats
    mean: Floats
    std: Floats
    runs: int
    reference: float
    reference_name: str


def sensitivity(
    values: Any,
    scores: Any,
    *,
    parameter: str,
    metric: str = "ECE",
    reference: Any = None,
    reference_name: str = "",
) -> Sensitivity:
    """Summarise scores [values, runs] over the runs.

    Parameters
    ----------
    values : array [v]
        Values of the hyper-parameter.
    scores : array [v, runs]
        The metric at each of them, in each run.
    parameter, metric : str
        Their names.
    reference : float or array of runs, optional
        The metric of a method to compare with.
    reference_name : str
        Its name.

    Examples
    --------
    >>> curve = sensitivity([10, 5], [[3.0, 5.0], [2.0, 2.0]], parameter="groups")
    >>> curve.values.tolist(), curve.mean.tolist(), curve.std.tolist()
    ([5.0, 10.0], [2.0, 4.0], [0.0, 1.0])
    """
    v, table = as_numpy(values).astype(np.float64), as_numpy(scores).astype(np.float64)
    if v.ndim != 1 or table.ndim != 2 or len(table) != len(v):
        raise ValueError(
            f"scores must have shape [values, runs] with {v.size} values, got {list(table.shape)}"
        )
    order = np.argsort(v, kind="stable")
    return Sensitivity(
        parameter,
        metric,
        v[order],
        table[order].mean(axis=1),
        table[order].std(axis=1),
        int(table.shape[1]),
        float("nan") if reference is None else float(np.mean(as_numpy(reference))),
        reference_name,
    )
