"""What a prior was worth on graphs it was not learned on, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox_bench import render
from simi_mailbox_bench.compare import holm
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.store import ResultStore, Row
from simi_mailbox_bench.tables.base import Cell, Selection, Table, TableResult

BASELINE, LEARNED, FREE = "temperature", "learned prior", "classes free"
NO_PRIOR = "plain shrinkage"
NAMES = {
    "ensemble-temperature": "ets",
    "simi-mailbox": LEARNED,
    "simi-mailbox-free": FREE,
    "simi-mailbox+hidden": f"{LEARNED}, with hidden",
    "simi-mailbox-free+hidden": f"{FREE}, with hidden",
}
# Metric of a row, its unit in the table, digits.
METRICS = {
    "ece": ("percent", 2),
    "debiased_ece": ("percent", 2),
    "kde_ece": ("percent", 2),
    "nll": ("nats", 4),
    "brier": ("raw", 4),
    "accuracy": ("percent", 2),  # higher is better, and only free classes move it
}
MAIN = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")

_STARS = (
    "One star: the 95 % interval over splits (Student's t) leaves zero out. Two stars: it still "
    "does when all settings of a table are to be right together with 95 % (Holm). Of twenty "
    "settings without any true difference, one gets a star by chance."
)


@dataclass(frozen=True)
class JudgedTable(Table):
    """Judged rows: methods by setting in one metric, each against temperature scaling.

    What was judged is known from the rows alone, whose files and graphs may be elsewhere.
    """

    rows: tuple[Row, ...]
    metric: str = "ece"
    unit: str = "percent"
    digits: int = 2
    name: str = "prior"
    shows: str = "the prior on graphs it was not learned on"
    baseline: str | None = BASELINE

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_label(row) for row in self.rows))

    def units(self, selection: Selection) -> list[Unit]:
        return []

    def cells(self, selection: Selection) -> list[Cell]:
        keys: dict[tuple[str, str], dict[str, dict[Any, str]]] = {}
        for row in self.rows:
            setting = keys.setdefault((row["dataset"], row["backbone"]), {})
            place = row["split"], row["fold"], row["init"]
            setting.setdefault(_label(row), {})[place] = row["key"]
        return [
            Cell(*setting, label, found)
            for setting, labels in keys.items()
            for label, found in labels.items()
        ]


def _label(row: Mapping[str, Any]) -> str:
    """What a judged method is called in the table."""
    method = str(row["method"])
    if method == "simi-mailbox" and row["settings"]["prior"] is None:
        return NO_PRIOR
    return NAMES.get(method, method)


def table(store: ResultStore, keys: Iterable[str] | None = None, main: Sequence[str] = MAIN) -> str:
    """Markdown: means per setting, differences to temperature scaling paired by split.

    Parameters
    ----------
    store
        Judged rows.
    keys
        Which of them; by default all.
    main
        Graphs that come first, under a title of their own.
    """
    rows = store.rows() if keys is None else [store[key] for key in keys if key in store]
    first = tuple(row for row in rows if row["dataset"] in main)
    rest = tuple(row for row in rows if row["dataset"] not in main)
    parts = [_STARS]
    for title, chosen in (
        ("The seven graphs", first),
        ("Other graphs" if first else "All graphs", rest),
    ):
        if chosen:
            parts.append(f"## {title}")
            known = set.intersection(*(set(row["metrics"]) for row in chosen))  # older rows: fewer
            for metric, (unit, digits) in METRICS.items():
                if metric not in known:
                    continue
                made = JudgedTable(chosen, metric, unit, digits).result(store, Selection())
                parts.append(_section(metric, made))
    return "\n\n".join(parts) + "\n"


def judged_tables(results: Path) -> dict[str, list[TableResult]]:
    """What `simi-mailbox prior judge` has left in folders beside the store, in each metric."""
    made = {}
    for path in sorted(results.glob("*/rows.jsonl")):
        store, name = ResultStore(path), path.parent.name
        rows = tuple(store.rows())
        known = set.intersection(*(set(row["metrics"]) for row in rows)) if rows else set()
        tables = (
            JudgedTable(rows, metric, *METRICS[metric], name=f"{name}/{metric}")
            for metric in METRICS
            if metric in known
        )
        made[name] = [table.result(store, Selection()) for table in tables]
    return made


def marks(p_values: Sequence[float], level: float = 0.05) -> list[str]:
    """Two stars where a difference stays significant among all of these (Holm), one where alone.

    Of many settings some differ significantly by chance, hence two kinds of stars.

    Examples
    --------
    >>> marks([0.001, 0.04, 0.3])
    ['**', '*', '']
    """
    together = zip(p_values, holm(p_values), strict=True)
    return ["**" if both < level else "*" if p < level else "" for p, both in together]


def _section(metric: str, result: TableResult) -> str:
    title = metric.replace("_", " ").upper() + (" in %" if result.unit == "percent" else "")
    methods = result.methods()
    higher = metric == "accuracy"
    judged = FREE if higher and FREE in methods else LEARNED
    lines = {place: result.line(*place, judged) for place in result.groups()}
    pairs = [line.paired if line else None for line in lines.values()]
    stars = marks([pair.p_value if pair else 1.0 for pair in pairs])
    head = f"{'free' if judged == FREE else 'prior'} − temperature (± s.e. over splits)"
    rows = [["setting", "runs", *methods, head]]
    means = []
    for (place, line), pair, star in zip(lines.items(), pairs, stars, strict=True):
        cells = [result.line(*place, method) for method in methods]
        values = [cell.summary.mean if cell and cell.summary else np.nan for cell in cells]
        means.append(values)
        change = values[methods.index(judged)] - values[methods.index(BASELINE)]
        spread = f" ± {pair.error:.{result.digits}f}{star}" if pair else ""
        rows.append(
            [
                f"{place[0]} {place[1].upper()}",
                str(line.summary.runs if line and line.summary else 0),
                *(f"{value:.{result.digits}f}" for value in values),
                f"{pair.difference if pair else change:+.{result.digits}f}{spread}",
            ]
        )
    array = np.array(means)
    ours, theirs = array[:, methods.index(judged)], array[:, methods.index(BASELINE)]
    better = ours > theirs if higher else ours < theirs
    told = [f"better in {int(better.sum())} of {len(array)}"]
    if higher:
        told.insert(0, f"{ours.mean() - theirs.mean():+.2f} points")
    elif theirs.mean() > 0:  # of a debiased error around zero there is no share
        told.insert(0, f"{100 * (ours.mean() / theirs.mean() - 1):+.1f} %")
    if theirs.min() > 0 and not higher:
        told.append(f"mean of the settings' changes {100 * np.mean(ours / theirs - 1):+.1f} %")
    average = (f"**{value:.{result.digits}f}**" for value in array.mean(axis=0))
    rows.append(["**mean**", "", *average, "; ".join(told)])
    return "\n".join([f"### {title}", "", *render.grid(rows)])
