"""What is measured under shift: the monitor's estimates and alarms, updates, and other graphs."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np

from simi_mailbox import metrics
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.monitor import Check, Monitor
from simi_mailbox.monitor.check import DISTRUST, UNKNOWN
from simi_mailbox.monitor.drift import drift_tests
from simi_mailbox_bench.backbones.cached_runs import RunCache, digest, load_logits
from simi_mailbox_bench.calibration import CachedRunUnit, rounded
from simi_mailbox_bench.datasets import NodeDataset, load
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.store import Row

FEATURES_ALONE = "mlp"
DRAWS, RESPLITS, LABEL_DRAWS = 5, 10, 3
LABELS, MOST_LABELS = 50, 100
ELSEWHERE = 1_000_000
"""Added to node numbers of another graph: none of them is a node of the fit."""
SCORES = {
    "accuracy": metrics.accuracy, "ece": metrics.ece, "nll": metrics.nll, "brier": metrics.brier,
}  # fmt: skip


@dataclass(frozen=True)
class ShiftUnit(CachedRunUnit):
    """Work on one run and a fitted default method; ``items`` are what each subclass says.

    ``revision`` is raised when the same names measure something else.
    """

    items: tuple[Any, ...]
    revision: ClassVar[int] = 1

    def identity(self, item: Any) -> dict[str, Any]:
        return {
            **self.run_identity(),
            **Method.of("simi-mailbox").identity(self.run),
            "measure": type(self).__name__,
            "measure_revision": self.revision,
            "item": str(item),
        }

    def prepare(self) -> FittedRun:
        return FittedRun(load_logits(self.run))

    def measure(self, item: Any, prepared: FittedRun) -> Row:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            found = self.numbers(item, prepared)
        return {
            "metrics": {name: rounded(float(value), 6) for name, value in found.items()},
            "logits": digest(prepared.source.logits),
        }

    def numbers(self, item: Any, prepared: FittedRun) -> dict[str, float]:
        """What an item's row holds."""
        raise NotImplementedError


