"""From past graphs, whose labels are all known, to the settings of a corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.files import cache_folder
from simi_mailbox.grouping import find_groups
from simi_mailbox.prior.baseline import (
    Baseline,
    Belief,
    blend,
    fit_baseline,
    nearest_exponents,
    promise,
)
from simi_mailbox.prior.evidence import EXPONENTS
from simi_mailbox.prior.families import family_of
from simi_mailbox.prior.model import (
    LEVEL,
    PLAIN,
    VAGUE,
    VAGUE_BLIND,
    Corpus,
    Setting,
    between_groups,
)
from simi_mailbox_bench.backbones.cached_runs import CachedRun, RunCache, RunKey
from simi_mailbox_bench.datasets.catalogue import find
from simi_mailbox_bench.prior.looks import Look, look_at, refreshed
from simi_mailbox_bench.prior.past_runs import PastRun

GROUPS = 20
"""As many as `SimiMailbox` makes by default."""
FEWEST_RUNS = 3
FEWEST_NODES = 1000
"""Smaller graphs leave so few nodes to look at that they would add noise like a large one's."""
ENOUGH = 4000
"""Nodes that the coefficients of a graph are fitted on: more do not tell them better."""
PROTOCOLS = ("folds", "official")
KEPT = "looks-2"
"""Folder of the user's cache for what was looked at; its number changes with what a look holds."""

Name = tuple[str, str, str]
"""Graph, family and backbone."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What was looked at in a run, with its own calibration nodes and with fresh ones."""

    own: Look
    fresh: Look


@dataclass(frozen=True, eq=False)
class Residuals:
    """What is wrong on the nodes of a past run that were neither trained nor calibrated on.

    Attributes
    ----------
    confidence, residual : arrays
        Of these nodes, after the baseline that the calibration nodes gave: what it says of the
        predicted class, and correct − confidence.
    group : array
        Group as `SimiMailbox` makes them.
    plain_confidence, plain_residual : arrays
        The same after temperature scaling.
    similarity, degree : arrays
        Overlap with the neighbours, and their number.
    labels, error
        See `Look`.
    """

    confidence: Floats
    residual: Floats
    group: Ints
    plain_confidence: Floats
    plain_residual: Floats
    similarity: Floats
    degree: Ints
    labels: int
    error: float

    def luck(self) -> tuple[float, float]:
        """Mean residual × e c / n, and (e c / n)², of the mean confidence c."""
        term = self.error * float(self.confidence.mean()) / self.labels
        return float(self.residual.mean()) * term, term**2

    def between(self) -> tuple[float, float]:
        """Variance between groups, and of one node's residual."""
        c = self.confidence
        variance = c * (1.0 - c)
        count, total, spread = (
            np.bincount(self.group, values, minlength=GROUPS).astype(np.float64)
            for values in (np.ones(len(c)), self.residual, variance)
        )
        return between_groups(total, spread, count)[0], float(variance.mean())


def vague(terms: Iterable[str]) -> Belief:
    """What is believed while a corpus is being made."""
    names = (*terms, "blind")
    return Belief(
        {name: VAGUE_BLIND if name == "blind" else 0.0 for name in names},
        {name: VAGUE[name] for name in names},
    )


def coefficients(look: Look, inputs: str) -> dict[str, float]:
    """The baseline that fits the nodes whose labels nobody had: its terms, and its blind share.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> look = look_at(PastRun("a", "gcn", p.logits, p.y, p.graph, range(100)))
    >>> sorted(coefficients(look, "plain"))[:3]
    ['around', 'blind', 'far']
    """
    rows = slice(look.labels, look.labels + ENOUGH)
    gaps, terms, classes = look.evidence(inputs, rows)
    belief = vague((*EXPONENTS, *classes))
    y = torch.from_numpy(look.y[rows])
    found, blind = fit_baseline(gaps, terms, classes, y, 1.0, belief, freedom=None)
    return {**found.terms, "blind": blind}


