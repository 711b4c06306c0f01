"""What a prior is worth on graphs it was not learned on: units of the bench, and Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from simi_mailbox import calibrators
from simi_mailbox.calibrators.simi_mailbox.families import family_of
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED, leave_out, read
from simi_mailbox_bench import render
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey, digest
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.methods import HIDDEN, Method
from simi_mailbox_bench.prior.learning import cached_keys
from simi_mailbox_bench.prior.past_runs import PastRun, read_run, unseen
from simi_mailbox_bench.store import ResultStore, Row, row_key
from simi_mailbox_bench.tables.base import Cell, Selection, Table, TableResult


@dataclass(frozen=True)
class JudgedUnit(CalibrationUnit):
    """Methods with and without a prior on one run: a cached one, or that of a file ``path``."""

    path: str = ""
    content: str = ""

    @property
    def label(self) -> str:
        return self.path or super().label

    def backbone_identity(self) -> str:
        return self.content or super().backbone_identity()

    def ready(self) -> bool:
        return bool(self.path) or super().ready()

    def prepare(self) -> Any:
        return _source(read_run(self.path)) if self.path else super().prepare()


def judged_methods(
    prior: str, others: Sequence[str] = (), *, hidden: bool = False
) -> tuple[Method, ...]:
    """What the table always shows, and others that need logits and graph alone, as shipped."""
    for name in others:
        more = calibrators.get(name).required_inputs - {"graph"}
        if more:
            needs = " and ".join(sorted(more))
            raise ValueError(f"{name} needs {needs}, which past runs do not hold")
    always = (
        Method.as_shipped("temperature"),
        Method.as_shipped("ensemble-temperature"),
        Method.as_shipped("simi-mailbox", prior=None),
        Method.as_shipped("simi-mailbox", prior=prior),
        Method.as_shipped("simi-mailbox-free", prior=prior),
        *(Method.as_shipped(name, prior=prior) for name in HIDDEN if hidden),
    )
    known = {method.name for method in always}
    return (*always, *(Method.as_shipped(name) for name in others if name not in known))


def cached_units(
    cache: RunCache, graphs: Sequence[str], backbones: Sequence[str], others: Sequence[str] = ()
) -> Iterator[JudgedUnit]:
    """Cached runs, each graph judged by the shipped prior learned without its family."""
    for keys in cached_keys(cache, graphs, backbones):
        methods = judged_methods(leave_out(keys[0].dataset), others, hidden=True)
        yield from (JudgedUnit(key, methods) for key in keys)


def file_units(
    paths: Iterable[Path], prior: str, others: Sequence[str] = ()
) -> Iterator[JudgedUnit]:
    """Past runs in files, judged by a prior that was not learned on them; bad files are errors."""
    seen: Counter[tuple[str, str, int]] = Counter()
    for path in paths:
        run = read_run(path)
        try:
            methods = judged_methods(unlearned(run, prior), others, hidden=run.hidden is not None)
            source = _source(run)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        place = run.graph_name, run.backbone, run.split
        key = RunKey(run.graph_name, run.backbone, "past", run.split, init=seen[place])
        seen[place] += 1
        yield JudgedUnit(key, methods, path=str(path), content=_content(source))


def unlearned(run: PastRun, prior: str) -> str:
    """Name of a prior that was not learned on this graph or its relatives."""
    names = [name for name in (run.family, run.graph_name) if name]
    known = [family for name in names if (family := _known_family(name)) is not None]
    if prior == LEARNED:
        return leave_out(known[0]) if known else prior
    relatives = {name for setting in read(prior) for name in (setting.graph, setting.family)}
    found = sorted(relatives & {*names, *known})
    if found:
        raise ValueError(
            f"{prior} was learned on {found[0]!r}, to which {run.graph_name!r} belongs, and a "
            "prior is judged on other graphs; `simi-mailbox prior fit` it without these"
        )
    return prior


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


BASELINE, NO_PRIOR = "temperature", "plain shrinkage"
NAMES = {
    "ensemble-temperature": "ets",
    "simi-mailbox": "learned prior",
    "simi-mailbox-free": "classes free",
    "simi-mailbox+hidden": "learned prior, with hidden",
    "simi-mailbox-free+hidden": "classes free, with hidden",
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


class StoredRow(NamedTuple):
    """In the place of a unit: a row that is there."""

    stored: str

    def key(self, item: None) -> str:
        return self.stored


@dataclass(frozen=True, kw_only=True)
class JudgedTable(Table):
    """Judged rows, known from the rows alone: methods by setting, against temperature scaling."""

    rows: tuple[Row, ...]
    name: str = "prior"
    shows: str = "the prior on graphs it was not learned on"
    baseline: str | None = BASELINE

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_label(row) for row in self.rows))

    def cells(self, selection: Selection) -> list[Cell]:
        units: dict[tuple[str, str, str], dict[Any, Any]] = {}
        for row in self.rows:
            where = row["dataset"], row["backbone"], _label(row)
            place = row["split"], row["fold"], row["init"]
            units.setdefault(where, {})[place] = StoredRow(row["key"])
        return [Cell(*where, None, stored) for where, stored in units.items()]


def _label(row: Mapping[str, Any]) -> str:
    """What a judged method is called in the table."""
    method = str(row["method"])
    if method == "simi-mailbox" and row["settings"]["prior"] is None:
        return NO_PRIOR
    return NAMES.get(method, method)


def table(store: ResultStore, keys: Iterable[str]) -> str:
    """Markdown: the rows ``keys`` in every metric, against temperature scaling on the same runs."""
    made = _tables([store[key] for key in keys])
    return "\n".join(render.markdown(one.result(store, Selection())) for one in made)


def _tables(rows: Sequence[Row], name: str = "prior") -> list[JudgedTable]:
    """One table for each metric that all rows have; older ones have fewer."""
    known = set.intersection(*(set(row["metrics"]) for row in rows)) if rows else set()
    return [
        JudgedTable(
            rows=tuple(rows), metric=metric, unit=unit, digits=digits, name=f"{name}/{metric}"
        )
        for metric, (unit, digits) in METRICS.items()
        if metric in known
    ]


def judged_tables(results: Path) -> dict[str, list[TableResult]]:
    """What `simi-mailbox prior judge` has left in folders beside the store, in each metric."""
    made = {}
    for path in sorted(results.glob("*/rows.jsonl")):
        store = ResultStore(path)
        tables = _tables(store.rows(), path.parent.name)
        made[path.parent.name] = [one.result(store, Selection()) for one in tables]
    return made
