"""Decisions by cost: act on a prediction, hand it to a person, or leave it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.decide.base import Rule, like, read_calibration, read_nodes
from simi_mailbox.parameters import check_parameters, hyperparameters

Compared = Literal["accept", "defer"]

DEFER = -1
REJECT = -2


@hyperparameters
class Costs(Rule):
    """The cheapest action for every node, by its probabilities.

    A node can be *accepted* (acted on as one of the classes), *deferred* to a person, or
    *rejected* (left alone). Each action's expected cost under the node's probabilities is
    compared; so the probabilities had better be calibrated.

    Parameters
    ----------
    wrong : float or array [K, K]
        Cost of acting wrongly, or of acting as class ``j`` on a node of class ``i`` at [i, j].
    defer : float, optional
        Cost of a person's look; None if there is no person: every node is acted on, or rejected.
    reject : float or array [K], optional
        Cost of leaving a node alone, by its true class; without it nothing is left alone.

    Attributes
    ----------
    saving_ : float
        Mean saving per calibration node against ``compared_with``.
    saving_interval_ : tuple of float
        Its interval at 95 %; see `mean_interval`.
    shares_ : dict
        Share of all nodes accepted, deferred and rejected.

    Examples
    --------
    >>> rule = Costs(wrong=10.0, defer=1.0)
    >>> rule.actions(np.array([[0.95, 0.05], [0.6, 0.4]])).tolist()  # −1: to a person
    [0, -1]
    """

    name: ClassVar[str] = "costs"

    wrong: Any = 1.0
    defer: float | None = 0.1
    reject: Any = None
    compared_with: Compared = "defer"

    def fit(self, probs: Any, y: Any, *, mask: Any, sample_weight: Any = None) -> Self:
        """Estimate on labelled nodes what the rule saves, beside deferring (or accepting) all.

        Without a reviewer it is compared with accepting all. ``sample_weight`` is that of
        `Accept.fit`.

        The rule itself has nothing to learn: `actions` works without ``fit``.
        """
        check_parameters(self)
        self._forget()
        p = read_nodes(probs, None, None).probs
        table = self._table(p.shape[1])
        calibration = read_calibration(y, mask, p, sample_weight)
        del y  # from here on, no other label exists
        index, labels = calibration.index.numpy(), calibration.y.numpy()
        action = self._cheapest(p, table)
        defers = self.compared_with == "defer" and self.defer is not None
        column = np.full(len(p), p.shape[1]) if defers else p.argmax(axis=1)
        saved = table[labels, column[index]] - table[labels, action[index]]
        # What a node can save, whatever its label turns out to be.
        pairs = np.unique(np.stack([column, action]), axis=1)
        possible = table[:, pairs[0]] - table[:, pairs[1]]
        self.saving_ = float(saved.mean())
        self.saving_interval_ = mean_interval(saved, (float(possible.min()), float(possible.max())))
        k = p.shape[1]
        self.shares_ = {
            "accept": float((action < k).mean()),
            "defer": float((action == k).mean()),
            "reject": float((action == k + 1).mean()),
        }
        self.num_classes_ = k
        return self

    def actions(self, probs: Any) -> Any:
        """What to do with every node [n]: a class to act on, −1 to defer, −2 to reject."""
        p = read_nodes(probs, None, None).probs
        if hasattr(self, "num_classes_"):
            self._read_again(probs)
        action = self._cheapest(p, self._table(p.shape[1]))
        coded = np.array([*range(p.shape[1]), DEFER, REJECT])
        return like(probs, coded[action])

    def _table(self, k: int) -> Floats:
        """Costs [true class, action]: K classes to act as, defer, reject if that is allowed."""
        wrong = np.asarray(self.wrong, dtype=np.float64)
        if wrong.ndim == 0:
            wrong = np.where(np.eye(k, dtype=np.bool_), 0.0, wrong)
        if wrong.shape != (k, k):
            raise ValueError(
                f"wrong has shape {list(wrong.shape)}; expected a number or [{k}, {k}]"
            )
        defer = np.inf if self.defer is None else float(self.defer)
        columns = [wrong, np.full((k, 1), defer)]
        if self.reject is not None:
            reject = np.asarray(self.reject, dtype=np.float64)
            if reject.shape not in ((), (k,)):
                raise ValueError(
                    f"reject has shape {list(reject.shape)}; "
                    f"expected a number or one per class [{k}]"
                )
            columns.append(np.broadcast_to(reject, (k,))[:, None])
        table = np.hstack(columns)
        if np.isnan(table).any() or not np.isfinite(np.delete(table, k, axis=1)).all():
            raise ValueError("costs must be finite numbers")
        return table

    @staticmethod
    def _cheapest(p: npt.NDArray[Any], table: Floats) -> Ints:
        """Action of least expected cost; between equals the first, and classes come first."""
        action: Ints = np.empty(len(p), dtype=np.int64)
        rows = max((1 << 20) // p.shape[1], 1)
        for start in range(0, len(p), rows):
            block = p[start : start + rows].astype(np.float64)
            action[start : start + rows] = (block @ table).argmin(axis=1)
        return action


def mean_interval(
    values: Floats, possible: tuple[float, float] | None = None, level: float = 0.95
) -> tuple[float, float]:
    """Interval of a mean, by Student's t with Hall's (1992) correction for skewness.

    Costs are mostly small and seldom large; without the correction the interval of their mean is
    too narrow. A large one that nobody has shown yet has a share of at most 1 − α^(1/n) (97.5 %):
    the interval holds the means with so many of the least and the largest ``possible`` value.

    Examples
    --------
    >>> tuple(round(end, 2) for end in mean_interval(np.ones(100), (-9.0, 1.0)))
    (0.64, 1.0)
    """
    n, mean, spread = len(values), float(values.mean()), float(values.std())
    if n < 2:
        return -np.inf, np.inf
    if possible is not None:
        unseen = 1.0 - ((1.0 - level) / 2) ** (1.0 / n)
        ends = mean_interval(values, None, level)
        moved = [(1.0 - unseen) * mean + unseen * end for end in possible]
        return min(ends[0], moved[0]), max(ends[1], moved[1])
    if spread == 0:
        return mean, mean
    error = spread / float(np.sqrt(n - 1))
    skew = float(((values - mean) ** 3).mean() / spread**3 / np.sqrt(n))
    q = float(student.ppf((1 + level) / 2, n - 1))

    def corrected(x: float) -> float:
        return float((np.cbrt(1 + skew * (x - skew / 6)) - 1) * 3 / skew) if skew else x

    return mean - corrected(q) * error, mean - corrected(-q) * error
