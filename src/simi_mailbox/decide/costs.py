"""Decisions by cost: act on a prediction, hand it to a person, or leave it."""

from typing import Any, ClassVar, Literal

import numpy as np
from scipy.stats import t as student

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.decide.base import Parts, Rule, cross_fitted_rows, like, read_nodes
from simi_mailbox.decide.scores import ScoredNodes
from simi_mailbox.parameters import hyperparameters

DEFER, REJECT = -1, -2


@hyperparameters
class Costs(Rule):
    """The cheapest action for every node, by its probabilities.

    A node is *accepted* (acted on as one of the classes), *deferred* to a person, or *rejected*
    (left alone). `actions` works without ``fit``, which estimates what the rule saves.

    Parameters
    ----------
    wrong : float or array [K, K]
        Cost of acting wrongly, or of acting as class ``j`` on a node of class ``i`` at [i, j].
    defer, reject : float, float or array [K], optional
        Cost of a person's look, and of leaving a node alone (by its true class); None: not done.
    compared_with : {"defer", "accept"}
        Savings are against deferring all nodes, or acting on all (as always without a person).

    Attributes
    ----------
    saving_, saving_interval_ : float, tuple of float
        Mean saving per calibration node against ``compared_with``, and its interval at 95 %.
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
    compared_with: Literal["accept", "defer"] = "defer"

    def _fit(self, nodes: ScoredNodes, index: Ints, labels: Ints, parts: Parts) -> None:
        k = self.num_classes_
        table, coded = self._table(k)
        defers = self.compared_with == "defer" and self.defer is not None

        def compared(given: ScoredNodes) -> Ints:
            """For each node the action it is compared with, and the one that is chosen."""
            usual = np.full(len(given.probs), k) if defers else given.probs.argmax(axis=1)
            return np.stack([usual, _cheapest(given, table)])

        usual, chosen = compared(ScoredNodes(cross_fitted_rows(index, parts)))
        saved = table[labels, usual] - table[labels, chosen]
        # What a node can save, whatever its label turns out to be.
        everyone = compared(nodes)
        pairs = np.unique(everyone, axis=1)
        possible = table[:, pairs[0]] - table[:, pairs[1]]
        self.saving_ = float(saved.mean())
        self.saving_interval_ = mean_interval(saved, (float(possible.min()), float(possible.max())))
        code = coded[everyone[1]]
        kinds = {"accept": code >= 0, "defer": code == DEFER, "reject": code == REJECT}
        self.shares_ = {name: float(taken.mean()) for name, taken in kinds.items()}

    def actions(self, probs: Any) -> Any:
        """What to do with every node [n]: a class to act on, −1 to defer, −2 to reject."""
        nodes = read_nodes(probs)
        if hasattr(self, "num_classes_"):
            self._read_again(probs)
        table, coded = self._table(nodes.probs.shape[1])
        return like(probs, coded[_cheapest(nodes, table)])

    def _table(self, k: int) -> tuple[Floats, Ints]:
        """Costs [true class, action], and what ``actions`` calls these actions."""
        wrong = np.asarray(self.wrong, dtype=np.float64)
        if wrong.ndim == 0:
            wrong = np.where(np.eye(k, dtype=np.bool_), 0.0, wrong)
        if wrong.shape != (k, k):
            raise ValueError(f"wrong has shape {[*wrong.shape]}; expected a number or [{k}, {k}]")
        columns, coded = [wrong], [*range(k)]
        for code, name, given in ((DEFER, "defer", self.defer), (REJECT, "reject", self.reject)):
            if given is None:
                continue
            cost = np.asarray(given, dtype=np.float64)
            if cost.shape not in ((), (k,)):
                shape = f"{name} has shape {list(cost.shape)}"
                raise ValueError(f"{shape}; expected a number or one per class [{k}]")
            columns.append(np.broadcast_to(cost, (k,))[:, None])
            coded.append(code)
        table = np.hstack(columns)
        if not np.isfinite(table).all():
            raise ValueError("costs must be finite numbers")
        return table, np.array(coded)


def _cheapest(nodes: ScoredNodes, table: Floats) -> Ints:
    """Action of least expected cost; between equals the first, and classes come first."""
    action: Ints = np.empty(len(nodes.probs), dtype=np.int64)
    for rows in nodes.row_blocks():
        action[rows] = (nodes.probs[rows].astype(np.float64) @ table).argmin(axis=1)
    return action


def mean_interval(
    values: Floats, possible: tuple[float, float] | None = None, level: float = 0.95
) -> tuple[float, float]:
    """Interval of a mean, by Student's t with Hall's (1992) correction for skewness.

    It also holds the means with 1 − α^(1/n) of the least and the largest ``possible`` value: so
    many nodes may have a value that no node has shown yet.
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