def residuals_of(look: Look, belief: Callable[[str], Belief], *, keep_classes: bool) -> Residuals:
    """What the baseline of the calibration nodes leaves wrong elsewhere.

    ``belief`` is what other graphs say of baselines with some inputs.
    """
    inputs = look.inputs[-1]
    mine, others = slice(0, look.labels), slice(look.labels, None)
    believed = belief(inputs)
    gaps, terms, classes = look.evidence(inputs, mine)
    y = torch.from_numpy(look.y)
    baseline, _ = fit_baseline(gaps, terms, classes, y[mine], 1.0, believed, doubt=True)
    gaps, terms, classes = look.evidence(inputs, others)
    plain = gaps.double().softmax(dim=1).amax(dim=1).numpy()
    sure, due, chosen = _confidence(baseline, gaps, terms, classes, keep_classes=keep_classes)
    right = chosen == look.y[others]
    points = np.stack([sure, look.similarity[others]], axis=1)
    group = find_groups(points, min(GROUPS, len(sure))).assign(points)
    return Residuals(
        confidence=due,
        residual=right - due,
        group=group,
        plain_confidence=plain,
        plain_residual=(gaps.argmax(dim=1).numpy() == look.y[others]) - plain,
        similarity=look.similarity[others],
        degree=look.degree[others],
        labels=look.labels,
        error=look.error,
    )


def _confidence(
    baseline: Baseline, gaps: Any, terms: Any, classes: Any, *, keep_classes: bool
) -> tuple[Floats, Floats, Ints]:
    """Of nodes after a baseline: confidence, what groups owe to it, and predicted class."""
    exponents = baseline.exponents(terms, 1.0)
    used = {name: classes[name] for name in baseline.classes}
    scores = baseline.scores(exponents, gaps, used).double()
    predicted = gaps if keep_classes else scores
    due = promise(predicted, scores)
    if keep_classes:
        scores = gaps * nearest_exponents(gaps, exponents, scores).exp()[:, None]
    sure = scores.softmax(dim=1).amax(dim=1)
    for part in (sure, due):
        blend(part, baseline.blind, gaps.shape[1])
    return sure.numpy(), due.numpy(), predicted.argmax(dim=1).numpy()


def learn(run: PastRun) -> Learned:
    """Look at a run with its own calibration nodes, and with fresh ones."""
    return Learned(look_at(run), look_at(refreshed(run)))


def gather(runs: Iterable[PastRun], facts: dict[str, Any] | None = None) -> list[Setting]:
    """Settings of a corpus: runs of the same graph and backbone are averaged.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> run = PastRun("a", "gcn", p.logits, p.y, p.graph, range(100))
    >>> [(s.graph, s.runs) for s in gather([run, run])]
    [('a', 2)]
    """
    found: dict[Name, list[Learned]] = defaultdict(list)
    for run in runs:
        found[run.graph_name, run.family or run.graph_name, run.backbone].append(learn(run))
    return settings_of(found, dict.fromkeys(found, facts or {}))


def settings_of(
    found: dict[Name, list[Learned]], facts: dict[Name, dict[str, Any]]
) -> list[Setting]:
    """Settings from what was looked at, in two rounds.

    First the coefficients that fit each graph. Then what is left wrong by a baseline that believes
    in those of *other families*: its luck, and the variance between its groups.
    """
    fits = {
        name: {
            inputs: _means([coefficients(run.own, inputs) for run in runs])
            for inputs in runs[0].own.inputs
        }
        for name, runs in found.items()
    }
    first = {name: _first(name, runs, fits[name]) for name, runs in found.items()}
    made = []
    for name, runs in found.items():
        others = [setting for key, setting in first.items() if key[1] != name[1]]
        kept, free = (_level(runs, others, keep_classes=keep) for keep in (True, False))
        lucky = _means([_lucky(run.own) for run in runs])
        labels = min(run.own.labels for run in runs)
        numbers: dict[str, Any] = {key: fits[name]["plain"][key] for key in PLAIN}
        numbers |= {**kept, **lucky, "facts": facts[name], "fits": fits[name], "free": free}
        graph, family, backbone = name
        made.append(Setting(graph, family, backbone, len(runs), labels, **numbers))
    return made


def _first(name: Name, runs: Sequence[Learned], fits: dict[str, dict[str, float]]) -> Setting:
    """A setting of which nothing but its coefficients is known."""
    numbers: dict[str, Any] = {key: fits["plain"][key] for key in PLAIN}
    numbers |= {**dict.fromkeys(LEVEL, 1.0), "fits": fits}
    graph, family, backbone = name
    return Setting(graph, family, backbone, len(runs), runs[0].own.labels, **numbers)


