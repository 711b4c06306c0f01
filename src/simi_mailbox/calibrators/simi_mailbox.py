"""Simi-Mailbox, robust: groups depart from one temperature only as far as evidence supports."""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox import fast
from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators.base import NodeTemperatures
from simi_mailbox.calibrators.parts.features import fit_prototypes, nearness
from simi_mailbox.calibrators.parts.fitted_values import BELOW_ONE, Shapes, check_within
from simi_mailbox.calibrators.temperature import bound_message
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Grouping, Scaling, find_groups
from simi_mailbox.mailbox import mailbox
from simi_mailbox.parameters import Count, Positive, Whole, hyperparameters
from simi_mailbox.prior.baseline import (
    Baseline,
    blend,
    enough,
    error_rate,
    fit_baseline,
    nearest_exponents,
    promise,
)
from simi_mailbox.prior.evidence import CLASSES, EXPONENTS, Evidence, Frame, Known
from simi_mailbox.prior.files import LEARNED, resolve
from simi_mailbox.prior.lines import Lines
from simi_mailbox.prior.model import Prior, between_groups
from simi_mailbox.softmax import confidence, row_blocks, scaled_softmax
from simi_mailbox.temperature import ConfidenceCurve, Curve, fit_confidence, global_temperature
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs

PLAIN_STRENGTH = 100.0
"""Pseudo-labels behind the expectation of no residual, where no prior is used."""
LARGEST_CHANGE = 4.0
"""A group's distance from certainty, or from a blind guess, changes by at most this factor."""
LUCK_PASSES, LUCK_TOLERANCE = 5, 1e-4
"""The level is lowered by what luck asks for to a hundredth of a point."""
BOUNDS = (-6.0, 6.0)
"""How far a group's temperature may lie from the baseline's, as a logarithm."""

NOBODY = Labelled(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))

Moments = tuple[Floats, Floats, Floats]


class GroupedTemperatures(NodeTemperatures):
    """Nodes are grouped by (confidence, mailbox); T_i is the temperature of the node's group.

    Attributes
    ----------
    temperatures_ : array [groups]
    groups_ : array [n]
        Group of every node that ``fit`` saw.
    centroids_, shift_, scale_ : arrays
        What assigns unseen nodes: see `simi_mailbox.grouping.Grouping`.
    """

    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
    fitted: ClassVar[Shapes] = {
        "temperatures_": ("groups",),
        "centroids_": ("groups", 2),
        "shift_": (2,),
        "scale_": (2,),
    }

    n_groups: int
    scaling: Scaling
    seed: int

    temperatures_: Floats
    groups_: Ints
    centroids_: Floats
    shift_: Floats
    scale_: Floats

    @property
    def grouping_(self) -> Grouping:
        """The fitted scaling and centroids."""
        return Grouping(self.shift_, self.scale_, self.centroids_)

    def _make_groups(self, data: CalibrationData, points: Floats) -> None:
        """Group all nodes by their points (no label is read)."""
        wanted = self._supported_groups(len(data.calibration))
        grouping = find_groups(points, wanted, scaling=self.scaling, seed=self.seed)
        self.shift_, self.scale_ = grouping.shift, grouping.scale
        self.centroids_ = grouping.centroids
        self.groups_ = grouping.assign(points)

    def _supported_groups(self, labelled: int) -> int:
        """As many groups as are wanted, or one if there are fewer labels than that."""
        if labelled >= self.n_groups:
            return self.n_groups
        warnings.warn(
            f"{labelled} calibration nodes cannot support {self.n_groups} groups: "
            "falling back to one temperature for all nodes",
            CalibrationWarning,
            stacklevel=5,
        )
        return 1

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.from_numpy(self.temperatures_[self.grouping_.assign(self._points(data))])

    def _points(self, data: NodeInputs) -> Floats:
        """What nodes are grouped by, before scaling: (confidence, mailbox)."""
        return node_points(data)


