"""From past runs, whose labels are all known, to the settings that a prior is made of."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from simi_mailbox import grouping
from simi_mailbox._arrays import Ints
from simi_mailbox.calibrators.simi_mailbox import calibrator, evidence, model
from simi_mailbox.calibrators.simi_mailbox.evidence import term_names
from simi_mailbox.calibrators.simi_mailbox.families import family_of
from simi_mailbox.calibrators.simi_mailbox.model import Coefficients, Nodes
from simi_mailbox.calibrators.simi_mailbox.prior import MODES, Setting, coefficients_of
from simi_mailbox.softmax import preserve_predictions
from simi_mailbox.validation import CalibrationData, Labelled
from simi_mailbox_bench.backbones.cached_runs import CachedRun, Made, RunCache, RunKey, digest, kept
from simi_mailbox_bench.datasets.catalogue import find
from simi_mailbox_bench.prior.past_runs import PastRun, checked, unseen

FEWEST_RUNS = 3
FEWEST_NODES = 1000
"""Smaller graphs leave so few nodes to look at that they would add noise like a large one's."""
ENOUGH = 4000
"""Nodes that the coefficients of a graph are fitted on: more do not tell them better."""
PROTOCOLS = ("folds", "official")

Name = tuple[str, str, str]
"""Graph, family and backbone."""
Looks = tuple["Look", "Look"]
"""At a run with its own calibration nodes, and with as many that did not choose its checkpoint."""
Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Look:
    """Calibration nodes of a run, and the nodes that were neither trained nor calibrated on.

    Both with the term "hidden" where the run has a hidden layer. ``own`` are the first few thousand
    of the ``labels`` calibration nodes; ``error`` and ``error_elsewhere`` are shares of errors.
    """

    own: Nodes
    others: Nodes
    own_y: Ints
    others_y: Ints
    labels: int
    error: float
    error_elsewhere: float

    @property
    def hidden(self) -> bool:
        """Whether the run has a hidden layer."""
        return len(self.own.classes) == len(evidence.CLASSES)


def _pack(part: str, look: Look) -> dict[str, Tensor]:
    """A look as named tensors, for a file."""
    numbers = torch.tensor([look.labels, look.error, look.error_elsewhere], dtype=torch.float64)
    packed = {f"{part} numbers": numbers}
    for name, nodes, y in (("own", look.own, look.own_y), ("others", look.others, look.others_y)):
        parts = [torch.tensor(y), torch.tensor(nodes.groups), nodes.gaps, nodes.exponents]
        packed |= {f"{part} {name} {i}": x for i, x in enumerate((*parts, *nodes.classes))}
    return packed


def _unpack(part: str, packed: Mapping[str, Tensor]) -> Look:
    labels, *errors = packed[f"{part} numbers"].tolist()
    ends = []
    for name in ("own", "others"):
        names = (f"{part} {name} {i}" for i in itertools.count())
        y, groups, gaps, exponents, *classes = (
            packed[found] for found in itertools.takewhile(packed.__contains__, names)
        )
        ends.append((Nodes(gaps, exponents, classes, groups.numpy()), y.numpy()))
    (own, own_y), (others, others_y) = ends
    return Look(own, others, own_y, others_y, int(labels), *errors)


@functools.cache
def version() -> str:
    """Digest of the code that decides what a look holds: looks of other code are made again."""
    text = "".join(inspect.getsource(part) for part in (calibrator, evidence, grouping, model))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def look_at(run: PastRun) -> Look:
    """Look at one run."""
    run = checked(run)
    z, y = run.logits, torch.from_numpy(run.y)
    mine = Labelled(torch.from_numpy(run.calibration), y[run.calibration])
    chosen = calibrator.enough(mine, z[mine.index])
    data = CalibrationData(logits=z, graph=run.graph, hidden=run.hidden, calibration=mine)
    cal = calibrator.SimiMailbox()
    there = cal._prepare(data, chosen)
    others = torch.from_numpy(np.flatnonzero(unseen(run)))
    wrong = z.argmax(dim=1) != y
    return Look(
        cal._nodes(there.sums(chosen.index)),
        cal._nodes(there.sums(others)),
        chosen.y.numpy(),
        run.y[others.numpy()],
        len(mine),
        float(wrong[mine.index].double().mean()),
        max(float(wrong[others].double().mean()), 1.0 / (len(others) + 2.0)),
    )


