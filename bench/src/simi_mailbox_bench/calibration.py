"""The unit of almost every table: one trained backbone, several calibrators, test metrics."""

from __future__ import annotations

import functools
import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis import judged_similarity, mean_of, unit_bins
from simi_mailbox.crossfit import cross_fitted_folds
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox_bench import methods
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey, digest, load_logits
from simi_mailbox_bench.backbones.features import row_normalised
from simi_mailbox_bench.backbones.settings import Settings, settings_for
from simi_mailbox_bench.methods import FEATURES, Method
from simi_mailbox_bench.rivals import train_on_both
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.store import Row

HOLDOUT_SHARE = 0.1
FLOOR_DRAWS = 200
_digest = functools.cache(Settings.digest)  # tables ask thousands of times


@dataclass(frozen=True)
class CachedRunUnit(Unit):
    """Work on the logits of one run of the cache."""

    run: RunKey

    @property
    def label(self) -> str:
        return str(self.run)

    def backbone_identity(self) -> str:
        """Digest of the settings that the run's backbone is trained with."""
        return _digest(settings_for(self.run.dataset))

    def run_identity(self) -> dict[str, Any]:
        """The run and the training of its backbone."""
        return {**vars(self.run), "backbone_settings": self.backbone_identity()}

    def ready(self) -> bool:
        return self.run in RunCache()


