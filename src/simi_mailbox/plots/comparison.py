"""Methods held against each other, and a hyper-parameter turned."""

from __future__ import annotations

from typing import Any

import numpy as np

from simi_mailbox.analysis import MethodComparison, Sensitivity
from simi_mailbox.plots.style import ACCENT, INK, MUTED, RULE, above_axes, axes, percent, tidy

_TITLES = {
    "ece": "expected calibration error",
    "nll": "negative log-likelihood (nats)",
    "brier": "Brier score",
    "accuracy": "accuracy",
}


def method_comparison(table: MethodComparison, ax: Any = None, *, color: str = ACCENT) -> Any:
    """Draw one metric of several methods with intervals, and the noise floor where there is one.

    Parameters
    ----------
    table : MethodComparison
        As of `analysis.compare_methods`.
    color : str
        Colour of the marks.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.analysis import compare_methods
    >>> p = np.tile([0.8, 0.2], (50, 1))
    >>> table = compare_methods({"one": p}, np.repeat([0, 1], [40, 10]), draws=50)
    >>> [tick.get_text() for tick in method_comparison(table).get_yticklabels()]
    ['one']
    """
    count = len(table.names)
    ax = axes(ax, (5.6, 0.9 + 0.42 * count))
    place = np.arange(count)[::-1]
    if not np.isnan(table.floor).any():
        ax.barh(place, table.floor, height=0.62, color=RULE, linewidth=0, label="noise floor")
    ax.hlines(place, table.low, table.high, color=color, linewidth=2.2, alpha=0.55)
    ax.plot(table.values, place, "o", color=color, markersize=6.5)
    for value, high, y in zip(table.values, table.high, place, strict=True):
        text = f"{100 * value:.1f} %" if table.metric in ("ece", "accuracy") else f"{value:.3f}"
        ax.annotate(
            text,
            (max(high, value), y),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )
    ax.set_yticks(place, table.names)
    ax.set_ylim(-0.7, count - 0.3)
    if table.metric != "accuracy":
        ax.set_xlim(0 if table.metric == "ece" else None, None)
    ax.margins(x=0.14)
    ax.set_xlabel(f"{_TITLES[table.metric]}, {100 * table.level:.0f} % interval")
    if table.metric in ("ece", "accuracy"):
        percent(ax, "x")
    tidy(ax, grid="x")
    ax.tick_params(axis="y", labelcolor=INK, length=0)
    if table.metric == "ece":
        above_axes(ax, MUTED)
    return ax


def sensitivity_curve(
    curve: Sensitivity, ax: Any = None, *, label: str | None = None, color: str = ACCENT
) -> Any:
    """Draw a metric over values of a hyper-parameter, with the spread over runs.

    Parameters
    ----------
    curve : Sensitivity
        As of `analysis.sensitivity`.
    label : str, optional
        Name in the legend; that of the hyper-parameter if not given.
    color : str
        Colour of the curve.

    Examples
    --------
    >>> from simi_mailbox.analysis import sensitivity
    >>> curve = sensitivity([5, 10], [[2.0, 3.0], [2.0, 2.0]], parameter="groups", metric="ECE")
    >>> sensitivity_curve(curve).get_xlabel()
    'groups'
    """
    ax = axes(ax, (4.6, 3.2))
    low, high = curve.mean - curve.std, curve.mean + curve.std
    if curve.runs > 1:
        ax.fill_between(curve.values, low, high, color=color, alpha=0.14, linewidth=0)
    ax.plot(
        curve.values, curve.mean, "o-", color=color, markersize=4.5, label=label or curve.parameter
    )
    if not np.isnan(curve.reference):
        name = curve.reference_name or "reference"
        drawn = [line.get_gid() for line in ax.lines]
        if f"reference {name}" not in drawn:
            ax.axhline(
                curve.reference,
                color=MUTED,
                linestyle=(0, (4, 4)),
                linewidth=1.2,
                label=name,
                gid=f"reference {name}",
            )
    ax.set_xticks(curve.values)
    ax.set(xlabel=curve.parameter, ylabel=curve.metric)
    tidy(ax, grid="y")
    ax.legend(frameon=False, fontsize=9, labelcolor=INK)
    return ax
