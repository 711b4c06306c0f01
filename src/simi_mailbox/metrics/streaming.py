"""All metrics at once: of nodes in memory, or of batches that are never together."""

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from scipy.special import ndtri

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics import calibration_error as binned
from simi_mailbox.metrics._inputs import Array, Checked, bin_sum, check, check_level, top_label
from simi_mailbox.metrics.sampling import Interval, NoiseFloor
from simi_mailbox.metrics.scores import node_brier, node_nll

DRAWS = 1000
SCORES = ("accuracy", "nll", "brier")


@dataclass(frozen=True, eq=False)
class StreamingMetrics:
    """Sums that `evaluate` can be made from, in memory that does not grow with the nodes.

    Start from `empty`, feed batches with `update`, join workers with `merge`; all return a new
    object. Intervals and noise floor are normal limits, of many nodes. The reliability diagram is
    ``counts.reliability()``.

    Examples
    --------
    >>> state = StreamingMetrics.empty(classes=2)
    >>> state = state.update(np.tile([0.75, 0.25], (2, 1)), np.array([0, 1]))
    >>> state.num_nodes, state.evaluate()["brier"]
    (2, 0.625)
    """

    counts: binned.BinnedCounts
    chance: Floats  # Σ c (1 − c) of the confidences c in every bin [M]
    class_gaps: Floats  # Σ 1[y = k] − p_k of the nodes whose p_k lies in a bin [K, M]
    scores: Floats  # sums of accuracy, NLL and Brier score, and of their squares [2, 3]
    kde: binned.KdeSums

    @classmethod
    def empty(cls, classes: int, bins: int = 15) -> Self:
        """Sums that have seen no node."""
        return cls.of(Checked(np.empty((0, classes)), np.empty(0, np.int64)), bins)

    @classmethod
    def of(cls, checked: Checked, bins: int = 15) -> Self:
        """Sums of one batch of checked probabilities and labels."""
        top = top_label(checked)
        noise = top.confidence * (1 - top.confidence)
        each = np.stack([top.correct, node_nll(checked), node_brier(checked)])
        return cls(
            binned.bin_outcomes(*top, bins),
            bin_sum(binned.width_index(top.confidence, bins), noise, bins),
            binned.class_gaps(checked, bins),
            np.stack([each.sum(axis=1), (each * each).sum(axis=1)]),
            binned.KdeSums.of(*top),
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes seen."""
        return self.counts.num_nodes

    @property
    def confidence(self) -> float:
        """Mean confidence of the nodes seen."""
        return float(self.counts.confidence_sum.sum() / self._seen)

    @property
    def _seen(self) -> int:
        if not self.num_nodes:
            raise ValueError("no node was counted yet; call update() first.")
        return self.num_nodes

    def update(self, probs: Array, y: Array) -> Self:
        """Return the state after a further batch of probabilities [n, K] and labels [n]."""
        checked, classes = check(probs, y), len(self.class_gaps)
        if checked.probs.shape[1] != classes:
            now = checked.probs.shape[1]
            raise ValueError(f"{now} classes, but earlier batches had {classes}.")
        return self.merge(self.of(checked, len(self.chance)))

    def merge(self, other: Self) -> Self:
        """Return the state that has seen the nodes of both."""
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))

    def evaluate(self) -> dict[str, float]:
        """Every metric of `evaluate` but for ``ece_mass``, which needs all nodes at once."""
        accuracy, nll, brier = (self.scores[0] / self._seen).tolist()
        return {
            "accuracy": accuracy,
            "ece": self.counts.ece,
            "debiased_ece": self.counts.debiased_ece,
            "classwise_ece": binned.classwise_of(self.class_gaps, self.num_nodes),
            "kde_ece": self.kde.ece(),
            "nll": nll,
            "brier": brier,
        }

    def interval(self, metric: str, *, level: float = 0.95, seed: int = 0) -> Interval:
        """Interval of accuracy, NLL, Brier score, ECE or debiased ECE, by name."""
        check_level(level, "level")
        n, tail = self._seen, (1 - level) / 2
        if metric in SCORES:
            mean, square = self.scores[:, SCORES.index(metric)] / n
            reach = ndtri(1 - tail) * np.sqrt(max(square - mean**2, 0.0) / n)
            return Interval(float(mean - reach), float(mean + reach), level)
        if metric not in ("ece", "debiased_ece"):
            raise ValueError(f"no interval of {metric!r} can be made of sums.")
        counts, draws = self.counts, self._normal(seed)
        gaps = counts.gap_sum + draws * np.sqrt(counts.square_sum)
        drawn = [replace(counts, correct_sum=counts.confidence_sum + gap) for gap in gaps]
        low, high = np.quantile([getattr(one, metric) for one in drawn], [tail, 1 - tail])
        if metric == "ece":  # reflected, as by `bootstrap_interval`: it is biased upward
            low, high = (max(2 * counts.ece - end, 0.0) for end in (high, low))
        return Interval(float(low), float(high), level)

    def noise_floor(self, *, seed: int = 0) -> NoiseFloor:
        """Mean and standard deviation of the ECE of a perfect model with these confidences."""
        found = (np.abs(self._normal(seed)) @ np.sqrt(self.chance)) / self._seen
        return NoiseFloor(float(found.mean()), float(found.std(ddof=1)))

    def _normal(self, seed: int) -> Floats:
        return np.random.default_rng(seed).standard_normal((DRAWS, len(self.chance)))


def evaluate(probs: Array, y: Array, *, bins: int = 15) -> dict[str, float]:
    """Every metric of accuracy, likelihood and calibration error, with its default options.

    Keys are ``accuracy``, ``ece``, ``ece_mass``, ``debiased_ece``, ``classwise_ece``, ``kde_ece``,
    ``nll`` and ``brier``. Parameters are those of :func:`ece`.

    Examples
    --------
    >>> evaluate(np.tile([0.75, 0.25], (4, 1)), np.array([0, 0, 0, 1]))["brier"]
    0.375
    """
    checked = check(probs, y)
    found = StreamingMetrics.of(checked, bins).evaluate()
    first = {"accuracy": found.pop("accuracy"), "ece": found.pop("ece")}
    first["ece_mass"] = binned.bin_outcomes(*top_label(checked), bins, "mass").ece
    return first | found