@hyperparameters
class SimiMailbox(GroupedTemperatures):
    """All evidence in one likelihood, then one temperature per group of nodes that are alike.

    First a baseline for all nodes (`simi_mailbox.prior.baseline`): temperature scaling, changed by
    what is known of a node besides its logits. That is its degree; the labels one and two steps
    away, as far as they surprise (calibration nodes) or as counts (``train_mask``), never its own;
    what its neighbours are predicted to be; how often each class occurs; and, if ``hidden`` is
    given, how near it is to every class in the GNN's hidden layer. How far each is trusted, with
    which sign, is the likeliest given the calibration labels and what other graphs have shown
    (`simi_mailbox.prior.Prior`); without a prior the baseline is temperature scaling. Then, for
    every group n of nodes alike in the baseline's confidence and in how much their probabilities
    overlap with their neighbours', the residual of its calibration nodes, shrunk by s pseudo-
    labels, and the prior mean μ_n,

        r_n = μ_n + Σ (correct − confidence) / (count + s),

    is added to the mean confidence of all nodes of the group, and the temperature that attains
    this target is solved for. Where classes are kept, confidence here is what the evidence says of
    the predicted class: the temperature nearest to the evidence cannot say it of every node, but
    each group as a whole does. μ_n is the luck that labels which also chose the GNN's checkpoint
    have had elsewhere; s is small where groups differ by more than chance.

    Neither the offset nor the unit of logits matters. The grouping is after Seo et al. (AAAI 2025);
    `SimiMailboxPaper` is the text to the letter.

    Parameters
    ----------
    keep_classes : bool
        True: every node gets a temperature, the one nearest to what the evidence says, so that
        predicted classes stay as they are: what is expected of a calibrator. False: the
        probabilities of all classes move; classes change where labels nearby speak against
        the GNN, likelihood gains more, and accuracy usually rises.
    n_groups : int
        Number of groups.
    prior : "learned", None or path
        The prior that comes with the package, none (plain shrinkage), or a file that
        ``simi-mailbox prior fit`` has written.
    prior_strength : float, optional
        Pseudo-labels s behind the prior. By default 100 without a prior, and by evidence with one.
    scaling : {"min-max", "standard"}
        How confidence and similarity are scaled before k-means.
    seed : int
        Seed of k-means++.

    Attributes
    ----------
    temperature_ : float
        The temperature of temperature scaling.
    temperatures_ : array [groups]
        Of nodes on which no evidence speaks.
    groups_, similarity_ : array [n]
        Of the nodes of ``fit``: group, and mean overlap of ``p = softmax(z / temperature_)`` with
        the neighbours', Σ_c p_ic p_jc.
    counts_ : array [groups]
        Calibration nodes in every group.
    at_bound_ : array [groups] of bool
    baseline_ : dict
        Temperature, blind share and coefficients of a `simi_mailbox.prior.baseline.Baseline`.
    evidence_ : dict
        What evidence is made from at prediction: units and middles, and the labels that ``fit``
        was given, which speak for their neighbours on the graph of ``fit``. **A saved calibrator
        holds these labels.**
    prior_means_ : array [groups]
    prior_strength_ : float
    prior_ : dict
        The numbers of the prior that was used, and where they come from; empty without one.

    Notes
    -----
    ``predict_proba`` on the graph that ``fit`` saw uses the labels of ``fit``. ``known=(nodes,
    labels)`` adds labels, there or on any other graph; for a node that has one already the newer
    counts. Known labels of nodes in ``train_mask`` are taken as ones that the GNN was trained on.
    A node's own label never speaks for itself.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(500, 3, temperature=2.0, seed=0)
    >>> cal = SimiMailbox(n_groups=5)
    >>> cal = cal.fit(problem.logits, problem.y, graph=problem.graph, mask=range(200))
    >>> cal.predict_proba(problem.logits, graph=problem.graph).shape
    (500, 3)
    >>> later = (range(200, 300), problem.y[200:300])  # labels that arrived since
    >>> cal.predict_proba(problem.logits, graph=problem.graph, known=later).shape
    (500, 3)
    """

    name: ClassVar[str] = "simi-mailbox"
    version: ClassVar[int] = 4
    optional_inputs: ClassVar[frozenset[str]] = frozenset({"hidden", "known", "used_for_selection"})

    keep_classes: bool = True
    n_groups: Count = 20
    prior: str | os.PathLike[str] | None = LEARNED
    prior_strength: Positive | None = None
    scaling: Scaling = "min-max"
    seed: Whole = 0

    @property
    def uniform_weight(self) -> float:
        """Share of blind guesses in the probabilities."""
        return float(self.baseline_["blind"])

    # --- fit ------------------------------------------------------------------------------------

    def _fit(self, data: CalibrationData) -> None:
        prior, at_bound = self._begin(data, data.logits.numel())
        evidence = _evidence(data, self.temperature_)
        self.evidence_: dict[str, Any] = _kept(data)
        baseline = self._first_baseline(data, prior, at_bound)
        if baseline is None:
            assert prior is not None
            baseline = self._fit_baseline(data, evidence, prior)
        self.baseline_: dict[str, float] = baseline.fields()
        view = self._view(evidence)
        self.evidence_ |= asdict(evidence.frame)
        del evidence  # twice the logits in memory, where it is not in lines
        self.similarity_: Floats = view.similarity.numpy()
        self._remember(data, view)
        points = view.points(self.uniform_weight, data.num_classes)
        self._make_groups(data, points)
        groups, n_groups = torch.from_numpy(self.groups_), len(self.centroids_)
        curve = ConfidenceCurve(view.logits, groups, n_groups, view.scale)
        promised = None
        if view.promised is not None:
            each = view.promised.numpy()
            promised = np.bincount(self.groups_, each, minlength=n_groups).astype(np.float64)
        self._fit_groups(data, view, prior, at_bound, curve, promised)

    def _begin(self, data: CalibrationData, size: int) -> tuple[Prior | None, bool]:
        """One temperature for all nodes, and whether it is on a bound; the prior, if one is used.

        ``size`` is that of all logits.
        """
        z, y = data.calibration_logits, data.calibration.y
        kernels = fast.kernels() if size >= fast.WORTH_NODES else None
        self.temperature_, at_bound = global_temperature(z, y, kernels)
        if at_bound:
            warnings.warn(bound_message(data, self.temperature_), CalibrationWarning, stacklevel=4)
        prior = None if self.prior is None else resolve(self.prior)
        if len(data.calibration) < self.n_groups:
            prior = None  # too few labels for groups: temperature scaling, and nothing else
        self.prior_: dict[str, Any] = {} if prior is None else prior.to_dict()
        return prior, at_bound

    def _first_baseline(
        self, data: CalibrationData, prior: Prior | None, at_bound: bool
    ) -> Baseline | None:
        """The baseline where no evidence is asked."""
        if prior is None:
            return Baseline(self.temperature_)
        if not at_bound:
            return None
        # The labels say nothing about blind guesses: take the prior's word for them.
        blind = prior.belief(hidden=False, trained=False).middle["blind"]
        unit = error_rate(torch.ones(len(data.calibration))) ** 2
        return Baseline(self.temperature_, blind=float(min(unit * np.exp(blind), 0.5)))

    def _fit_baseline(self, data: CalibrationData, evidence: Evidence, prior: Prior) -> Baseline:
        hidden, trained = data.hidden is not None, data.trained is not None
        belief = prior.belief(hidden=hidden, trained=trained)
        asked = data.hidden is not None and "hidden" in belief.terms
        if asked and evidence.closeness is None:
            found, evidence.closeness = closeness(data.hidden, evidence.probs)
            self.evidence_ |= {"prototypes": found[0], "precision": found[1]}
        self._hear(evidence, data)
        place = enough(torch.arange(len(data.calibration)), evidence.sure[data.calibration.index])
        index = data.calibration.index[place]
        wanted = tuple(name for name in belief.terms if name in CLASSES)
        return fit_baseline(
            evidence.gaps(index),
            evidence.terms[index],
            evidence.classes(index, wanted),
            data.calibration.y[place],
            self.temperature_,
            belief,
            doubt=True,
        )[0]

    def _fit_groups(
        self,
        data: CalibrationData,
        view: View,
        prior: Prior | None,
        at_bound: bool,
        curve: Curve,
        promised: Floats | None,
    ) -> None:
        """Temperatures of the groups: of ``view`` calibration nodes are read, of all the curve.

        ``promised`` are sums over the nodes of every group, where there are any.
        """
        n_groups, baseline = len(self.centroids_), Baseline.read(self.baseline_)
        index = data.calibration.index
        group = self.groups_[index.numpy()]
        self.counts_: Ints = np.bincount(group, minlength=n_groups)
        if n_groups == 1:
            self.prior_means_, self.prior_strength_ = np.zeros(1), self._plain_strength
            self.temperatures_ = np.array([baseline.temperature])
            self.at_bound_: Bools = np.array([at_bound])
            return
        said = (view.sure if view.promised is None else view.promised)[index].double()
        sure = blend(said, baseline.blind, data.num_classes).numpy()
        right = (view.logits[index].argmax(dim=1) == data.calibration.y).numpy()
        residual, variance = right - sure, sure * (1.0 - sure)
        total, spread, counts = (
            np.bincount(group, values, minlength=n_groups).astype(np.float64)
            for values in (residual, variance, np.ones_like(sure))
        )
        theta = np.zeros(n_groups)
        at_start = curve(theta)
        mean = at_start[0]
        due = mean if promised is None else promised / np.maximum(curve.counts, 1.0)
        means, strength = np.zeros(n_groups), self._plain_strength
        if prior is not None:
            level = prior.level(keep_classes=self.keep_classes)
            error = error_rate(confidence(data.calibration_logits, self.temperature_))
            labels = max(len(sure), prior.fewest_labels)
            c = curve.counts @ due / curve.counts.sum()
            c = float((1.0 - baseline.blind) * c + baseline.blind / data.num_classes)
            drop = level.drop(c, error, labels, fresh=not data.used_for_selection) / (
                1.0 - baseline.blind
            )
            theta, at_start = _common_theta(curve, at_start, drop, data.num_classes)
            means = (1.0 - baseline.blind) * (at_start[0] - mean)
            strength = level.strength(*between_groups(total, spread, counts), variance.mean())
            strength = strength if self.prior_strength is None else self.prior_strength
        self.prior_means_, self.prior_strength_ = means, float(strength)
        shift = means + total / (counts + strength)
        shift = due - mean + shift / (1.0 - baseline.blind)
        target = bounded_target(mean, shift, data.num_classes)
        solution = fit_confidence(curve, target, BOUNDS, start=theta, at_start=at_start)
        self.temperatures_ = baseline.temperature * solution.temperatures
        self.at_bound_ = solution.at_bound

    @property
    def _plain_strength(self) -> float:
        return PLAIN_STRENGTH if self.prior_strength is None else self.prior_strength

    # --- evidence -------------------------------------------------------------------------------

    def _hear(self, evidence: Evidence, data: NodeInputs) -> None:
        """Give the evidence its labels, and the hidden layer."""
        kept = self.evidence_
        if "prototypes" in kept and evidence.closeness is None:
            prototypes = kept["prototypes"], kept["precision"]
            evidence.closeness = closeness(data.hidden, evidence.probs, prototypes)[1]
        known = joined(self._labels_of_fit(data), data, "trained" in kept)
        evidence.hear(known, kept["counts"], part=data.node_ids is not None)

    def _labels_of_fit(self, data: NodeInputs) -> Known:
        """The labels that ``fit`` was given, if this is its graph."""
        kept = self.evidence_
        parts = [kept_labels(kept, name) for name in ("calibration", "trained") if name in kept]
        if data.node_ids is not None:
            parts = [_within(part, data.node_ids) for part in parts]
        elif data.neighbourhoods.fingerprint() != kept["graph"]:
            parts = [NOBODY for _ in parts]
        return Known(*parts)

    def _view(self, evidence: Evidence) -> View:
        """What the baseline makes of every node."""
        baseline, unit = Baseline.read(self.baseline_), self.temperature_
        exponents = baseline.exponents(evidence.terms, unit)
        moved, promised, z = None, None, evidence.logits
        if baseline.classes:
            moved = None if self.keep_classes else torch.empty_like(z)
        if baseline.classes and isinstance(evidence, Lines):
            promised = evidence.apply(baseline.terms, exponents, moved)
        elif baseline.classes:
            promised = z.new_empty(len(z) if moved is None else 0)
            for rows in row_blocks(*z.shape):
                gaps = evidence.gaps(rows)
                parts = evidence.classes(rows, baseline.classes)
                scores = baseline.scores(exponents[rows], gaps, parts)
                if moved is None:
                    promised[rows] = promise(gaps, scores)
                    exponents[rows] = nearest_exponents(gaps, exponents[rows], scores)
                else:
                    moved[rows] = scores
        if moved is not None:
            return View(moved, None, evidence.similarity)
        return View(z, exponents.exp_().div_(unit), evidence.similarity, promised)

    def _seen(self, data: NodeInputs) -> View:
        """The same at prediction, by what ``fit`` has found."""
        kept, graph = self.evidence_, data.neighbourhoods
        if (data.hidden is None) != (kept["width"] == 0):
            raise ValueError(
                "this calibrator was fitted with a hidden layer: pass hidden=… here as well"
                if data.hidden is None
                else "this calibrator was fitted without hidden=…: leave it out, or fit with it"
            )
        if data.hidden is not None and data.hidden.shape[1] != kept["width"]:
            raise ValueError(
                f"hidden has {data.hidden.shape[1]} columns, but this calibrator was fitted on "
                f"{kept['width']}"
            )

        def look() -> View:
            evidence = _evidence(data, self.temperature_, Frame.read(kept))
            if Baseline.read(self.baseline_).classes:
                self._hear(evidence, data)
            return self._view(evidence)

        if not self.keep_classes:
            return look()
        found = graph.remembered(self._name_of(data), data.logits, lambda: look().numbers())
        scale, similarity, sure = found.t().clone()
        view = View(data.logits, scale, similarity)
        view.__dict__["sure"] = sure
        return view

    def _remember(self, data: CalibrationData, view: View) -> None:
        """Leave three numbers of every node with the graph: prediction mostly follows at once."""
        if view.scale is not None:
            graph = data.neighbourhoods
            graph.remembered(self._name_of(data), data.logits, view.numbers)

    def _name_of(self, data: NodeInputs) -> str:
        """Digest of all that the view depends on besides graph and logits."""
        digest = hashlib.sha256(repr(sorted(self.baseline_.items())).encode())
        for name, value in sorted(self.evidence_.items()):
            content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            digest.update(name.encode() + content)
        parts = [data.hidden, data.node_ids]
        if data.known is not None:
            parts += [data.known.index, data.known.y, data.training]
        for part in parts:
            given = None if part is None else part.to_dense().contiguous()
            digest.update(b"|" if given is None else given.numpy().tobytes())
        return f"evidence {digest.hexdigest()}"

    # --- prediction -----------------------------------------------------------------------------

    def _points(self, data: NodeInputs) -> Floats:
        return self._seen(data).points(self.uniform_weight, data.num_classes)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        view = self._seen(data)
        if view.scale is None:
            raise ValueError("with keep_classes=False nodes have no temperature: all classes move")
        return self._group_factors(view, data.num_classes) / view.scale

    def _group_factors(self, view: View, num_classes: int) -> Tensor:
        """Temperature of every node's group, relative to the baseline's."""
        group = self.grouping_.assign(view.points(self.uniform_weight, num_classes))
        return torch.from_numpy(self.temperatures_[group] / self.baseline_["temperature"])

    def _predict(self, data: NodeInputs) -> Tensor:
        if self.keep_classes:
            probs = scaled_softmax(data.logits, self._temperatures(data))
        else:
            view = self._seen(data)
            factors = self._group_factors(view, data.num_classes)
            probs = scaled_softmax(
                view.logits, factors if view.scale is None else factors / view.scale
            )
        return blend(probs, self.uniform_weight, data.num_classes)

    def _check_state(self) -> None:
        if not isinstance(self.baseline_, dict) or not isinstance(self.prior_, dict):
            raise ValueError("baseline_ and prior_ must be tables of numbers")
        self._check_evidence()
        numbers = {name: float(value) for name, value in self.baseline_.items()}
        check_within("the temperature of baseline_", numbers.pop("temperature"), 1e-300, 1e300)
        check_within("the blind share of baseline_", numbers.pop("blind"), 0.0, BELOW_ONE)
        check_within("the effects of baseline_", list(numbers.values()), -1e3, 1e3)

    def _check_evidence(self) -> None:
        """Raise `ValueError` unless the evidence is one that a fit leaves."""
        kept = self.evidence_
        if not isinstance(kept, dict):
            raise ValueError("evidence_ must be a table")
        frame, k = Frame.read(kept), len(self.classes_)
        for name, values in (("centre", frame.centre), ("spread", frame.spread)):
            if np.shape(values) != (3,):
                raise ValueError(f"{name} of evidence_ must hold three numbers")
        for name, values in (("mass", frame.mass), ("counts", kept["counts"])):
            if np.shape(values) != (k,):
                raise ValueError(f"{name} of evidence_ must hold a number for each of {k} classes")
        check_within("the mass of evidence_", frame.mass, 1e-300, 1.0)
        check_within("the spread of evidence_", frame.spread, 1e-300, 1e300)
        for name in ("calibration", "trained"):
            if name in kept:
                nodes, labels = kept[name], kept[f"{name}_labels"]
                if nodes.shape != labels.shape or nodes.ndim != 1:
                    raise ValueError(f"{name} of evidence_ must have a label for every node")
                check_within(f"the labels of {name}", labels, 0, k - 1)
        known = {*EXPONENTS, *CLASSES, "temperature", "blind", "trust"}
        if not set(self.baseline_) <= known:
            raise ValueError(
                f"baseline_ has terms that nobody knows: {set(self.baseline_) - known}"
            )