def redrawn(run: PastRun) -> PastRun:
    """The same run with as many calibration nodes that had no part in choosing the checkpoint."""
    run = checked(run)
    others = np.flatnonzero(unseen(run))
    count = max(min(len(run.calibration), len(others) // 2), 1)
    drawn = np.random.default_rng(0).choice(others, count, replace=False)
    y = run.y.copy()
    y[run.calibration] = -1  # not looked at either way
    return replace(run, y=y, calibration=np.sort(drawn), hidden=None)


def coefficients(look: Look, *, hidden: bool) -> dict[str, float]:
    """Coefficients that fit the nodes that were neither trained nor calibrated on."""
    if hidden and not look.hidden:
        return {}
    names, nodes, y = term_names(hidden=hidden), look.others, look.others_y[:ENOUGH]
    first = Nodes(
        nodes.gaps[:ENOUGH],
        nodes.exponents[:ENOUGH],
        [part[:ENOUGH] for part in _classes(nodes, hidden=hidden)],
        nodes.groups[:ENOUGH],
    )
    return model.estimate(first, y, names)


def selection_bias(look: Look, belief: Coefficients) -> dict[str, float]:
    """What a fit on the calibration nodes leaves wrong elsewhere.

    "kept", "free": the mean of confidence − correct, times the unit u / n; "weight": (u / n)².
    """
    own, others = (
        replace(nodes, classes=_classes(nodes, hidden=False)) for nodes in (look.own, look.others)
    )
    fitted = model.fit(own, look.own_y, term_names(hidden=False), belief)
    unit = model.bias_unit(fitted, own) / len(look.own_y)
    found = {"weight": unit**2}
    probs = fitted.probabilities(others).double()
    for mode in ("free", "kept"):
        if mode == "kept":
            preserve_predictions(probs, others.gaps.argmax(dim=1))
        top = probs.max(dim=1)
        excess = top.values.numpy() - (top.indices.numpy() == look.others_y)
        found[mode] = float(excess.mean()) * unit
    return found


def _classes(nodes: Nodes, *, hidden: bool) -> list[Tensor]:
    return nodes.classes[: len(term_names(hidden=hidden)) - len(model.EXPONENTS)]


def gather(runs: Iterable[PastRun], tell: Tell = lambda line: None) -> list[Setting]:
    """Settings of past runs: runs of the same graph and backbone are averaged."""
    found: dict[Name, list[Looks]] = defaultdict(list)
    for run in runs:
        name = run.graph_name, run.family or run.graph_name, run.backbone
        found[name].append((look_at(run), look_at(redrawn(run))))
    return settings_of({name: looks.__iter__ for name, looks in found.items()}, tell)


def settings_of(
    found: Mapping[Name, Callable[[], Iterator[Looks]]], tell: Tell = lambda line: None
) -> list[Setting]:
    """Coefficients of each graph; then the selection bias, believing those of other families."""
    fits: dict[Name, tuple[dict[str, float], dict[str, float]]] = {}
    for name, looks in found.items():
        pairs = [(coefficients(x, hidden=False), coefficients(x, hidden=True)) for x, _ in looks()]
        plain, hidden = zip(*pairs, strict=True)
        fits[name] = _means(plain), _means(hidden)
        tell(f"{name[0]} {name[2]}: coefficients of {len(pairs)} runs")
    made = []
    for name, looks in found.items():
        graph, family, backbone = name
        others = [fit for (_, other, _), (fit, _) in fits.items() if other != family]
        belief = coefficients_of(others, hidden=False)
        runs = [_numbers(*pair, belief) for pair in looks()]
        means = _means(runs)
        setting = Setting(
            graph,
            family,
            backbone,
            runs=len(runs),
            labels=int(min(run["labels"] for run in runs)),
            plain=fits[name][0],
            hidden=fits[name][1],
            bias={mode: means[mode] for mode in MODES},
            bias_weight=means["weight"],
            fewer_errors=means["fewer_errors"],
            fewer_errors_weight=means["fewer_errors_weight"],
        )
        made.append(setting)
        tell(f"{graph} {backbone}: selection bias of {len(runs)} runs")
    return made


def _numbers(own: Look, drawn: Look, belief: Coefficients) -> dict[str, float]:
    """All numbers of one run but its coefficients."""
    unselected = selection_bias(drawn, belief)
    right = 1.0 - own.error_elsewhere
    return {
        **selection_bias(own, belief),
        **{f"{mode}_unselected": unselected[mode] for mode in ("kept", "free")},
        "labels": own.labels,
        "fewer_errors": (own.error_elsewhere - own.error) / right,
        "fewer_errors_weight": own.error_elsewhere / (own.labels * right),
    }


def _means(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of every number; none where a table has none."""
    names = set.intersection(*(set(table) for table in tables))
    return {
        name: float(np.mean([table[name] for table in tables]))
        for name in tables[0]
        if name in names
    }


# --- cached networks ------------------------------------------------------------------------------


def cached_settings(
    cache: RunCache,
    graphs: Sequence[str],
    backbones: Sequence[str],
    runs: int | None = None,
    tell: Tell = lambda line: None,
) -> list[Setting]:
    """Settings of all graphs and backbones with cached runs, at most ``runs`` of each."""
    found: dict[Name, Callable[[], Iterator[Looks]]] = {}
    for keys in cached_keys(cache, graphs, backbones, FEWEST_NODES):
        name = find(keys[0].dataset).name, family_of(keys[0].dataset), keys[0].backbone
        some = [key for key in keys[:runs] if cached_look(cache, key) is not None]
        tell(f"{name[0]} {name[2]}: {len(some)} runs looked at")
        if len(some) >= FEWEST_RUNS:
            found[name] = lambda some=some: (  # type: ignore[misc]
                look for key in some if (look := cached_look(cache, key)) is not None
            )
    return settings_of(found, tell)


def cached_look(cache: RunCache, key: RunKey) -> Looks | None:
    """What was looked at in a cached run, now or before; None if there is no such run."""
    cached = cache.find(key)
    if cached is None:
        return None

    def make() -> Made:
        run = past_run(cached)
        return _pack("own", look_at(run)) | _pack("redrawn", look_at(redrawn(run))), {}

    identity = {"run": str(key), "logits": digest(cached.logits), "code": version()}
    packed, _ = kept("looks", identity, make)
    return _unpack("own", packed), _unpack("redrawn", packed)


def cached_keys(
    cache: RunCache, graphs: Sequence[str], backbones: Sequence[str], least_nodes: int = 0
) -> Iterator[list[RunKey]]:
    """Cached first initialisations of every setting, of the folds if there are any."""
    for graph, backbone in product(graphs, backbones):
        if find(graph).nodes < least_nodes:
            continue
        for protocol in PROTOCOLS:
            places = product(range(3), range(10))
            keys = [RunKey(graph, backbone, protocol, s, f) for f, s in places]
            here = [key for key in keys if key in cache]
            if len(here) >= FEWEST_RUNS:
                yield here
                break


def past_run(cached: CachedRun) -> PastRun:
    """A cached run as a past run."""
    dataset, split = cached.dataset, cached.split
    y = np.full(len(dataset.y), -1, dtype=np.int64)
    for nodes in (split.val, split.test):
        y[nodes] = dataset.y[nodes]
    return PastRun(
        graph_name=dataset.name,
        backbone=cached.key.backbone,
        family=family_of(dataset.name),
        logits=cached.logits,
        y=y,
        graph=dataset.graph,
        calibration=split.val,
        train=split.train,
        split=cached.key.split,
        hidden=cached.hidden,
    )