class FittedRun:
    """A run, and the default method fitted on its validation nodes."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.dataset: NodeDataset = source.dataset
        self._fitted = lru_cache(self._fit)

    def _fit(self, name: str) -> SimiMailbox:
        data, mask = self.dataset, self.source.split.val
        fitted: SimiMailbox = Method.of(name).build(self.source.key)
        return fitted.fit(self.source.logits, data.y, graph=data.graph, mask=mask)

    def calibrator(self, *, keep: bool) -> SimiMailbox:
        """A copy: updates of one question must not reach the next."""
        return copy(self._fitted("simi-mailbox" if keep else "simi-mailbox-free"))

    def part(self, where: str) -> Ints:
        """Nodes of ``test_in`` or ``test_out``."""
        return self.dataset.shift_part(self.source.key.protocol, where)


def scores(probs: Floats, y: Ints, suffix: str = "") -> dict[str, float]:
    """Accuracy, ECE, NLL and Brier score."""
    return {f"{name}{suffix}": float(score(probs, y)) for name, score in SCORES.items()}


class UpdateUnit(ShiftUnit):
    """Test nodes after an update with some labels of theirs; items are (mode, number of labels)."""

    revision = 2

    def numbers(self, item: tuple[str, int], prepared: FittedRun) -> dict[str, float]:
        mode, count = item
        data, z, found = prepared.dataset, prepared.source.logits, []
        for where, draw in product(("test_in", "test_out"), range(DRAWS)):
            order = np.random.default_rng([32, draw]).permutation(prepared.part(where))
            late, left = order[:count], order[MOST_LABELS:]  # the same nodes for every count
            cal = prepared.calibrator(keep=mode == "kept")
            if count:
                cal.update(late, data.y[late], logits=z, graph=data.graph)
            probs = np.asarray(cal.predict_proba(z, graph=data.graph), dtype=np.float64)
            found.append(scores(probs[left], data.y[left], f"_{where.removeprefix('test_')}"))
        names = {name for row in found for name in row}
        return {n: float(np.mean([row[n] for row in found if n in row])) for n in sorted(names)}


class MonitorUnit(ShiftUnit):
    """What the monitor says of test nodes; items are "test_in" and "test_out"."""

    def ready(self) -> bool:
        return super().ready() and replace(self.run, backbone=FEATURES_ALONE) in RunCache()

    def numbers(self, item: str, prepared: FittedRun) -> dict[str, float]:
        data, z, nodes = prepared.dataset, prepared.source.logits, prepared.part(item)
        watch = Monitor(prepared.calibrator(keep=True))
        given: dict[str, Any] = {"graph": data.graph, "nodes": nodes}
        features = load_logits(replace(self.run, backbone=FEATURES_ALONE)).logits.numpy()
        plain = watch.check(z, **given)
        second = watch.check(z, **given, feature_probs=features)
        probs = np.asarray(watch.calibrator.predict_proba(z, graph=data.graph), dtype=np.float64)
        found = scores(probs[nodes], data.y[nodes])
        truth = found["accuracy"]
        found["error_as_before"] = abs(watch.calibrator.reference_["accuracy"] - truth)
        found |= _judged(plain, truth, "") | _judged(second, truth, "_features")
        if item == "test_in":
            found["false_alarms"] = self._false_alarms(watch, prepared)
        for count in (20, 50, 100):
            found |= _labelled(watch, z, given, data.y, nodes, count)
        return found

    def _false_alarms(self, watch: Monitor, prepared: FittedRun) -> float:
        """Share of random halves of validation and ``test_in`` nodes that look drifted."""
        data, split = prepared.dataset, prepared.source.split
        cal, both = watch.calibrator, np.concatenate([split.val, prepared.part("test_in")])
        seen = cal._read_fitted(prepared.source.logits, graph=data.graph)
        degree = data.graph.degree
        points = cal._points(seen.logits, degree, cal._in_memory(seen).similarity())
        columns = {
            "confidence": points[:, 0],
            "similarity": points[:, 1],
            "degree": degree.numpy().astype(np.float64),
            "groups": cal._soft.grouping.assign(points).astype(np.float64),
        }
        alarms = 0
        for draw in range(RESPLITS):
            order = np.random.default_rng([33, draw]).permutation(both)
            halves = order[: len(split.val)], order[len(split.val) :]
            one, other = ({n: v[half] for n, v in columns.items()} for half in halves)
            tests = drift_tests(one, other, seed=draw)
            alarms += any(test["p"] <= 0.05 for test in tests.values())
        return alarms / RESPLITS


class TwitchUnit(ShiftUnit):
    """The run's model on another graph; items are names of graphs."""

    revision = 2

    def numbers(self, item: str, prepared: FittedRun) -> dict[str, float]:
        from simi_mailbox.calibrators import TemperatureScaling

        target = _target(item)
        z = prepared.source.forward(target)().detach()
        y, graph, split = target.y, target.graph, prepared.source.split
        ts = TemperatureScaling().fit(prepared.source.logits, prepared.dataset.y, mask=split.val)
        found = scores(np.asarray(z.softmax(dim=1), dtype=np.float64), y, "_uncalibrated")
        found |= scores(np.asarray(ts.predict_proba(z), dtype=np.float64), y, "_temperature")
        cal = prepared.calibrator(keep=True)
        probs = np.asarray(cal.predict_proba(z, graph=graph), dtype=np.float64)
        found |= scores(probs, y)
        free = prepared.calibrator(keep=False).predict_proba(z, graph=graph)
        found |= scores(np.asarray(free, dtype=np.float64), y, "_free")
        watch = Monitor(cal)
        every = np.arange(len(y))
        names = every + ELSEWHERE
        given: dict[str, Any] = {"graph": graph, "nodes": every, "node_ids": names}
        plain = watch.check(z, **given)
        found["unknown"] = float(plain.verdict == UNKNOWN)
        found |= _labelled(watch, z, given, y, every, LABELS)
        late = np.random.default_rng([34]).permutation(len(y))[:LABELS]
        rest = np.setdiff1d(every, late)
        fitted = prepared.calibrator(keep=False)
        fitted.update(names[late], y[late], logits=z, graph=graph, all_ids=names)
        probs = np.asarray(fitted.predict_proba(z, graph=graph, node_ids=names), dtype=np.float64)
        return found | scores(probs[rest], y[rest], "_updated")


_target = lru_cache(maxsize=8)(load)


def _judged(check: Check, truth: float, suffix: str) -> dict[str, float]:
    """Error and coverage of an estimate, alarm and verdict."""
    found = {"drifted": float(check.drifted)}
    found["distrusted"] = float(check.verdict in (DISTRUST, UNKNOWN))
    if check.accuracy is not None and check.interval is not None:
        low, high = check.interval
        found["error"] = abs(check.accuracy - truth)
        found |= {"covered": float(low <= truth <= high), "width": high - low}
    return {f"{name}{suffix}": value for name, value in found.items()}


def _labelled(
    watch: Monitor, z: Any, given: dict[str, Any], y: Ints, nodes: Ints, count: int
) -> dict[str, float]:
    """The same with some labels at random, as the mean over draws."""
    truth = float((np.asarray(z)[nodes].argmax(axis=1) == y[nodes]).mean())
    found: dict[str, list[float]] = {}
    for draw in range(LABEL_DRAWS):
        told = np.random.default_rng([35, draw]).permutation(nodes)[:count]
        check = watch.check(z, **given, known=(told, y[told]))
        row = _judged(check, truth, "") | {"alarm": float(abs(check.z or 0.0) > 1.96)}
        for name, value in row.items():
            found.setdefault(f"{name}_{count}", []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}