@hyperparameters
class SimiMailboxFree(SimiMailbox):
    """`SimiMailbox` with ``keep_classes=False``: the probabilities of all classes move.

    The same method under a name of its own, for tables and commands that know methods by name.

    Examples
    --------
    >>> SimiMailboxFree().keep_classes
    False
    """

    name: ClassVar[str] = "simi-mailbox-free"
    keep_classes: bool = False


@dataclass(frozen=True, eq=False)
class View:
    """What the baseline makes of every node.

    ``logits`` are the given ones, and ``scale`` what each node's are multiplied by; or they are
    new ones, and there is no scale. ``promised`` is what the evidence says of the predicted class,
    where a temperature cannot say it.
    """

    logits: Tensor
    scale: Tensor | None
    similarity: Tensor
    promised: Tensor | None = None

    @cached_property
    def sure(self) -> Tensor:
        """Confidence before blind guesses."""
        return confidence(self.logits, 1.0 if self.scale is None else self.scale.reciprocal())

    def points(self, blind: float, num_classes: int) -> Floats:
        """What nodes are grouped by: (confidence, overlap with the neighbours)."""
        sure = blend(self.sure.clone(), blind, num_classes)
        return torch.stack([sure, self.similarity], dim=1).numpy()

    def numbers(self) -> Tensor:
        """Scale, similarity and confidence of every node, [n, 3]."""
        assert self.scale is not None
        return torch.stack([self.scale, self.similarity, self.sure], dim=1)


