"""The unit of almost every table: one trained backbone, several calibrators, test metrics."""

from __future__ import annotations

import functools
import math
import time
import traceback
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.experiments import methods
from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.logits import backbone_identity, graph_size, is_banked, load_logits
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.outcome import Failure, Outcome, Unit
from simi_mailbox.experiments.protocol import Run
from simi_mailbox.experiments.published import FEATURES
from simi_mailbox.experiments.store import Row, row_key

HOLDOUT_SHARE = 0.1
FLOOR_DRAWS = 200
_DIGITS = 8


@dataclass(frozen=True)
class CalibrationUnit(Unit):
    """Apply some methods to the logits of one run and measure them on its test nodes.

    Parameters
    ----------
    run
        Which logits.
    methods
        What to apply.
    evaluation
        "test": on all test nodes. "test-90": a tenth of the test nodes, drawn by split, is a
        hold-out for methods that take one; all methods are measured on the other nine.
    measure
        "metrics", or "variance" (of the calibration error, over all nodes and within cells).

    Examples
    --------
    >>> method = Method.of("temperature")
    >>> unit = CalibrationUnit(Run("Digits", "gcn", "sparse"), (method,))
    >>> unit.label, len(unit.keys())
    ('Digits/gcn sparse 0.0.0', 1)
    >>> unit.pending(done=unit.keys()) is None
    True
    """

    run: Run
    methods: tuple[Method, ...]
    evaluation: str = "test"
    measure: str = "metrics"

    @property
    def label(self) -> str:
        return str(self.run)

    def identity(self, method: Method) -> dict[str, Any]:
        """Everything that decides about the row of one method."""
        return {
            **self.run.identity(),
            "backbone_settings": backbone_identity(self.run),
            **method.identity(self.run),
            "evaluation": self.evaluation,
            "measure": self.measure,
        }

    def key(self, method: Method) -> str:
        """Key of the row of one method."""
        return _key(replace(self, methods=()), method)

    def keys(self) -> list[str]:
        return [self.key(method) for method in self.methods]

    def pending(self, done: Container[str]) -> CalibrationUnit | None:
        left = tuple(m for m in self.methods if self.key(m) not in done)
        return replace(self, methods=left) if left else None

    def seconds(self, durations: Durations) -> float:
        where = self.run.dataset, self.run.backbone
        size = graph_size(self.run.dataset)
        total = sum(durations.fit(m.name, *where, size) for m in self.methods)
        return total if is_banked(self.run) else total + durations.training(*where, size)

    def ready(self) -> bool:
        return is_banked(self.run)

    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        try:
            source = load_logits(self.run)
        except Exception as error:
            yield Failure(f"{self.run}: logits", _in_words(error), traceback.format_exc())
            return
        for method in self.methods:
            try:
                key = self.key(method)
                if not skip(key):
                    yield {"key": key, **self.identity(method), **self._measure(method, source)}
            except Exception as error:
                label = f"{self.run}: {method.name}"
                yield Failure(label, _in_words(error), traceback.format_exc())

    def _measure(self, method: Method, source: Any) -> Row:
        calibrator = method.build(self.run)
        holdout, evaluated = self.nodes(method.name, source)
        probs, seconds = _apply(calibrator, method.name, source, holdout)
        started = time.perf_counter()
        measured = _MEASURES[self.measure](probs, evaluated, source)
        seconds |= {"metrics": time.perf_counter() - started, "backbone": source.seconds}
        return {
            **measured,
            "seconds": {name: _rounded(value) for name, value in seconds.items()},
            "seed": int(calibrator.get_params().get("seed", 0)),
            "nodes": {"calibration": len(source.split.val), "evaluated": len(evaluated)},
            "versions": versions(),
        }

    def nodes(self, method: str, source: Any) -> tuple[Ints | None, Ints]:
        """Hold-out nodes of a method, and the nodes it is measured on."""
        split = source.split
        rest, part = split.test, None
        if self.evaluation == "test-90":
            order = np.random.default_rng([7, self.run.split]).permutation(split.test)
            cut = int(HOLDOUT_SHARE * len(order))
            part, rest = np.sort(order[:cut]), np.sort(order[cut:])
        cls = methods.find(method)
        if getattr(cls, "reads_test_labels", False):
            return np.setdiff1d(np.flatnonzero(source.dataset.labelled), split.val), rest
        return {"training": split.train, "separate": part, None: None}[cls.holdout], rest


