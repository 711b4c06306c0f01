"""Is a prior worth anything on graphs it was not learned on? Units of the bench."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simi_mailbox import calibrators
from simi_mailbox.calibrators.simi_mailbox.families import family_of
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED, leave_out, read
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey, digest
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.methods import HIDDEN, Method
from simi_mailbox_bench.prior.learning import cached_keys
from simi_mailbox_bench.prior.past_runs import PastRun, read_run, unseen
from simi_mailbox_bench.runner import Durations
from simi_mailbox_bench.store import Row, row_key


@dataclass(frozen=True)
class JudgedUnit(CalibrationUnit):
    """Methods with and without a prior on one run, cached or in a file.

    Parameters
    ----------
    path, content
        File of a past run, and the digest of what it holds; "" for a run of the run cache.
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
        fitted = getattr(calibrator, "coefficients_", None)
        if fitted is None or getattr(calibrator, "prior", None) is None:
            return {}
        return {"fitted": {name: float(f"{value:.4g}") for name, value in fitted.items()}}


def judged_methods(
    prior: str, others: Sequence[str] = (), *, hidden: bool = False
) -> tuple[Method, ...]:
    """What is judged: what the table always shows, and others of the registry, all as shipped.

    ``hidden`` says that the run has a hidden layer. Methods that need more than logits and graph
    cannot be judged on past runs.

    Examples
    --------
    >>> [str(method) for method in judged_methods("learned", ["gats"])][2:]
    ['simi-mailbox', 'simi-mailbox', 'simi-mailbox-free', 'gats']
    """
    for name in others:
        more = calibrators.get(name).required_inputs - {"graph"}
        if more:
            able = [
                n for n in calibrators.names() if calibrators.get(n).required_inputs <= {"graph"}
            ]
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
    """Name of a prior that was not learned on this graph or its relatives.

    Of the shipped prior their family is left out. One of a user's own has to be learned anew.

    Examples
    --------
    >>> unlearned(PastRun("mine", "gcn", None, None, None, None), "learned")
    'learned'
    >>> unlearned(PastRun("CoraML", "gcn", None, None, None, None), "learned")[-12:]
    'without cora'
    """
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