def _evidence(data: NodeInputs, temperature: float, frame: Frame | None = None) -> Evidence:
    """The evidence, in compiled loops where there is much to do and Numba at hand."""
    given = data.logits, data.neighbourhoods, temperature, frame
    kernels = fast.kernels() if data.logits.numel() >= fast.WORTH_NODES else None
    return Evidence(*given) if kernels is None else Lines(*given, kernels)


def _kept(data: CalibrationData) -> dict[str, Any]:
    """What prediction needs of the evidence besides its frame, as a file can hold it."""
    kept: dict[str, Any] = {"graph": data.neighbourhoods.fingerprint()}
    kept["width"] = 0 if data.hidden is None else int(data.hidden.shape[1])
    kept["counts"] = np.zeros(data.num_classes)
    for name, part in (("calibration", data.calibration), ("trained", data.trained)):
        if part is not None:
            kept[name], kept[f"{name}_labels"] = part.index.numpy(), part.y.numpy()
            kept["counts"] += np.bincount(part.y.numpy(), minlength=data.num_classes)
    return kept


def kept_labels(kept: dict[str, Any], name: str) -> Labelled:
    """The labels that a fit was given, by its ``evidence_``: of "calibration" or "trained"."""
    return Labelled(torch.from_numpy(kept[name]), torch.from_numpy(kept[f"{name}_labels"]))


