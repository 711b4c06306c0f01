"""What judged rows say: differences paired by split, their significance, and a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from simi_mailbox.experiments.prior.judge import LEARNED, METHODS, METRICS

MAIN = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")

_STARS = (
    "One star: the 95 % interval over splits (Student's t) leaves zero out. Two stars: it still "
    "does when all settings of a table are to be right together with 95 % (Holm). Of twenty "
    "settings without any true difference, one gets a star by chance."
)


def difference_by_split(
    rows: Iterable[Mapping[str, Any]], metric: str, method: str, other: str
) -> tuple[float, float]:
    """Mean of (method − other) paired by run, and its standard error over splits.

    Runs of one split share their test nodes, so a split counts as one observation.

    Examples
    --------
    >>> rows = [{"split": s, "method": m, "ece": e} for s, m, e in
    ...         [(0, "a", 0.2), (0, "b", 0.1), (1, "a", 0.4), (1, "b", 0.1)]]
    >>> [round(v, 3) for v in difference_by_split(rows, "ece", "a", "b")]
    [0.2, 0.1]
    """
    values: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        values[row["split"]][row["method"]].append(row[metric])
    found = [np.mean(v[method]) - np.mean(v[other]) for v in values.values()]
    error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
    return float(np.mean(found)), float(error)


def p_value(difference: float, error: float, splits: int) -> float:
    """Of a mean over splits being zero (Student's t, two-sided).

    Examples
    --------
    >>> round(p_value(2.0, 1.0, splits=10), 3), p_value(2.0, float("nan"), splits=1)
    (0.077, 1.0)
    """
    from scipy.stats import t

    return float(2 * t.sf(abs(difference) / error, splits - 1)) if splits > 1 and error > 0 else 1.0


def marks(p_values: Sequence[float], level: float = 0.05) -> list[str]:
    """Two stars where a difference stays significant among all of these (Holm), one where alone.

    Examples
    --------
    >>> marks([0.001, 0.04, 0.3])
    ['**', '*', '']
    """
    order = np.argsort(p_values)
    strict = [p_values[i] < level / (len(order) - rank) for rank, i in enumerate(order)]
    kept = set(order[: strict.index(False) if False in strict else len(strict)].tolist())
    return ["**" if i in kept else "*" if p < level else "" for i, p in enumerate(p_values)]


def table(rows: Sequence[Mapping[str, Any]], main: Sequence[str] = MAIN) -> str:
    """Markdown: means per setting, differences to temperature scaling paired by split.

    The graphs of ``main`` come first, under a title of their own.

    Of many settings some differ significantly by chance, hence two kinds of stars.
    """
    settings: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        settings[row["graph"], row["backbone"]].append(row)
    parts = []
    first = {key: value for key, value in settings.items() if key[0] in main}
    rest = {key: value for key, value in settings.items() if key[0] not in main}
    other = "Other graphs" if first else "All graphs"
    for title, chosen in (("The seven graphs", first), (other, rest)):
        if chosen:
            parts += [f"## {title}", *(_section(chosen, metric) for metric in METRICS)]
    parts.insert(0, _STARS)
    return "\n\n".join(parts) + "\n"


def _section(settings: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]], metric: str) -> str:
    percent = metric.endswith("ece")
    scale, digits = (100.0, 2) if percent else (1.0, 4)
    title = metric.replace("_", " ").upper() + (" in %" if percent else "")
    methods = list(dict.fromkeys(row["method"] for rows in settings.values() for row in rows))
    lines = [
        f"### {title}",
        "",
        f"| setting | runs | {' | '.join(methods)} | prior − temperature (± s.e. over splits) |",
        "|---|---|" + "---|" * (len(methods) + 1),
    ]
    means = []
    changes = [difference_by_split(rows, metric, LEARNED, METHODS[0]) for rows in settings.values()]
    splits = [len({row["split"] for row in rows}) for rows in settings.values()]
    stars = marks([p_value(*change, n) for change, n in zip(changes, splits, strict=True)])
    for ((graph, backbone), rows), (change, error), mark in zip(
        settings.items(), changes, stars, strict=True
    ):
        values = [
            scale * float(np.mean([r[metric] for r in rows if r["method"] == m])) for m in methods
        ]
        means.append(values)
        runs = sum(row["method"] == LEARNED for row in rows)
        cells = " | ".join(f"{v:.{digits}f}" for v in values)
        name = f"{graph} {backbone.upper()}".replace("|", "\\|")
        spread = "" if np.isnan(error) else f" ± {scale * error:.{digits}f}{mark}"
        lines.append(f"| {name} | {runs} | {cells} | {scale * change:+.{digits}f}{spread} |")
    average = np.mean(means, axis=0)
    better = sum(values[methods.index(LEARNED)] < values[0] for values in means)
    cells = " | ".join(f"**{v:.{digits}f}**" for v in average)
    ours, theirs = np.array(means)[:, methods.index(LEARNED)], np.array(means)[:, 0]
    share = each = ""  # of a debiased error around zero there is no share
    if theirs.mean() > 0:
        share = f"{100 * (ours.mean() / theirs.mean() - 1):+.1f} %; "
    if theirs.min() > 0:
        each = f"; mean of the settings' changes {100 * np.mean(ours / theirs - 1):+.1f} %"
    lines.append(f"| **mean** | | {cells} | {share}better in {better} of {len(means)}{each} |")
    return "\n".join(lines)