@dataclass(frozen=True)
class CalibrationUnit(CachedRunUnit):
    """Apply some methods to the logits of one run and measure them on its test nodes."""

    items: tuple[Method, ...]
    evaluation: str = "test"
    quantity: str = "metrics"

    def identity(self, item: Method) -> dict[str, Any]:
        return {
            **self.run_identity(),
            **item.identity(self.run),
            "evaluation": self.evaluation,
            "measure": self.quantity,
        }

    def prepare(self) -> Any:
        return load_logits(self.run)

    def measure(self, item: Method, prepared: Any) -> Row:
        calibrator = item.build(self.run)
        holdout, evaluated = self.nodes(item.name, prepared)
        probs, seconds = _apply(calibrator, item.name, prepared, holdout)
        started = time.perf_counter()
        measured = _QUANTITIES[self.quantity](probs, evaluated, prepared)
        seconds |= {"metrics": time.perf_counter() - started, "backbone": prepared.seconds}
        return {
            **measured,
            "seconds": {name: rounded(value) for name, value in seconds.items()},
            "seed": int(calibrator.get_params().get("seed", 0)),
            "nodes": {"calibration": len(prepared.split.val), "evaluated": len(evaluated)},
            "logits": digest(prepared.logits),
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
            # As PyG delivers Citeseer: nodes without a label count as class 0.
            return np.setdiff1d(np.arange(len(source.dataset.y)), split.val), rest
        return {"training": split.train, "separate": part, None: None}[cls.holdout], rest


def probabilities(run: RunKey, method: Method, source: Any = None) -> Floats:
    """Calibrated probabilities [n, K] of all nodes, the method fitted as the tables do it."""
    source = load_logits(run) if source is None else source
    holdout, _ = CalibrationUnit(run, (method,)).nodes(method.name, source)
    return _apply(method.build(run), method.name, source, holdout)[0]


def probabilities_cross_fitted(
    run: RunKey, method: Method, source: Any, folds: int
) -> list[tuple[Ints, Floats]]:
    """The same for every part of the validation nodes, fitted without the labels of that part."""
    calibrator = method.build(run)
    holdout, _ = CalibrationUnit(run, (method,)).nodes(method.name, source)
    inputs = inputs_of(method.name, calibrator, source)
    given = {"mask": source.split.val, "early_stopping_mask": holdout, "folds": folds, **inputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return list(cross_fitted_folds(calibrator, source.logits, source.dataset.y, **given))


def _apply(
    calibrator: Any, name: str, source: Any, holdout: Ints | None
) -> tuple[Floats, dict[str, float]]:
    """Fit on the validation labels and predict all nodes; how long each took."""
    inputs = inputs_of(name, calibrator, source)
    y, mask = source.dataset.y, source.split.val
    started = time.perf_counter()
    with warnings.catch_warnings():  # the metrics judge, where a fit would warn
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(source.logits, y, mask=mask, early_stopping_mask=holdout, **inputs)
        fitted = time.perf_counter()
        probs = np.asarray(calibrator.predict_proba(source.logits, **inputs), dtype=np.float64)
    return probs, {"fit": fitted - started, "predict": time.perf_counter() - fitted}


def inputs_of(method: str, calibrator: Any, source: Any) -> dict[str, Any]:
    """What a method needs, as in the README's call; the hidden layer if the method's name asks."""
    needs = calibrator.required_inputs
    given: dict[str, Any] = {}
    if method.endswith(methods.WITH_HIDDEN):
        if getattr(source, "hidden", None) is None:
            raise ValueError(f"{method} needs a hidden layer, which this run does not have")
        given["hidden"] = source.hidden
    if "graph" in needs:
        given["graph"] = source.dataset.graph
    if "features" in needs:
        given["features"] = features(source, FEATURES.get(method, "nodes"))
    if "forward" in needs:
        given["forward"] = source.forward()
    if getattr(calibrator, "reads_test_labels", False):
        given["train_mask"] = source.split.train
    return given


def features(source: Any, kind: str) -> Any:
    """Node features as the backbone saw them, its hidden layer, or logits of another training."""
    if kind == "hidden":
        return source.hidden
    if kind == "retrained":
        given = source.dataset, source.split, source.key.backbone
        how = {"settings": source.settings, "epochs": source.best_epoch}
        return train_on_both(*given, seed=source.key.seed, **how)
    x = source.dataset.x
    return row_normalised(x) if source.settings.row_normalise else x


def _metrics(probs: Floats, index: Ints, source: Any) -> Row:
    from simi_mailbox import metrics

    shown = probs[index]
    values = metrics.evaluate(shown, source.dataset.y[index])
    floor = metrics.noise_floor(shown, draws=FLOOR_DRAWS, seed=0)
    return {
        "metrics": {name: rounded(value) for name, value in values.items()},
        "noise_floor": {"mean": rounded(floor.mean), "std": rounded(floor.std)},
    }


def _variance(probs: Floats, index: Ints, source: Any) -> Row:
    from simi_mailbox import analysis

    agreement = analysis.neighbour_agreement(probs, source.dataset.graph)
    found = variance_of_calibration_error(probs, source.dataset.y, agreement, nodes=index)
    names = ("variance_nodes", "variance_confidence", "variance_similarity")
    return {"metrics": dict(zip(names, map(rounded, found), strict=True))}


def variance_of_calibration_error(
    probs: Any, y: Any, similarity: Any, *, nodes: Any = None, bins: int = 10
) -> tuple[float, float, float]:
    """The paper's variance of calibration errors: over all nodes, in intervals, and in cells.

    D(i) = |acc(B_m) − p̂_i| for node i of confidence interval B_m;
    V(B) = Σ_{i in B} (D(i) − mean D)² / (|B| − 1); the table holds unweighted means of V over
    intervals and over cells of equal confidence and similarity, and, over all nodes, the variance
    of |acc(B_m) − conf(B_m)|. Cells with fewer than two nodes are left out of the mean; nodes
    without neighbours are in no cell. Parameters are those of `analysis.similarity_confidence`.
    """
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    row = unit_bins(judged.confidence, bins)
    accuracy = mean_of(row, judged.correct, bins)
    error = np.abs(accuracy[row] - judged.confidence)
    of_interval = np.abs(accuracy - mean_of(row, judged.confidence, bins))
    cell = row[known] * bins + unit_bins(s[known], bins)
    return (
        float(np.var(of_interval[row], ddof=1)) if len(judged) > 1 else math.nan,
        _mean_variance(row, error, bins),
        _mean_variance(cell, error[known], bins * bins),
    )


def _mean_variance(cell: Ints, values: Floats, num_cells: int) -> float:
    """Mean of the unbiased variances in each cell of two nodes or more; NaN without any."""
    counts = np.bincount(cell, minlength=num_cells)
    centre = mean_of(cell, values, num_cells)
    squares = np.bincount(cell, weights=(values - centre[cell]) ** 2, minlength=num_cells)
    several = counts > 1
    if not several.any():
        return math.nan
    return float((squares[several] / (counts[several] - 1)).mean())


def _one_class(probs: Floats, index: Ints, source: Any) -> Row:
    """What a table of class 1 needs, beside the metrics of all classes."""
    from simi_mailbox import metrics

    row = _metrics(probs, index, source)
    given = probs[index], source.dataset.y[index]
    for metric in (metrics.class_ece, metrics.average_precision, metrics.auroc, metrics.smooth_ece):
        row["metrics"][metric.__name__] = rounded(metric(*given, positive=1))
    return row


def _shift(probs: Floats, index: Ints, source: Any) -> Row:
    """Metrics of the nodes outside, and, with the suffix _in, of those inside."""
    inside = source.dataset.shift_part(source.key.protocol, "test_in")
    found, within = (_metrics(probs, nodes, source) for nodes in (index, inside))
    within_named = {f"{name}_in": value for name, value in within["metrics"].items()}
    return {**found, "metrics": found["metrics"] | within_named}


_QUANTITIES = {
    "metrics": _metrics, "variance": _variance, "one-class": _one_class, "shift": _shift,
}  # fmt: skip


def rounded(value: float, digits: int = 8) -> float | None:
    """Eight digits: more than any comparison needs; JSON has no NaN."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