def _within(labels: Labelled, numbers: Tensor) -> Labelled:
    """Those of some labelled nodes that are among ``numbers``, by their places there."""
    order = numbers.argsort()
    place = torch.searchsorted(numbers[order], labels.index).clamp(max=len(numbers) - 1)
    here = numbers[order[place]] == labels.index
    return Labelled(order[place[here]], labels.y[here])


def joined(fitted: Known, data: NodeInputs, trained: bool) -> Known:
    """Labels of fit and those known by now; the newer one counts.

    A label that the GNN was trained on counts among those, if the fit had such labels. Of ``data``
    nothing else is read than known labels and training nodes.
    """
    known = data.known
    if known is None:
        return fitted
    theirs = torch.empty(0, dtype=torch.int64)
    if trained:
        assert fitted.trained is not None
        given = theirs if data.training is None else data.training
        theirs = torch.cat([fitted.trained.index, given])
    of_training = torch.isin(known.index, theirs)
    if not trained and data.training is not None:  # they would be no surprise
        of_training = torch.isin(known.index, data.training)
    parts: list[Labelled | None] = []
    for old, new in ((fitted.calibration, ~of_training), (fitted.trained, of_training)):
        if old is None:
            parts.append(None)
            continue
        kept = ~torch.isin(old.index, known.index)
        index = torch.cat([old.index[kept], known.index[new]])
        parts.append(Labelled(index, torch.cat([old.y[kept], known.y[new]])))
    assert parts[0] is not None
    return Known(parts[0], parts[1])