def probabilities(run: Run, method: Method, source: Any = None) -> Floats:
    """Calibrated probabilities [n, K] of all nodes, the method fitted as the tables do it.

    ``source`` is what `load_logits` gives for the run, for callers who have it already.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> source = SimpleNamespace(logits=np.array([[2.0, 0.0]] * 4))
    >>> source.dataset = SimpleNamespace(y=np.array([0, 0, 1, 0]))
    >>> source.split = SimpleNamespace(train=np.arange(1), val=np.arange(4), test=np.arange(4))
    >>> run = Run("mine", "gcn", "folds")
    >>> probabilities(run, Method.of("temperature"), source)[0].round(2).tolist()
    [0.75, 0.25]
    """
    source = load_logits(run) if source is None else source
    holdout, _ = CalibrationUnit(run, (method,)).nodes(method.name, source)
    return _apply(method.build(run), method.name, source, holdout)[0]


def _apply(
    calibrator: Any, name: str, source: Any, holdout: Ints | None
) -> tuple[Floats, dict[str, float]]:
    """Fit on the validation labels and predict all nodes; how long each took."""
    inputs = _inputs(name, calibrator.needs, source)
    y, mask = source.dataset.y, source.split.val
    started = time.perf_counter()
    calibrator.fit(source.logits, y, mask=mask, holdout_mask=holdout, **inputs)
    fitted = time.perf_counter()
    probs = np.asarray(calibrator.predict_proba(source.logits, **inputs), dtype=np.float64)
    return probs, {"fit": fitted - started, "predict": time.perf_counter() - fitted}


@functools.cache
def _key(unit: CalibrationUnit, method: Method) -> str:
    return row_key(unit.identity(method))


def _inputs(method: str, needs: frozenset[str], source: Any) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if "graph" in needs:
        given["graph"] = source.dataset.graph
    if "features" in needs:
        given["features"] = source.features(FEATURES.get(method, "nodes"))
    if "forward" in needs:
        given["forward"] = source.forward()
    return given


def _metrics(probs: Floats, index: Ints, source: Any) -> Row:
    from simi_mailbox import metrics

    shown = probs[index]
    values = metrics.evaluate(shown, source.dataset.y[index])
    floor = metrics.noise_floor(shown, draws=FLOOR_DRAWS, seed=0)
    return {
        "metrics": {name: _rounded(value) for name, value in values.items()},
        "noise_floor": {"mean": _rounded(floor.mean), "std": _rounded(floor.std)},
    }


def _variance(probs: Floats, index: Ints, source: Any) -> Row:
    from simi_mailbox import analysis

    agreement = analysis.neighbour_agreement(probs, source.dataset.graph)
    found = analysis.variance_of_calibration_error(probs, source.dataset.y, agreement, nodes=index)
    values = {
        "variance_nodes": found.node_wise,
        "variance_confidence": found.confidence,
        "variance_similarity": found.similarity,
    }
    return {"metrics": {name: _rounded(value) for name, value in values.items()}}


_MEASURES = {"metrics": _metrics, "variance": _variance}


@functools.cache
def versions() -> dict[str, str]:
    """Versions that a result may depend on."""
    import scipy
    import sklearn
    import torch

    import simi_mailbox

    return {
        "simi-mailbox": simi_mailbox.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
    }


def _rounded(value: float) -> float | None:
    """Eight digits: more than any comparison needs; JSON has no NaN."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
