"""Simi-Mailbox as the paper's text describes it, for reproduction."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.adam import LEARNING_RATE, Tabulated, adam_path
from simi_mailbox.calibrators.base import Shapes, TemperatureCalibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Grouping, Scaling, find_groups
from simi_mailbox.mailbox import mailbox
from simi_mailbox.metrics.calibration_error import bin_outcomes
from simi_mailbox.parameters import Count, NonNegative, Positive, Whole, hyperparameters
from simi_mailbox.softmax import confidence, top_gaps
from simi_mailbox.temperature import (
    ConfidenceCurve,
    CrossEntropy,
    Curve,
    PaperLoss,
    fit_paper_loss,
    theta_bounds,
)
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs

GROUPS = (5, 10, 15, 20, 25, 30)
PENALTIES = (1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
BINS, RELEASED_BINS = 15, 10

Ece = Callable[[Sequence[Floats]], Floats]
Pairs = list[tuple[Labelled, Labelled]]


def node_points(data: NodeInputs) -> Floats:
    """(confidence, mailbox) of every node as the paper has them, before scaling."""
    similarity = mailbox(data.logits, data.neighbourhoods).double()
    return torch.stack([confidence(data.logits), similarity], dim=1).numpy()


class GroupedTemperatures(TemperatureCalibrator):
    """Nodes are grouped by (confidence, mailbox); T_i is the temperature of the node's group."""

    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
    fitted: ClassVar[Shapes] = {
        "temperatures_": ("groups",),
        "centroids_": ("groups", 2),
        "shift_": (2,),
        "scale_": (2,),
    }

    temperatures_: Floats
    groups_: Ints
    centroids_: Floats
    shift_: Floats
    scale_: Floats
    penalty_: float
    epochs_: int

    def _temperatures(self, data: NodeInputs) -> Tensor:
        grouping = Grouping(self.shift_, self.scale_, self.centroids_)
        return torch.from_numpy(self.temperatures_[grouping.assign(node_points(data))])


