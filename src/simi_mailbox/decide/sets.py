"""Prediction sets: classes among which the label is, as often as its target coverage says."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED
from simi_mailbox.decide.base import (
    Rule,
    error_weight,
    like,
    read_calibration,
    read_cross_fitted,
    read_nodes,
)
from simi_mailbox.decide.groups import (
    degree_groups,
    quantile_edges,
    read_groups,
)
from simi_mailbox.decide.quantile import (
    conformal_quantile,
    group_quantiles,
    labels_needed,
    overlapping_quantile,
)
from simi_mailbox.decide.scores import ScoredNodes, resolve
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.mailbox import mailbox_edges, mailbox_groups
from simi_mailbox.parameters import Constraint, Level, Whole, check_parameters, hyperparameters

Named = Literal["class", "degree", "mailbox"]
Parts = Annotated[int, Constraint("≥ 2", lambda x: x >= 2)]


@hyperparameters
class PredictionSets(Rule):
    """Sets of classes that hold the label of ``coverage`` of the nodes (conformal prediction).

    The guarantee needs no trust in the model: if calibration nodes and new nodes might have been
    exchanged, a new node's label lies in its set with probability ``coverage`` at least, over the
    draw of both. Better probabilities make smaller sets, not truer ones. With too few labels for
    the guarantee a set is all classes, with a warning that says how many are needed.

    Parameters
    ----------
    coverage : float
        Share of nodes whose set shall hold the label.
    score : {"aps", "lac", "raps", "daps", "snaps"} or Score
        How strange a class is; see `simi_mailbox.decide.scores`. ``"daps"`` needs ``graph``,
        ``"snaps"`` needs ``graph`` and ``features``.
    condition_on : {"class", "degree", "mailbox"} or array, optional
        Keep the guarantee within every group of nodes, not only on average: nodes of one class; of
        similar degree; of low or high confidence, each with low and high neighbour agreement; or
        groups of your own, one whole number per node [n] or memberships [n, G] that may overlap.
    groups : int
        Into how many parts the degrees are cut.
    prior : "learned", None or path
        Where the selection bias of calibration nodes that chose the model is looked up:
        the prior that comes with the package, none, or a file that ``simi-mailbox prior fit``
        has written.
    seed : int
        Seed of randomised scores.

    Attributes
    ----------
    error_weight_ : float
        What a calibration node counts that is predicted wrongly: 1, or more if these nodes chose
        the model.
    thresholds_ : array
        Largest score in a set: one number, or one per class or group. Infinite where there were
        too few labels. Empty for overlapping groups, whose thresholds depend on the node's.
    counts_ : array
        Calibration nodes behind every threshold (or in every overlapping group).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([0.3, 0.3, 0.3], size=1000)
    >>> y = (rng.random((1000, 1)) > probs.cumsum(axis=1)).sum(axis=1)
    >>> rule = PredictionSets(coverage=0.9, score="lac")
    >>> rule = rule.fit(probs, y, mask=range(200), used_for_selection=False)
    >>> sets = rule.predict_sets(probs)[200:]
    >>> bool(0.86 < sets[np.arange(800), y[200:]].mean() < 0.94)
    True
    """

    name: ClassVar[str] = "prediction-sets"

    coverage: Level = 0.9
    score: Any = "aps"
    condition_on: Any = None
    groups: Parts = 4
    prior: str | os.PathLike[str] | None = LEARNED
    seed: Whole = 0

    def fit(
        self,
        probs: Any,
        y: Any,
        *,
        mask: Any,
        graph: Any = None,
        features: Any = None,
        used_for_selection: bool = True,
        cross_fitted: Iterable[tuple[Any, Any]] | None = None,
    ) -> Self:
        """Find the thresholds on the labels of the calibration nodes.

        Parameters
        ----------
        probs : array [n, K]
            Probabilities of all nodes, calibrated or not; NumPy or torch.
        y : array [n] or [m]
            Labels, of all nodes or of the ``m`` nodes of ``mask``. Labels outside the mask are cut
            off by input validation and may hold anything.
        mask : array
            The calibration nodes: boolean [n] or indices [m].
        graph, features
            As calibrators take them, where the score or the groups need them.
        used_for_selection : bool
            Whether these nodes had a part in choosing the model. If they had, it is better on them
            than on others, and plain thresholds guarantee too much: then each calibration node that
            is predicted wrongly counts for more than one, by what other graphs have shown
            (`simi_mailbox.calibrators.simi_mailbox.prior.Prior.error_weight`).
        cross_fitted : pairs (nodes, probs), optional
            If ``probs`` were made with the labels of the calibration nodes: the same of all nodes
            made without the labels of some, for one part of the mask after another, as
            `simi_mailbox.crossfit.cross_fitted_folds` gives them. Each calibration node is then
            looked at where its own label was not known, as that of a new node is not. Needed where
            a calibrator tells neighbours the labels it knows (`SimiMailbox`) and the score looks at
            neighbours: else a calibration node's own label comes back to it.
        """
        check_parameters(self)
        self._check_params()
        self._forget()
        nodes = self._read(probs, graph, features)
        calibration = read_calibration(y, mask, nodes.probs)
        del y  # from here on, no other label exists
        index, labels = calibration.index.numpy(), calibration.y.numpy()
        try:
            by_mailbox = isinstance(self.condition_on, str) and self.condition_on == "mailbox"
            if by_mailbox:
                assert nodes.graph is not None
                self.edges_ = mailbox_edges(nodes.probs, nodes.graph)
            scores, wrong = np.empty(len(index)), np.empty(len(index), dtype=np.bool_)
            mailbox = np.zeros(len(index), dtype=np.int64)
            for places, seen in read_cross_fitted(cross_fitted, nodes, index):
                rows, truth = index[places], labels[places]
                scored = resolve(self.score).prepare(seen)(rows)
                scores[places] = scored[np.arange(len(rows)), truth]
                wrong[places] = seen.probs[rows].argmax(axis=1) != truth
                if by_mailbox:
                    assert seen.graph is not None
                    mailbox[places] = mailbox_groups(seen.probs, seen.graph, self.edges_)[rows]
            self.error_weight_ = error_weight(self.prior, used_for_selection, len(index))
            weights = None if self.error_weight_ == 1.0 else node_weights(wrong, self.error_weight_)
            self._condition(nodes, index, labels, mailbox, scores, weights)
        except BaseException:
            self._forget()  # a failed fit leaves an unfitted rule, not half of one
            raise
        self.num_classes_ = int(nodes.probs.shape[1])
        self._warn_of_too_few()
        return self

    def predict_sets(
        self, probs: Any, *, graph: Any = None, features: Any = None, groups: Any = None
    ) -> Any:
        """Prediction sets [n, K], true for the classes in a node's set; NumPy or torch as given.

        The nodes and the graph need not be those that ``fit`` saw. ``groups`` are those of these
        nodes, if ``condition_on`` was an array of other nodes.
        """
        self._read_again(probs)
        nodes = self._read(probs, graph, features)
        n, k = nodes.probs.shape
        limits = self._limits(nodes, groups)
        scored = resolve(self.score).prepare(nodes)
        sets = np.empty((n, k), dtype=np.bool_)
        for rows in nodes.row_blocks():
            limit = limits[rows, None] if limits.shape == (n,) else limits
            np.less_equal(scored(rows), limit, out=sets[rows])
        return like(probs, sets)

    def _told(self) -> list[str]:
        groups = len(self.counts_)
        behind = f"{self.counts_.min()} to {self.counts_.max()}" if groups > 1 else self.counts_[0]
        of_groups = f" in each of {groups} groups" if groups > 1 else ""
        return [f"{behind} calibration labels{of_groups}"]

    # --- inside -------------------------------------------------------------------------------

    def _check_params(self) -> None:
        resolve(self.score)
        if isinstance(self.condition_on, str) and self.condition_on not in get_args(Named):
            raise ValueError(
                f"unknown condition_on {self.condition_on!r}; choose from: "
                f"{', '.join(get_args(Named))}, or pass an array of groups"
            )

    def _read(self, probs: Any, graph: Any, features: Any) -> ScoredNodes:
        needs = set(resolve(self.score).required_inputs)
        if isinstance(self.condition_on, str) and self.condition_on in ("degree", "mailbox"):
            needs.add("graph")
        given = {"graph": graph, "features": features}
        missing = sorted(name for name in needs if given[name] is None)
        if missing:
            raise TypeError(
                f"{self!r} needs {' and '.join(missing)}: "
                f"pass {', '.join(f'{name}=…' for name in missing)}"
            )
        return read_nodes(probs, graph, features, self.seed)

    def _condition(
        self,
        nodes: ScoredNodes,
        index: Ints,
        labels: Ints,
        mailbox: Ints,
        scores: Floats,
        weights: Floats | None,
    ) -> None:
        """Set the thresholds, and what is needed to find the groups of other nodes."""
        if self.condition_on is None:
            self.thresholds_ = np.array([conformal_quantile(scores, self.coverage, weights)])
            self.counts_ = np.array([len(scores)])
            return
        group: Ints
        if isinstance(self.condition_on, str):
            if self.condition_on == "class":
                group, count = labels, nodes.probs.shape[1]
            elif self.condition_on == "degree":
                assert nodes.graph is not None
                self.edges_ = quantile_edges(nodes.graph.degree.numpy(), self.groups)
                group, count = degree_groups(nodes.graph, self.edges_)[index], len(self.edges_) + 1
            else:
                group, count = mailbox, 4
        else:
            own = read_groups(self.condition_on, len(nodes.probs))
            if own.ndim == 2:
                self.thresholds_ = np.empty(0)
                self.scores_, self.members_ = scores, own[index]
                self.weights_ = np.ones(len(scores)) if weights is None else weights
                self.counts_ = self.members_.sum(axis=0)
                return
            self.group_names_, places = np.unique(own, return_inverse=True)
            group, count = places[index], len(self.group_names_)
        self.counts_ = np.bincount(group, minlength=count)
        self.thresholds_ = group_quantiles(scores, group, count, self.coverage, weights)

    def _limits(self, nodes: ScoredNodes, groups: Any) -> Floats:
        """Largest score in the set: one for all, one per class [1, K], or one per node [n]."""
        if groups is not None and (self.condition_on is None or isinstance(self.condition_on, str)):
            raise TypeError(f"{self!r} makes its own groups; groups=… is for condition_on=array")
        if self.condition_on is None:
            return self.thresholds_[None]
        if isinstance(self.condition_on, str):
            if self.condition_on == "class":
                return self.thresholds_[None]
            assert nodes.graph is not None
            if self.condition_on == "degree":
                return self.thresholds_[degree_groups(nodes.graph, self.edges_)]
            return self.thresholds_[mailbox_groups(nodes.probs, nodes.graph, self.edges_)]
        return self._limits_of_given(groups, len(nodes.probs))

    def _limits_of_given(self, groups: Any, n: int) -> Floats:
        if groups is None:
            if len(self.condition_on) != n:
                raise TypeError(
                    f"{n} nodes, but the groups in condition_on are those of "
                    f"{len(self.condition_on)} others: pass groups=…"
                )
            groups = self.condition_on
        own = read_groups(groups, n)
        if own.ndim == 2:
            return self._limits_of_members(own)
        if not hasattr(self, "group_names_"):
            raise ValueError("fit saw memberships [n, G]; pass groups of that shape")
        place = np.searchsorted(self.group_names_, own).clip(max=len(self.group_names_) - 1)
        known = self.group_names_[place] == own
        if not known.all():
            self._warn(
                f"group {own[~known][0]} was not there when fitted: its sets are all classes"
            )
        return np.where(known, self.thresholds_[place], math.inf)

    def _limits_of_members(self, members: Bools) -> Floats:
        if not hasattr(self, "members_"):
            raise ValueError("fit saw one group per node [n]; pass groups of that shape")
        if members.shape[1] != self.members_.shape[1]:
            raise ValueError(
                f"memberships in {members.shape[1]} groups, but fit saw {self.members_.shape[1]}"
            )
        kinds, kind = np.unique(members, axis=0, return_inverse=True)
        limits = [
            overlapping_quantile(self.scores_, self.members_, member, self.coverage, self.weights_)
            for member in kinds
        ]
        return np.array(limits)[kind.reshape(-1)]

    def _warn_of_too_few(self) -> None:
        needed = labels_needed(self.coverage)
        few = np.flatnonzero(self.counts_ < needed)
        if not few.size:
            return
        if self.condition_on is None:
            self._warn(
                f"{self.counts_[0]} calibration labels are too few for sets that cover "
                f"{self.coverage:.2%}: every set is all classes; at least {needed} are needed"
            )
            return
        classes = isinstance(self.condition_on, str) and self.condition_on == "class"
        names = getattr(self, "group_names_", np.arange(len(self.counts_)))
        counted = [f"{names[g]}: {self.counts_[g]}" for g in few[:5]]
        self._warn(
            f"{few.size} of {len(self.counts_)} {'classes' if classes else 'groups'} have fewer "
            f"than the {needed} calibration labels that {self.coverage:.2%} coverage needs "
            f"({', '.join(counted)}{', …' if few.size > 5 else ''}): "
            + ("they are in every set" if classes else "their sets are all classes")
        )

    @staticmethod
    def _warn(message: str) -> None:
        warnings.warn(message, CalibrationWarning, stacklevel=4)


def node_weights(wrong: Bools, weight: float) -> Floats:
    """Weights of calibration nodes, 1 on average: ``weight`` of an error, less of a right node."""
    share = float(wrong.mean())
    if share in (0.0, 1.0):
        return np.ones(len(wrong))
    # However large the selection bias, it cannot have made every right answer.
    weight = min(weight, (1.0 + 1.0 / share) / 2.0)
    return np.where(wrong, weight, (1.0 - weight * share) / (1.0 - share))
