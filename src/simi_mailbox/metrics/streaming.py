"""All metrics of nodes that are never together: sums of batches, from which they are made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import NormalDist

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics._inputs import Array, bin_sum, check, top_label, unit
from simi_mailbox.metrics.binning import BinnedCounts, bin_outcomes, width_index
from simi_mailbox.metrics.bootstrap import Interval
from simi_mailbox.metrics.calibration_error import debiased_of
from simi_mailbox.metrics.diagram import check_level
from simi_mailbox.metrics.kde import GRID_SIZE, ece_on_grid, grid_weights
from simi_mailbox.metrics.noise import NoiseFloor
from simi_mailbox.metrics.scores import node_brier, node_nll

DRAWS = 1000
SCORES = ("accuracy", "nll", "brier")


@dataclass(frozen=True, eq=False)
class StreamingMetrics:
    """Sums that `evaluate` can be made from, in memory that does not grow with the nodes.

    Start from `empty`, feed batches with `update`, join workers with `merge`; all return a new
    object. Intervals and the noise floor are those of many nodes: normal limits, where
    `bootstrap_interval` and `noise_floor` draw single nodes.

    Attributes
    ----------
    counts : BinnedCounts
    chance : ndarray [M]
        Σ c (1 − c) of the confidences in every bin.
    class_gaps : ndarray [K, M]
        Σ 1[y = k] − p_k of the nodes whose p_k lies in a bin.
    scores : ndarray [2, 3]
        Sums of accuracy, NLL and Brier score, and of their squares.
    grid : ndarray [2, 16384]
        What the densities of KDE-ECE are made of: of all nodes, and of those that are right.
    spread : ndarray [2, 3]
        Number, sum and sum of squares of the confidences, of both.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import StreamingMetrics
    >>> tally = StreamingMetrics.empty(classes=2)
    >>> for _ in range(2):
    ...     tally = tally.update(np.tile([0.75, 0.25], (2, 1)), np.array([0, 1]))
    >>> tally.num_nodes, tally.evaluate()["brier"], tally.interval("accuracy").low > 0
    (4, 0.625, True)
    """

    counts: BinnedCounts
    chance: Floats
    class_gaps: Floats
    scores: Floats
    grid: Floats
    spread: Floats

    @classmethod
    def empty(cls, classes: int, bins: int = 15) -> StreamingMetrics:
        """A tally that has seen no node."""
        grid, spread = np.zeros((2, GRID_SIZE)), np.zeros((2, 3))
        counts = BinnedCounts.empty(bins)
        return cls(
            counts, np.zeros(bins), np.zeros((classes, bins)), np.zeros((2, 3)), grid, spread
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

    def update(self, probs: Array, y: Array) -> StreamingMetrics:
        """Return the tally after a further batch of probabilities [n, K] and labels [n]."""
        checked, bins = check(probs, y), self.counts.bins
        p, labels = checked
        if p.shape[1] != len(self.class_gaps):
            raise ValueError(f"{p.shape[1]} classes, but this tally is of {len(self.class_gaps)}.")
        top = top_label(checked)
        index = width_index(top.confidence, bins)
        each = np.stack([top.correct, node_nll(checked), node_brier(checked)])
        parts = (top.confidence, top.confidence[top.correct > 0])
        batch = StreamingMetrics(
            bin_outcomes(*top, bins),
            bin_sum(index, top.confidence * (1 - top.confidence), bins),
            np.stack(
                [
                    bin_outcomes(unit(p[:, k]), (labels == k).astype(np.float64), bins).gap_sum
                    for k in range(p.shape[1])
                ]
            ),
            np.stack([each.sum(axis=1), (each * each).sum(axis=1)]),
            np.stack([grid_weights(part) for part in parts]),
            np.array([[len(part), part.sum(), (part * part).sum()] for part in parts]),
        )
        return self.merge(batch)

    def merge(self, other: StreamingMetrics) -> StreamingMetrics:
        """Return the tally that has seen the nodes of both."""
        rest = [field.name for field in fields(self)[1:]]
        sums = (getattr(self, name) + getattr(other, name) for name in rest)
        return StreamingMetrics(self.counts.merge(other.counts), *sums)

    def evaluate(self) -> dict[str, float]:
        """What `simi_mailbox.metrics.evaluate` says, but for ``ece_mass``: it needs all at once."""
        n = self._seen
        accuracy, nll, brier = (self.scores[0] / n).tolist()
        return {
            "accuracy": accuracy,
            "ece": self.counts.ece,
            "debiased_ece": debiased_of(self.counts),
            "classwise_ece": float(np.abs(self.class_gaps).sum(axis=1).mean() / n),
            "kde_ece": self._kde_ece(accuracy),
            "nll": nll,
            "brier": brier,
        }

    def _kde_ece(self, accuracy: float) -> float:
        count, total, squares = self.spread.T
        mean = total / np.maximum(count, 1)
        std = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0.0))
        # Sums of squares round: what is left of equal numbers is no spread.
        std[std < 1e-7] = 0.0
        if not std[0]:
            return abs(float(mean[0]) - accuracy)
        every, right = self.grid
        return ece_on_grid(every, right, int(count[0]), int(count[1]), float(std[1] or std[0]))

    def interval(self, metric: str, *, level: float = 0.95, seed: int = 0) -> Interval:
        """Interval of accuracy, NLL, Brier score, ECE or debiased ECE, by name."""
        check_level(level, "level")
        n, tail = self._seen, (1 - level) / 2
        if metric in SCORES:
            mean, square = self.scores[:, SCORES.index(metric)] / n
            reach = NormalDist().inv_cdf(1 - tail) * np.sqrt(max(square - mean**2, 0.0) / n)
            return Interval(float(mean - reach), float(mean + reach), level)
        if metric not in ("ece", "debiased_ece"):
            raise ValueError(f"no interval of {metric!r} can be made of sums.")
        draws = np.random.default_rng(seed).standard_normal((DRAWS, self.counts.bins))
        gaps = self.counts.gap_sum + draws * np.sqrt(self.counts.square_sum)
        if metric == "ece":  # reflected, as by `bootstrap_interval`: it is biased upward
            low, high = np.quantile(np.abs(gaps).sum(axis=1) / n, [tail, 1 - tail])
            low, high = (max(2 * self.counts.ece - end, 0.0) for end in (high, low))
            return Interval(float(low), float(high), level)
        drawn = [debiased_of(_with_gaps(self.counts, gap)) for gap in gaps]
        low, high = np.quantile(drawn, [tail, 1 - tail])
        return Interval(float(low), float(high), level)

    def noise_floor(self, *, seed: int = 0) -> NoiseFloor:
        """Mean and standard deviation of the ECE of a perfect model with these confidences."""
        draws = np.random.default_rng(seed).standard_normal((DRAWS, self.counts.bins))
        found = (np.abs(draws) @ np.sqrt(self.chance)) / self._seen
        return NoiseFloor(float(found.mean()), float(found.std(ddof=1)))


def _with_gaps(counts: BinnedCounts, gaps: Floats) -> BinnedCounts:
    """The same sums, but for how many are right."""
    return BinnedCounts(
        counts.edges,
        counts.counts,
        counts.confidence_sum,
        counts.confidence_sum + gaps,
        counts.square_sum,
    )
