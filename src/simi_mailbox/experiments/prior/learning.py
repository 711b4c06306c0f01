"""From past graphs, whose labels are all known, to the settings of a corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.data.catalogue import find
from simi_mailbox.experiments.prior.past_runs import PastRun, checked, unseen
from simi_mailbox.grouping import find_groups
from simi_mailbox.inputs import CalibrationData, Labelled
from simi_mailbox.mailbox import mailbox
from simi_mailbox.models.bank import BankedRun, LogitBank, RunKey
from simi_mailbox.prior.baseline import Baseline, degree_terms, error_rate, fit_baseline
from simi_mailbox.prior.families import family_of
from simi_mailbox.prior.model import NUMBERS, OPTIONAL, VAGUE, Setting, between_groups
from simi_mailbox.softmax import confidence
from simi_mailbox.temperature import global_temperature

GROUPS = 20
"""As many as `SimiMailbox` makes by default."""
VARIANCE_FLOOR = 0.005
"""Added to c(1 − c) where nodes are weighted by their precision: none counts for a thousand."""
FEWEST_RUNS = 3
FEWEST_NODES = 1000
"""Smaller graphs leave so few nodes to look at that they would add noise like a large one's."""
PROTOCOLS = ("folds", "official")


@dataclass(frozen=True, eq=False)
class Residuals:
    """What went wrong on the nodes of a past run that were neither trained nor calibrated on.

    Attributes
    ----------
    confidence, residual : arrays
        Of these nodes, after the baseline that the calibration nodes gave: confidence and
        correct − confidence.
    group : array
        Group as `SimiMailbox` makes them.
    plain_confidence, plain_residual : arrays
        The same after temperature scaling.
    similarity, degree : arrays
        Mailbox and number of neighbours.
    labels : int
        Number of calibration nodes.
    error : float
        Their error rate, as expected after temperature scaling.
    own : Baseline
        The one that fits these nodes themselves.
    blind : float
        Its blind share, as `Belief` counts it.
    wrong : float
        Share of the calibration nodes that are predicted wrongly.
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
    own: Baseline
    blind: float
    wrong: float

    def lucky(self) -> tuple[float, float]:
        """(e' − e) / (1 − e') and e' / (n (1 − e')) of the error rates; see `Setting`."""
        # As if one right and one wrong node had been added: no graph is without errors.
        errors = float((self.plain_residual + self.plain_confidence < 0.5).sum())
        elsewhere = (errors + 1.0) / (len(self.residual) + 2.0)
        weight = 1.0 / (1.0 - elsewhere)
        return weight * (elsewhere - self.wrong), weight * elsewhere / self.labels

    def luck(self) -> tuple[float, float]:
        """Weighted means of residual × e c / n and of (e c / n)²; a sure node weighs more."""
        term = self.error * self.confidence / self.labels
        weight = 1.0 / (self.confidence * (1.0 - self.confidence) + VARIANCE_FLOOR)
        weight /= weight.sum()
        return float(weight @ (term * self.residual)), float(weight @ term**2)

    def between(self) -> tuple[float, float]:
        """Variance between groups, and of one node's residual."""
        c = self.confidence
        variance = c * (1.0 - c)
        count, total, spread = (
            np.bincount(self.group, values, minlength=GROUPS).astype(np.float64)
            for values in (np.ones(len(c)), self.residual, variance)
        )
        return between_groups(total, spread, count)[0], float(variance.mean())


def residuals_of(run: PastRun) -> Residuals:
    """What one run teaches.

    Examples
    --------
    >>> from simi_mailbox.data.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> len(residuals_of(PastRun("a", "gcn", p.logits, p.y, p.graph, range(100))).residual)
    400
    """
    run = checked(run)
    y, z = run.y, run.logits
    index = torch.from_numpy(run.calibration)
    labelled = Labelled(index, torch.from_numpy(y)[index])
    data = CalibrationData(z, run.graph, calibration=labelled)
    judged = unseen(run)
    graph = data.neighbourhoods
    temperature = global_temperature(data.calibration_logits, labelled.y)[0]
    terms = degree_terms(graph)
    means = terms.mean(dim=0)
    centred = terms - means

    def fitted(index: Tensor, labels: Tensor) -> tuple[Baseline, float]:
        return fit_baseline(z[index], labels, centred[index], temperature, VAGUE)

    theirs, _ = fitted(labelled.index, labelled.y)
    others = torch.from_numpy(np.flatnonzero(judged))
    own, blind = fitted(others, torch.from_numpy(y[judged].astype(np.int64)))
    mean_log, mean_inverse = means.tolist()
    baseline = replace(theirs, mean_log_degree=mean_log, mean_inverse_degree=mean_inverse)
    c = baseline.confidence(z, graph).numpy()
    plain = confidence(z, temperature).numpy()
    right = z.argmax(dim=1).numpy() == y
    points = np.stack([c, mailbox(z, graph).double().numpy()], axis=1)
    group = find_groups(points, min(GROUPS, len(y))).assign(points)
    return Residuals(
        confidence=c[judged],
        residual=(right - c)[judged],
        group=group[judged],
        plain_confidence=plain[judged],
        plain_residual=(right - plain)[judged],
        similarity=points[judged, 1],
        degree=graph.degree.numpy()[judged],
        labels=len(labelled),
        error=error_rate(torch.from_numpy(plain[labelled.index.numpy()])),
        own=own,
        blind=blind,
        wrong=float((~right[run.calibration]).mean()),
    )


def gather(runs: Iterable[PastRun], facts: dict[str, Any] | None = None) -> Iterator[Setting]:
    """Settings of a corpus: runs of the same graph and backbone are averaged.

    Examples
    --------
    >>> from simi_mailbox.data.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> run = PastRun("a", "gcn", p.logits, p.y, p.graph, range(100))
    >>> [(s.graph, s.runs) for s in gather([run, run])]
    [('a', 2)]
    """
    found: dict[tuple[str, str, str], list[tuple[float, ...]]] = defaultdict(list)
    for run in runs:
        seen = residuals_of(run)
        key = (run.graph_name, run.family or run.graph_name, run.backbone)
        effects = seen.own.log_degree, seen.own.inverse_degree, seen.blind
        learned = *effects, *seen.luck(), *seen.between(), *seen.lucky()
        found[key].append((seen.labels, *learned))
    for key, parts in found.items():
        labels = int(min(part[0] for part in parts))
        numbers = dict(zip((*NUMBERS, *OPTIONAL), np.mean(parts, axis=0)[1:].tolist(), strict=True))
        yield Setting(*key, len(parts), labels, **numbers, facts=facts or {})


def banked_settings(
    bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str]
) -> Iterator[Setting]:
    """Settings of all graphs and backbones of which the bank holds runs; none is trained."""
    for keys in banked_keys(bank, graphs, backbones, FEWEST_NODES):
        runs = past_runs(bank, keys)
        facts = {
            "protocol": keys[0].protocol,
            "nodes": len(runs[0].y),
            "training": bank.path(keys[0]).stem.rsplit("-", 1)[1],
        }
        yield from gather(runs, facts)


def banked_keys(
    bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str], least_nodes: int = 0
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


def past_runs(bank: LogitBank, keys: Sequence[RunKey]) -> list[PastRun]:
    """Banked runs as past runs."""
    return [past_run(run) for key in keys if (run := bank.find(key)) is not None]


def past_run(banked: BankedRun) -> PastRun:
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
    )
