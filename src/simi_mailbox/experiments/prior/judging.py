"""Is a prior worth anything on graphs it was not learned on? Units of the bench, and a table."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simi_mailbox import calibrators
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.experiments import render
from simi_mailbox.experiments.calibration import CalibrationUnit
from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.logits import digest
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.prior.learning import banked_keys
from simi_mailbox.experiments.prior.past_runs import PastRun, read_run, unseen
from simi_mailbox.experiments.store import ResultStore, Row, row_key
from simi_mailbox.experiments.tables.base import Cell, Selection, Table
from simi_mailbox.experiments.tables.result import TableResult
from simi_mailbox.experiments.unit import Unit
from simi_mailbox.models.bank import LogitBank, RunKey
from simi_mailbox.prior import corpus, leave_out, read
from simi_mailbox.prior.families import family_of

BASELINE, LEARNED, FREE = "temperature", "learned prior", "classes free"
METHODS = (BASELINE, "ets", "plain shrinkage", LEARNED, FREE)
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
class JudgedUnit(CalibrationUnit):
    """Methods with and without a prior on one run, banked or in a file.

    Parameters
    ----------
    path, content
        File of a past run, and the digest of what it holds; "" for a run of the logit bank.
    """

    path: str = ""
    content: str = ""

    @property
    def label(self) -> str:
        return self.path or super().label

    def backbone_identity(self) -> str:
        return self.content or super().backbone_identity()

    def seconds(self, durations: Durations) -> float:
        return float(len(self.items))

    def ready(self) -> bool:
        return bool(self.path) or super().ready()

    def prepare(self) -> Any:
        return _source(read_run(self.path)) if self.path else super().prepare()

    def measure(self, item: Method, prepared: Any) -> Row:
        with warnings.catch_warnings():  # the metrics judge, where a fit would warn
            warnings.simplefilter("ignore", CalibrationWarning)
            return super().measure(item, prepared)

    def facts(self, calibrator: Any) -> Row:
        baseline = getattr(calibrator, "baseline_", None)
        if baseline is None or calibrator.prior is None:
            return {}
        fitted = {**baseline, "prior_strength": calibrator.prior_strength_}
        return {"fitted": {name: float(f"{value:.4g}") for name, value in fitted.items()}}


def judged_methods(prior: str, others: Sequence[str] = ()) -> tuple[Method, ...]:
    """What is judged: `METHODS` and others of the registry, all with the defaults of their class.

    Methods that need more than logits and graph cannot be judged on past runs.

    Examples
    --------
    >>> [str(method) for method in judged_methods("learned", ["gats"])][2:]
    ['simi-mailbox', 'simi-mailbox', 'simi-mailbox-free', 'gats']
    """
    for name in others:
        more = calibrators.get(name).needs - {"graph"}
        if more:
            able = [n for n in calibrators.names() if calibrators.get(n).needs <= {"graph"}]
            raise ValueError(
                f"{name} needs {' and '.join(sorted(more))}, which past runs do not hold; "
                f"choices: {', '.join(able)}"
            )
    always = (
        Method.as_shipped("temperature"),
        Method.as_shipped("ensemble-temperature"),
        Method.as_shipped("simi-mailbox", prior=None),
        Method.as_shipped("simi-mailbox", prior=prior),
        Method.as_shipped("simi-mailbox-free", prior=prior),
    )
    known = {method.name for method in always}
    return (*always, *(Method.as_shipped(name) for name in others if name not in known))


def banked_units(
    bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str], others: Sequence[str] = ()
) -> Iterator[JudgedUnit]:
    """Banked runs, each graph judged by the shipped prior learned without its family."""
    for keys in banked_keys(bank, graphs, backbones):
        methods = judged_methods(leave_out(keys[0].dataset), others)
        yield from (JudgedUnit(key, methods) for key in keys)


def file_units(
    paths: Iterable[Path], prior: str, others: Sequence[str] = ()
) -> Iterator[JudgedUnit]:
    """Past runs in files, judged by a prior that was not learned on them; bad files are errors."""
    seen: Counter[tuple[str, str, int]] = Counter()
    for path in paths:
        run = read_run(path)
        try:
            methods = judged_methods(unlearned(run, prior), others)
            source = _source(run)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        place = run.graph_name, run.backbone, run.split
        key = RunKey(run.graph_name, run.backbone, "past", run.split, init=seen[place])
        seen[place] += 1
        yield JudgedUnit(key, methods, path=str(path), content=_content(source))


def unlearned(run: PastRun, prior: str) -> str:
    """Name of a prior that was not learned on this graph or its relatives.

    Of the shipped prior their family is left out. One of a user's own has to be learned anew.

    Examples
    --------
    >>> unlearned(PastRun("mine", "gcn", None, None, None, None), "learned")
    'learned'
    >>> unlearned(PastRun("CoraML", "gcn", None, None, None, None), "learned")[-12:]
    'without cora'
    """
    learned = corpus() if prior == "learned" else read(prior)
    names = [name for name in (run.family, run.graph_name) if name]
    if prior == "learned":  # relatives need not be in the corpus themselves
        names += [known for name in names if (known := _known_family(name)) is not None]
    families = [learned.family_of(name) for name in names]
    family = next((name for name in families if name is not None), None)
    if family is None:
        return prior
    if prior == "learned":
        return leave_out(family)
    raise ValueError(
        f"{prior} was learned on {family!r}, to which {run.graph_name!r} belongs, and a prior is "
        "judged on other graphs; `simi-mailbox prior fit` it without these"
    )


def _known_family(name: str) -> str | None:
    try:
        return family_of(name)
    except ValueError:
        return None


def _source(run: PastRun) -> Any:
    """A past run as what a unit measures: all labelled nodes that nobody saw are test nodes."""
    test = np.flatnonzero(unseen(run))
    return SimpleNamespace(
        logits=run.logits,
        hidden=run.hidden,
        seconds=0.0,
        dataset=SimpleNamespace(y=run.y, graph=run.graph),
        split=SimpleNamespace(train=run.train, val=run.calibration, test=test),
    )


def _content(source: Any) -> str:
    split = source.split
    parts = [source.logits, source.dataset.y, source.dataset.graph.indptr, split.val]
    parts += [source.dataset.graph.indices, [] if split.train is None else split.train]
    parts += [] if source.hidden is None else [source.hidden.to_dense()]
    return row_key({"parts": [digest(part) for part in parts]})


# --- the table ----------------------------------------------------------------------------------


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
    if method == "simi-mailbox":
        return METHODS[2] if row["settings"]["prior"] is None else LEARNED
    return {"ensemble-temperature": "ets", "simi-mailbox-free": FREE}.get(method, method)


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


def marks(p_values: Sequence[float], level: float = 0.05) -> list[str]:
    """Two stars where a difference stays significant among all of these (Holm), one where alone.

    Of many settings some differ significantly by chance, hence two kinds of stars.

    Examples
    --------
    >>> marks([0.001, 0.04, 0.3])
    ['**', '*', '']
    """
    order = np.argsort(p_values)
    strict = [p_values[i] < level / (len(order) - rank) for rank, i in enumerate(order)]
    kept = set(order[: strict.index(False) if False in strict else len(strict)].tolist())
    return ["**" if i in kept else "*" if p < level else "" for i, p in enumerate(p_values)]


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