def _level(
    runs: Sequence[Learned], others: Sequence[Setting], *, keep_classes: bool
) -> dict[str, float]:
    beliefs = Corpus(tuple(others)).prior().beliefs if others else {}

    def belief(inputs: str) -> Belief:
        if inputs in beliefs:
            return beliefs[inputs]
        return vague((*EXPONENTS, *runs[0].own.terms_of(inputs)))

    found = []
    for run in runs:
        own, fresh = (
            residuals_of(x, belief, keep_classes=keep_classes) for x in (run.own, run.fresh)
        )
        luck, weight = own.luck()
        between, variance = own.between()
        again, its_weight = fresh.luck()
        numbers = luck, weight, between, variance, again * weight / its_weight
        found.append(dict(zip((*LEVEL, "fresh_luck"), numbers, strict=True)))
    return _means(found)


def _lucky(look: Look) -> dict[str, float]:
    """(e' − e) / (1 − e') and e' / (n (1 − e')) of the error rates; see `Setting`."""
    weight = 1.0 / (1.0 - look.elsewhere)
    right = weight * (look.elsewhere - look.wrong)
    return {"lucky": right, "lucky_weight": weight * look.elsewhere / look.labels}


def _means(tables: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([table[name] for table in tables])) for name in tables[0]}


# --- the logit bank -----------------------------------------------------------------------------


def banked_settings(
    bank: RunCache,
    graphs: Sequence[str],
    backbones: Sequence[str],
    tell: Callable[[str], None] = lambda line: None,
) -> list[Setting]:
    """Settings of all graphs and backbones of which the bank holds runs; none is trained.

    What was looked at is kept in the user's cache: who learns again looks at new runs only.
    """
    found: dict[Name, list[Learned]] = {}
    facts = {}
    for keys in banked_keys(bank, graphs, backbones, FEWEST_NODES):
        first = keys[0]
        name = find(first.dataset).name, family_of(first.dataset), first.backbone
        found[name] = [one for key in keys if (one := banked_look(bank, key)) is not None]
        facts[name] = {
            "protocol": first.protocol,
            "nodes": find(first.dataset).nodes,
            "training": bank.path(first).stem.rsplit("-", 1)[1],
        }
        tell(f"{name[0]} {name[2]}: {len(found[name])} runs")
    return settings_of(found, facts)


def banked_look(bank: RunCache, key: RunKey) -> Learned | None:
    """What was looked at in a banked run, now or before; None if the bank has no such run."""
    source = bank.path(key)
    folder = cache_folder(KEPT) / source.relative_to(bank.root).with_suffix("")
    paths = [folder / f"{part}.npz" for part in ("own", "fresh")]
    made = source.stat().st_mtime if source.is_file() else np.inf
    if all(path.is_file() and path.stat().st_mtime > made for path in paths):
        return Learned(*(Look.load(path) for path in paths))
    banked = bank.find(key)
    if banked is None:
        return None
    found = learn(past_run(banked))
    for path, look in zip(paths, (found.own, found.fresh), strict=True):
        look.save(path)
    return found


def banked_keys(
    bank: RunCache, graphs: Sequence[str], backbones: Sequence[str], least_nodes: int = 0
) -> Iterator[list[RunKey]]:
    """Banked runs of every setting: published training settings, first initialisation.

    A graph is taken under the protocol it is published with: the official splits where it has
    those only, the folds elsewhere.
    """
    for graph, backbone in product(graphs, backbones):
        if find(graph).nodes < least_nodes:
            continue
        for protocol in PROTOCOLS:
            places = product(range(3), range(10))
            keys = [RunKey(graph, backbone, protocol, s, f) for f, s in places]
            here = [key for key in keys if key in bank]
            if len(here) >= FEWEST_RUNS:
                yield here
                break


def past_run(banked: CachedRun) -> PastRun:
    """A banked run as a past run."""
    dataset, split = banked.dataset, banked.split
    y = np.where(dataset.labelled, dataset.y, -1)
    y[split.val] = dataset.y[split.val]  # Citeseer's folds hold nodes of no known class
    return PastRun(
        graph_name=dataset.name,
        backbone=banked.key.backbone,
        family=family_of(dataset.name),
        logits=banked.logits,
        y=y,
        graph=dataset.graph,
        calibration=split.val,
        train=split.train,
        split=banked.key.split,
        hidden=banked.hidden,
    )