@hyperparameters
class SimiMailboxPaper(GroupedTemperatures):
    """As described in the paper: group accuracies from calibration labels, no shrinkage.

    Seo et al., "Towards Precise Prediction Uncertainty in GNNs: Refining GNNs with
    Topology-grouping Strategy", AAAI 2025. Nodes are grouped by k-means on (confidence, mailbox),
    the mailbox of a node being the mean of σ(z_i · z_j) over its neighbours j. Temperatures
    minimise

        CE(calibration nodes) + λ Σ_n (a_n − mean confidence of group n)²

    where a_n is "the accuracy of validation nodes" of group n, and the mean runs over all nodes of
    the group. The released code averages a_n over all nodes, test nodes included; this class
    cannot. Groups without calibration node have no gap term, and T = 1. ``search=True, folds=5``
    gives the method its best chance; `SimiMailbox` is the one for use. The mailbox depends on a
    constant added to a node's logits: pass the raw outputs of the model.

    Parameters
    ----------
    n_groups, penalty
        N and λ. "The number of clusters N is selected from the range [5, 30]. The regularization
        coefficient λ is explored in the range of [1, 50]": no choice is published.
    solver : {"adam", "exact"}
        Adam, with the paper's learning rate, epochs and patience; or the exact minimiser.
    selection : {"validation-ece", "training-ece", "none"}
        "The optimal calibration models are chosen based on the lowest validation ECE on training
        set": the epoch, and with ``search`` also N and λ, of lowest ECE (15 bins) on the
        calibration nodes; on the nodes of ``early_stopping_mask`` (10 bins), the released rule;
        or the last epoch.
    search : bool
        Choose N among 5, 10, …, 30 and λ among 1, 5, 10, 20, …, 50 by ``selection``.
    folds : int
        If 2 or more, the ECE of every calibration node is taken under a fit without its label.
    lr, epochs, patience
        Of Adam.
    scaling, seed
        See `SimiMailbox`.

    Attributes
    ----------
    temperatures_, groups_ : arrays [groups], [n]
        Of the groups, and the group of every node that ``fit`` saw.
    centroids_, shift_, scale_ : arrays
        What assigns unseen nodes: see `simi_mailbox.grouping.Grouping`.
    penalty_, epochs_ : float, int
        λ that was used, and steps of Adam that were kept; 0 for the exact solver.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(500, 3, temperature=2.0, seed=0)
    >>> given = {"graph": problem.graph, "mask": range(200)}
    >>> SimiMailboxPaper(n_groups=10).fit(problem.logits, problem.y, **given).temperatures_.shape
    (10,)
    """

    name: ClassVar[str] = "simi-mailbox-paper"
    shift_invariant: ClassVar[bool] = False
    version: ClassVar[int] = 2

    n_groups: Count = 15
    penalty: NonNegative = 50.0
    solver: Literal["adam", "exact"] = "adam"
    selection: Literal["validation-ece", "training-ece", "none"] = "validation-ece"
    search: bool = False
    folds: Whole = 0
    lr: Positive = LEARNING_RATE
    epochs: Count = 2000
    patience: Count = 100
    scaling: Scaling = "min-max"
    seed: Whole = 0

    def _check_params(self) -> None:
        if self.selection == "none" and (self.search or self.folds):
            raise ValueError(
                'search and folds choose by an ECE, but selection is "none": give '
                'selection="validation-ece", or neither of them'
            )
        if self.folds == 1:
            raise ValueError("folds is 1; expected 0 (no cross-fitting) or at least 2")

    def _fit(self, data: CalibrationData) -> None:
        points, (fitted, judged) = node_points(data), zip(*self._pairs(data), strict=True)
        bins = RELEASED_BINS if self.selection == "training-ece" else BINS
        penalties = PENALTIES if self.search else (self.penalty,)
        best, least = None, np.inf
        for n_groups in self._numbers_of_groups(len(data.calibration)):
            grouping = find_groups(points, n_groups, scaling=self.scaling, seed=self.seed)
            groups = torch.from_numpy(grouping.assign(points))
            trial = Trial(data.logits, grouping, groups, tabulated=self.solver == "adam")
            losses = [trial.loss_on(some, penalties) for some in fitted]
            paths = [self._path(loss, data.logits) for loss in losses]
            ece = trial.ece_on(judged, bins) if self.selection != "none" else _last
            eces, epochs = lowest(zip(*paths, strict=True), ece, self.patience)
            first = int(eces.argmin())
            if best is None or eces[first] < least:
                best, least = (trial, penalties[first], int(epochs[first])), eces[first]
        assert best is not None
        trial, self.penalty_, epoch = best
        self.epochs_ = epoch if self.solver == "adam" else 0
        self.groups_, self.centroids_ = trial.groups.numpy(), trial.grouping.centroids
        self.shift_, self.scale_ = trial.grouping.shift, trial.grouping.scale
        path = self._path(trial.loss_on(data.calibration, [self.penalty_]), data.logits)
        self.temperatures_ = next(islice(path, epoch - 1, None))[0]

    def _numbers_of_groups(self, labelled: int) -> tuple[int, ...]:
        """The numbers of groups to try that have labels enough; one group if none has."""
        wanted = GROUPS if self.search else (self.n_groups,)
        if enough := tuple(n for n in wanted if n <= labelled):
            return enough
        warnings.warn(
            f"{labelled} calibration nodes cannot support {wanted[0]} groups: "
            "falling back to one temperature for all nodes",
            CalibrationWarning,
            stacklevel=5,
        )
        return (1,)

    def _pairs(self, data: CalibrationData) -> Pairs:
        """On which nodes is fitted, and on which the ECE of that is taken."""
        given = data.calibration
        if self.selection == "training-ece":
            if data.holdout is None:
                raise ValueError(
                    'selection="training-ece" stops on the nodes that the GNN was trained on: '
                    "pass early_stopping_mask=train_mask"
                )
            return [(given, data.holdout)]
        if not self.folds:
            return [(given, given)]
        if len(given) < 2 * self.folds:
            raise ValueError(
                f"{len(given)} calibration nodes are too few for {self.folds} folds: give at "
                f"least {2 * self.folds}, or folds=0"
            )
        part = np.random.default_rng(self.seed).permutation(len(given)) % self.folds
        out = [torch.from_numpy(part == k) for k in range(self.folds)]
        return [(_some(given, ~mask), _some(given, mask)) for mask in out]

    def _path(self, loss: PaperLoss, logits: Tensor) -> Iterator[Floats]:
        """Temperatures [weights, groups] after every epoch; of the exact solver, the solutions."""
        self.at_bound_ = np.zeros(len(loss.known), dtype=bool)
        if self.solver == "adam":
            yield from islice(adam_path(loss, self.lr), self.epochs)
            return
        found = [fit_paper_loss(one, theta_bounds(logits)) for one in loss.by_weight()]
        self.at_bound_ = found[0].at_bound & loss.known
        yield np.stack([np.where(loss.known, one.temperatures, 1.0) for one in found])