def closeness(
    hidden: Any, probs: Tensor, prototypes: tuple[Floats, Floats] | None = None
) -> tuple[tuple[Floats, Floats], Tensor]:
    """Prototypes of the classes, and −log of the distance of every node to each of them.

    A class's prototype is the mean of all nodes weighted by its probability: no label enters.
    """
    dense = hidden if hidden.layout is torch.strided else hidden.to_dense()
    x = np.asarray(dense.numpy(), dtype=np.float64)
    found = prototypes or fit_prototypes(x, probs.double().numpy())
    return found, torch.from_numpy(nearness(x, *found)).to(probs.dtype)


def _common_theta(
    curve: Curve, at_start: Moments, drop: float, num_classes: int
) -> tuple[Floats, Moments]:
    """One temperature for all groups that lowers the mean confidence by ``drop``.

    Luck is a matter of the level: sure nodes hardly feel it, as they hardly feel a temperature.
    Also returns what the curve says there.
    """
    share, theta = curve.counts / curve.counts.sum(), 0.0
    value, d1, d2 = (float(share @ part) for part in at_start)
    target = float(bounded_target(np.array(value), np.array(-drop), num_classes))
    for _ in range(LUCK_PASSES):
        gap = value - target
        if abs(gap) <= LUCK_TOLERANCE or not d1 > 0:
            break
        theta += float(np.clip(-gap / (d1 - gap * d2 / (2.0 * d1)), -1.0, 1.0))
        at_start = curve(np.full(curve.n_groups, theta))
        value, d1, d2 = (float(share @ part) for part in at_start)
    return np.full(curve.n_groups, theta), at_start


def node_points(data: NodeInputs) -> Floats:
    """(confidence, mailbox) of every node as the paper has them, before scaling."""
    similarity = mailbox(data.logits, data.neighbourhoods).double()
    return torch.stack([confidence(data.logits), similarity], dim=1).numpy()


def bounded_target(mean: Floats, shift: Floats, num_classes: int) -> Floats:
    """``mean + shift``, kept away from certainty and from a blind guess.

    A target of 1 would make a group certain, and its first wrong node infinitely costly.

    Examples
    --------
    >>> bounded_target(np.array([0.6, 0.98]), np.array([0.1, 0.1]), num_classes=2)
    array([0.7  , 0.995])
    """
    guess = 1.0 / num_classes
    low = guess + (mean - guess) / LARGEST_CHANGE
    high = 1.0 - (1.0 - mean) / LARGEST_CHANGE
    return np.clip(mean + shift, low, high)
