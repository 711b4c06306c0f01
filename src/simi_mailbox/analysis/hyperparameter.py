"""How a result depends on a hyper-parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.inputs import as_numpy


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
    """

    parameter: str
    metric: str
    values: Floats
    mean: Floats
    std: Floats
    runs: int
    reference: float
    reference_name: str

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the curve; see `simi_mailbox.plots.sensitivity_curve`."""
        from simi_mailbox.plots import sensitivity_curve

        return sensitivity_curve(self, ax, **options)


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