def _last(found: Sequence[Floats]) -> Floats:
    """All epochs alike: the last of them is kept."""
    return np.zeros(len(found[0]))


def _some(labelled: Labelled, mask: Tensor) -> Labelled:
    return Labelled(labelled.index[mask], labelled.y[mask])


# --- how it chooses -------------------------------------------------------------------------------


def group_accuracy(logits: Tensor, labelled: Labelled, groups: Tensor, n_groups: int) -> Floats:
    """Share of the labelled nodes of every group that are predicted right; NaN without any."""
    right = (logits[labelled.index].argmax(dim=1) == labelled.y).double().numpy()
    group = groups[labelled.index].numpy()
    counts = np.bincount(group, minlength=n_groups)
    hits = np.bincount(group, right, minlength=n_groups)
    return np.where(counts > 0, hits / np.maximum(counts, 1), np.nan)


class Trial:
    """Nodes in groups, and the loss as a function of temperatures, ``tabulated`` for Adam."""

    def __init__(
        self, logits: Tensor, grouping: Grouping, groups: Tensor, *, tabulated: bool
    ) -> None:
        self.logits, self.grouping, self.groups = logits, grouping, groups
        self.n_groups = len(grouping.centroids)
        self._kept: Callable[[Curve], Curve] = Tabulated if tabulated else lambda curve: curve
        self._curve = self._kept(ConfidenceCurve(logits, groups, self.n_groups))

    def loss_on(self, labelled: Labelled, penalties: Sequence[float]) -> PaperLoss:
        """The loss on some labelled nodes, for some weights λ."""
        z, group = self.logits[labelled.index], self.groups[labelled.index]
        ce = self._kept(CrossEntropy(z, labelled.y, group, self.n_groups))
        accuracy = group_accuracy(self.logits, labelled, self.groups, self.n_groups)
        return PaperLoss(self._curve, ce, accuracy, penalties)

    def ece_on(self, judged: Sequence[Labelled], bins: int) -> Ece:
        """From temperatures [weights, groups] of several fits, each judged on nodes of its own, to
        the ECE of every weight, in common bins."""
        index, y = (torch.cat([getattr(part, name) for part in judged]) for name in ("index", "y"))
        z, fits = self.logits[index], np.arange(len(judged))
        gaps, right = top_gaps(z).numpy(), (z.argmax(dim=1) == y).double().numpy()
        fit = np.repeat(fits, [len(part) for part in judged])
        place = fit * self.n_groups + self.groups[index].numpy()

        def ece(temperatures: Sequence[Floats]) -> Floats:
            each = np.concatenate(temperatures, axis=1)[:, place]
            confident = [1.0 / np.exp(gaps / row[:, None]).sum(axis=1) for row in each]
            # Rounded: rounding errors must not choose between epochs.
            return np.array([bin_outcomes(c, right, bins).ece for c in confident]).round(12)

        return ece


def lowest(path: Iterable[Sequence[Floats]], ece: Ece, patience: int) -> tuple[Floats, Ints]:
    """Lowest ECE of every weight along a path, and its epoch (the last of equals); a search ends
    after ``patience`` epochs without an equal or better one."""
    least, best, searched = np.array(np.inf), np.array(0), np.array(True)
    for epoch, temperatures in enumerate(path, start=1):
        found = ece(temperatures)
        better = searched & (found <= least)
        least, best = np.where(better, found, least), np.where(better, epoch, best)
        searched = searched & (epoch - best < patience)
        if not searched.any():
            break
    return least, best
