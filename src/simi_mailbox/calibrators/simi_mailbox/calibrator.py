"""`SimiMailbox`: the default calibrator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.base import Calibrator, Shapes
from simi_mailbox.calibrators.simi_mailbox import evidence
from simi_mailbox.calibrators.simi_mailbox import model as models
from simi_mailbox.calibrators.simi_mailbox.evidence import InMemory, Sums, Units
from simi_mailbox.calibrators.simi_mailbox.model import EXPONENTS, Base, Model, Nodes
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED, Prior, resolve
from simi_mailbox.calibrators.simi_mailbox.support import LEFT_OUT, Support
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Grouping, Scaling, SoftGroups, find_groups, nearest
from simi_mailbox.parameters import Count, Whole, hyperparameters
from simi_mailbox.softmax import confidence, preserve_predictions, row_blocks
from simi_mailbox.validation import (
    CalibrationData,
    InputType,
    Labelled,
    NodeInputs,
    read_classes,
    read_node_ids,
)

ENOUGH, ENOUGH_NUMBERS = 4096, 1 << 16
"""Labelled nodes, and their logits, on which a few dozen numbers are known well enough."""
ROUNDING = 0.01
"""Change of logits, relative to their mean size, up to which they are the same."""
CONTRADICTED = 0.2
"""Share of calibration nodes with another likeliest class that is worth a warning."""

Identity = Callable[[], tuple[str, Floats]]


@hyperparameters
class SimiMailbox(Calibrator):
    """Temperature scaling with evidence from the graph, in groups of similar nodes.

    One likelihood of the calibration labels (`simi_mailbox.calibrators.simi_mailbox.model`): a
    temperature for every node, by its degree and its group; class intercepts; and evidence on every
    class from the predictions of the neighbours, from labels one and two steps away and, if
    ``hidden`` is given, from the GNN's hidden layer. A group is nodes alike in confidence and in
    mailbox similarity (Seo et al., AAAI 2025). How far each part is trusted comes from the labels
    at hand and from other graphs (`prior`), as does a correction of the selection bias of
    calibration nodes that chose the GNN's checkpoint.

    Parameters
    ----------
    keep_classes : bool
        True: predicted classes stay; where the evidence is for another class, probabilities are
        the nearest ones that keep it. False: predictions may change; accuracy usually rises.
    n_groups : int
        Number of groups; 1 for none.
    prior : "learned", None or path
        The prior that comes with the package, none (nothing is assumed of other graphs, nor of
        selection bias), or a file that ``simi-mailbox prior fit`` has written.
    scaling : {"min-max", "standard"}
        How confidence and similarity are scaled before k-means.
    seed : int
        Of k-means++.

    Attributes
    ----------
    temperature_ : float
        Of temperature scaling.
    temperatures_ : array [groups]
        Of a node of average degree at the centroid of each group, before other evidence.
    groups_, similarity_ : array [n]
        Of the nodes of ``fit``: nearest group, and mailbox similarity of p = softmax(z / T).
    coefficients_, intercepts_ : dict, array [classes]
        Of all terms; "trust" is the weight of the evidence, "uniform" of the uniform mixture.
    contradicted_ : float
        Share of calibration nodes for whose predicted class another is likelier.
    labels_ : dict
        Nodes and labels of ``fit``. **A saved calibrator holds these labels.**
    prior_, reference_, support_ : dict
        The prior; what `monitor.Monitor` compares with; only of calibration nodes that are no
        random sample of the graph: what they have shown.
    late_, correction_ : dict
        Only after ``update``: late labels by id, and what they have changed.

    Notes
    -----
    Labels of ``fit`` are used in ``predict_proba`` where a node is known to be the same:
    ``node_ids`` were given to both, or graph and logits are those of ``fit``. Of two labels of a
    node the newer counts. A node's own label never informs about itself.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(500, 3, temperature=2.0, seed=0)
    >>> cal = SimiMailbox().fit(problem.logits, problem.y, graph=problem.graph, mask=range(200))
    >>> cal.predict_proba(problem.logits, graph=problem.graph).shape
    (500, 3)
    """

    name: ClassVar[str] = "simi-mailbox"
    version: ClassVar[int] = 6
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
    optional_inputs: ClassVar[frozenset[str]] = frozenset(
        {"hidden", "known", "sample_weight", "used_for_selection"}
    )
    fitted: ClassVar[Shapes] = {
        "temperatures_": ("groups",),
        "centroids_": ("groups", 2),
        "shift_": (2,),
        "scale_": (2,),
        "bandwidth_": (),
        "deviations_": ("deviations",),
        "intercepts_": ("kept classes",),
        "frequencies_": ("kept classes",),
    }

    keep_classes: bool = True
    n_groups: Count = 20
    prior: str | os.PathLike[str] | None = LEARNED
    scaling: Scaling = "min-max"
    seed: Whole = 0

    # --- fit --------------------------------------------------------------------------------------

    def _fit(self, data: CalibrationData) -> None:
        prior = resolve(self.prior)
        chosen = enough(data.calibration, data.calibration_logits)
        there = self._prepare(data, chosen)
        self._learn(there.sums(chosen.index), chosen, prior, selected=data.used_for_selection)
        self._keep_labels(data.calibration, *_identity(data))
        if data.node_ids is not None:
            self._name_labels(data.node_ids[data.calibration.index.numpy()])
        self._latest: NodeInputs = data

    def _prepare(self, data: CalibrationData, chosen: Labelled) -> InMemory:
        """Temperature, units and groups; what is known of all nodes."""
        self._take_base(data.logits[chosen.index].double().numpy(), chosen)
        there, degree = self._in_memory(data), data.neighbourhoods.degree
        there.take_labels(data.calibration, self._base)
        similar = there.similarity()
        self._take_units(evidence.unit_totals(there.probs, degree, similar))
        points = self._points(data.logits, degree, similar)
        grouping = find_groups(points, self.n_groups, scaling=self.scaling, seed=self.seed)
        self._take_groups(grouping, float(np.median(nearest(grouping, points))))
        self.groups_: Ints = grouping.assign(points)
        self.similarity_: Floats = points[:, 1]
        return there

    def _take_base(self, logits: Floats, chosen: Labelled) -> None:
        """The temperature of temperature scaling; then one with class intercepts."""
        given = logits, chosen.y.numpy(), _weights(chosen)
        self.temperature_ = models.reference_temperature(*given)
        self.base_: dict[str, Any] = asdict(Base.fit(*given, self.temperature_))

    def _in_memory(self, data: NodeInputs) -> InMemory:
        there = InMemory(data.logits, data.neighbourhoods, self.temperature_)
        if data.hidden is not None:
            kept = getattr(self, "hidden_", None)
            self.hidden_, there.closeness = evidence.closeness(data.hidden, there.probs, kept)
        return there

    def _take_units(self, totals: Floats) -> None:
        self.units_: dict[str, Any] = asdict(Units.of(self.temperature_, totals))

    def _take_groups(self, grouping: Grouping, median: float) -> None:
        """Keep groups; ``median`` is that of `nearest` of all nodes."""
        self.shift_: Floats = grouping.shift
        self.scale_: Floats = grouping.scale
        self.centroids_: Floats = grouping.centroids
        self.bandwidth_ = SoftGroups.around(grouping, median).bandwidth

    def _learn(self, sums: Sums, chosen: Labelled, prior: Prior, *, selected: bool) -> None:
        """The model, from what is known of some calibration nodes, and what later ones are
        compared with."""
        if not evidence.drawn_at_random(sums.degree, self.units_["centre"]):
            self.support_: dict[str, Any] = asdict(Support.of(sums))
        nodes, y = self._nodes(sums), chosen.y.numpy()
        self._fit_model(nodes, y, prior, selected=selected, weight=_weights(chosen))
        points = self._points_of(sums).astype(np.float32)
        self.reference_: dict[str, Any] = {
            "confidence": points[:, 0],
            "similarity": points[:, 1],
            "degree": sums.degree.numpy().astype(np.int64),
            "accuracy": float((nodes.gaps.argmax(dim=1) == chosen.y).double().mean()),
        }

    def _fit_model(
        self, nodes: Nodes, y: Ints, prior: Prior, *, selected: bool, weight: Floats | None
    ) -> None:
        """Coefficients, intercepts and groups; then the level, for selection bias."""
        belief = prior.coefficients(hidden=hasattr(self, "hidden_"))
        model = models.fit(nodes, y, self._term_names, belief, weight)
        likeliest = model.probabilities(nodes).argmax(dim=1)
        self.contradicted_ = float((likeliest != nodes.gaps.argmax(dim=1)).double().mean())
        unit = models.bias_unit(model, nodes)
        drop = prior.drop(unit, len(y), keep_classes=self.keep_classes, selected=selected)
        model = replace(model, level=models.level_for(model, nodes, drop))
        self.prior_: dict[str, Any] = asdict(prior)
        self.coefficients_: dict[str, float] = model.numbers()
        self.intercepts_: Floats = model.intercepts
        self.deviations_: Floats = model.groups
        self.frequencies_: Floats = model.frequencies
        each = model.groups if len(model.groups) else np.zeros(1)
        self.temperatures_: Floats = self.temperature_ * np.exp(-(model.scale + each)) / model.level
        if self.keep_classes and self.contradicted_ > CONTRADICTED:
            warnings.warn(
                f"for {self.contradicted_:.0%} of the calibration nodes another class is likelier "
                "than the predicted one; their probabilities can only be tied: use "
                "keep_classes=False to let predictions change",
                CalibrationWarning,
                stacklevel=5,
            )

    def _keep_labels(self, labelled: Labelled, graph: str, logits: Floats) -> None:
        """The labels of ``fit``, and what tells whether nodes are the same."""
        nodes, y = labelled.index.numpy(), labelled.y.numpy()
        self.labels_: dict[str, Any] = dict(nodes=nodes, labels=y, graph=graph, logits=logits)

    def _name_labels(self, ids: Any) -> None:
        """The ids of the nodes of `_keep_labels`."""
        self.labels_["ids"] = _storable(ids)

    # --- what was fitted --------------------------------------------------------------------------

    @property
    def _base(self) -> Base:
        return Base(**self.base_)

    @property
    def _soft(self) -> SoftGroups:
        return SoftGroups(Grouping(self.shift_, self.scale_, self.centroids_), self.bandwidth_)

    @property
    def _support(self) -> Support | None:
        found = getattr(self, "support_", None)
        return None if found is None else Support(**found)

    @property
    def _term_names(self) -> tuple[str, ...]:
        names = evidence.term_names(hidden=hasattr(self, "hidden_"))
        return tuple(name for name in names if name != LEFT_OUT or self._support is None)

    # --- prediction -------------------------------------------------------------------------------

    def _predict(self, data: NodeInputs) -> Tensor:
        self._check_hidden(data)
        there = self._in_memory(data)
        there.take_labels(self._known(data), self._base)
        self._latest = data
        probs = torch.empty_like(data.logits)
        for rows, sums in there.all_sums():
            probs[rows] = self._probabilities(sums)
        return probs

    def _probabilities(self, sums: Sums) -> Tensor:
        """Of some nodes."""
        probs, late = torch.empty_like(sums.logits), getattr(self, "correction_", None)
        for rows in row_blocks(*probs.shape):
            part = sums.rows(rows)
            model, nodes, evidence = self._before_correction(part)
            if late is not None:
                model, nodes = models.corrected(model, nodes, late, evidence)
            probs[rows] = model.probabilities(nodes).to(probs.dtype)
            if self.keep_classes:
                preserve_predictions(probs[rows], part.logits.argmax(dim=1))
        return probs

    def _nodes(self, sums: Sums) -> Nodes:
        """What the model sees of some nodes."""
        units = Units(**self.units_)
        nodes = evidence.terms(sums, units, self._soft.membership(self._points_of(sums)))
        if self._support is None:
            return nodes
        return self._support.restrict(nodes, units.centre, evidence.CLASSES.index(LEFT_OUT))

    def _before_correction(self, sums: Sums) -> tuple[Model, Nodes, list[Tensor]]:
        """The model of some nodes, what it sees of them, and what late labels may weigh anew."""
        found = self.intercepts_, self.deviations_, self.frequencies_
        model, nodes = Model.from_numbers(self.coefficients_, *found), self._nodes(sums)
        terms = dict(zip(self._term_names[len(EXPONENTS) :], nodes.classes, strict=True))
        late = [terms[name] for name in models.LATE_TERMS]
        if self._support is None:
            return model, nodes, late
        at = self._support.apply(model, self._base, nodes, sums, self.temperature_)
        return Model.bare(model.frequencies), at, late

    def _points(self, logits: Tensor, degree: Tensor, similar: Tensor) -> Floats:
        """What nodes are grouped by: (confidence, similarity)."""
        filled = similar.masked_fill(degree == 0, self.units_["mean_similarity"])
        return torch.stack([confidence(logits, self.temperature_), filled], dim=1).numpy()

    def _points_of(self, sums: Sums) -> Floats:
        similar = evidence.overlap(sums.probs, sums.predictions, sums.degree)
        return self._points(sums.logits, sums.degree, similar)

    def _groups(self, data: NodeInputs) -> Ints:
        """The nearest group of every node."""
        there, degree = self._in_memory(replace(data, hidden=None)), data.neighbourhoods.degree
        points = self._points(data.logits, degree, there.similarity())
        return self._soft.grouping.assign(points)

    # --- which labels inform ----------------------------------------------------------------------

    def _known(self, data: NodeInputs, identity: Identity | None = None) -> Labelled:
        """Labels of ``fit`` and those known by now; ``identity()`` is that of graph and logits."""
        fitted, known = self._labels_of_fit(data, identity), data.known
        if known is None:
            return fitted
        new = torch.ones(len(known), dtype=torch.bool)
        if data.training is not None:  # the GNN has learned these labels: they tell nothing new
            new = ~torch.isin(known.index, data.training)
        return _newer(fitted, Labelled(known.index[new], known.y[new]))

    def _labels_of_fit(
        self, data: NodeInputs, identity: Identity | None = None, *, late: bool = True
    ) -> Labelled:
        """Of the nodes that are known to be those of ``fit``, or, if ``late``, of ``update``."""
        kept, ids = self.labels_, data.node_ids
        y, more = torch.from_numpy(kept["labels"]), getattr(self, "late_", None) if late else None
        if ids is not None:
            found = matched(np.asarray(kept.get("ids", kept["nodes"])), y, ids)
        else:
            graph, logits = identity() if identity else _identity(data)
            same = kept["graph"] == graph and same_logits(kept["logits"], logits)
            found = Labelled(torch.from_numpy(kept["nodes"]), y) if same else evidence.NOBODY
            if not same or (more is not None and "ids" in kept):  # late labels have other names
                more = None
                warnings.warn(
                    "graph or logits are not those of fit, and no node_ids tell which nodes are "
                    "the same: the labels of fit are not used as evidence; pass node_ids= to fit "
                    "and predict_proba",
                    CalibrationWarning,
                    stacklevel=5,
                )
            ids = np.arange(data.num_nodes)
        if more is None:
            return found
        return _newer(
            found, matched(np.asarray(more["ids"]), torch.from_numpy(more["labels"]), ids)
        )

    def _check_hidden(self, data: NodeInputs) -> None:
        found = None if data.hidden is None else data.hidden.shape[1]
        expected = self.hidden_["means"].shape[1] if hasattr(self, "hidden_") else None
        if found != expected:
            asked = "left out" if expected is None else f"the layer of fit, {expected} columns"
            given = "none" if found is None else f"{found} columns"
            raise ValueError(f"hidden= must be {asked}, got {given}")

    # --- late labels ------------------------------------------------------------------------------

    def update(
        self,
        node_ids: Any,
        labels: Any,
        *,
        logits: Any = None,
        graph: Any = None,
        hidden: Any = None,
        all_ids: Any = None,
        input_type: InputType | None = None,
    ) -> Self:
        """Take labels that have become known: as evidence on other nodes, and to correct the level.

        As far as the late labels show drift, temperature, class intercepts, the uniform mixture and
        the weight of neighbours are estimated again; the fit is kept. A warning says when a refit
        is better.

        Parameters
        ----------
        node_ids : array [m] of integers or strings
            The labelled nodes, as ``node_ids`` of ``predict_proba`` names them.
        labels : array [m]
            Their classes. For a node that has a label already the newer counts.
        logits, graph, hidden, all_ids, input_type
            The nodes as they are now, as ``predict_proba`` takes them; ``all_ids`` is its
            ``node_ids``. By default those of the last ``fit`` or ``predict_proba``.

        """
        self._check_fitted()
        if logits is not None:
            given = {"graph": graph, "hidden": hidden, "node_ids": all_ids}
            data = self._read_fitted(logits, **given, input_type=input_type)
            self._check_hidden(data)
        elif hasattr(self, "_latest"):
            data = self._latest
        else:
            raise ValueError(
                "this calibrator comes from a file and has seen no nodes yet: pass the logits and "
                "the graph of the labelled nodes, update(node_ids, labels, logits=…, graph=…)"
            )
        ids = read_node_ids(node_ids, len(node_ids))
        new = read_classes(labels, np.arange(len(ids)), len(ids), self.num_classes_, of="labels")
        numbered = self._numbered(torch.from_numpy(new), "labels name").numpy()
        before = dict(vars(self))
        try:
            self._take_late(ids, numbered)
            self._correct(data)
        except BaseException:  # a failed update changes nothing
            self.__dict__ = before
            raise
        return self

    def _take_late(self, ids: Any, y: Ints) -> None:
        """Add late labels to those known; the newer one counts."""
        late = getattr(self, "late_", {"ids": ids[:0], "labels": y[:0]})
        old = np.asarray(late["ids"])
        _check_kinds(old, ids)
        left = ~np.isin(old, ids)
        every = np.concatenate([old[left], ids]) if left.any() else ids
        y = np.concatenate([late["labels"][left], y])
        self.late_: dict[str, Any] = {"ids": _storable(every), "labels": y}

    def _correct(self, data: NodeInputs) -> None:
        """The level, from all late labels of nodes that are here and that ``fit`` did not have."""
        known, fitted = self._known(data), self._labels_of_fit(data, late=False)
        labels = torch.full((data.num_nodes,), -1)
        labels[fitted.index] = fitted.y
        new = labels[known.index] != known.y
        if data.training is not None:
            new &= ~torch.isin(known.index, data.training)
        if not bool(new.any()):
            warnings.warn(
                "no late label is of a node that is here and that fit did not know: they are kept "
                "as evidence, and the level stays; pass the nodes as they are now, logits=…, "
                "graph=…, all_ids=…",
                CalibrationWarning,
                stacklevel=3,
            )
            return
        there = self._in_memory(data)
        there.take_labels(known, self._base)
        model, nodes, late = self._before_correction(there.sums(known.index[new]))
        y = known.y[new].numpy()
        self.correction_: dict[str, Any] = models.correction(model, nodes, y, late)
        if refit := models.advice(self.correction_):
            warnings.warn(refit, CalibrationWarning, stacklevel=3)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_latest"}


@hyperparameters
class SimiMailboxFree(SimiMailbox):
    """`SimiMailbox` with ``keep_classes=False`` under a name of its own, for tables and commands.

    >>> SimiMailboxFree().keep_classes
    False
    """

    name: ClassVar[str] = "simi-mailbox-free"

    keep_classes: bool = False


def enough(labelled: Labelled, logits: Tensor) -> Labelled:
    """All of these nodes, or as many as are `ENOUGH`, spread evenly over their confidence."""
    count = min(ENOUGH, ENOUGH_NUMBERS // logits.shape[1])
    if len(labelled) <= count:
        return labelled
    places = torch.linspace(0, len(labelled) - 1, count, dtype=torch.float64).round().long()
    chosen = confidence(logits).argsort()[places].sort().values
    weight = None if labelled.weight is None else labelled.weight[chosen]
    return Labelled(labelled.index[chosen], labelled.y[chosen], weight)


def _weights(labelled: Labelled) -> Floats | None:
    return None if labelled.weight is None else labelled.weight.numpy()


def matched(ids: Any, y: Tensor, nodes: Any) -> Labelled:
    """Those of some labelled ids that are among ``nodes``, by their places there."""
    _check_kinds(ids, nodes)
    order = np.argsort(nodes, kind="stable")
    place = np.searchsorted(nodes, ids, sorter=order).clip(max=len(nodes) - 1)
    index = order[place]
    here = torch.from_numpy(nodes[index] == ids)
    return Labelled(torch.from_numpy(index)[here], y[here])


def _check_kinds(one: Any, other: Any) -> None:
    if len(one) and len(other) and (one.dtype.kind == "U") != (other.dtype.kind == "U"):
        raise TypeError("node_ids are strings in one place and integers in the other")


def _newer(old: Labelled, new: Labelled) -> Labelled:
    """All labels of both; for a node that has two the newer one counts."""
    left = ~torch.isin(old.index, new.index)
    return Labelled(torch.cat([old.index[left], new.index]), torch.cat([old.y[left], new.y]))


def _storable(ids: Any) -> Any:
    """Ids as a file can hold them: strings are no array there."""
    return ids.tolist() if ids.dtype.kind == "U" else ids


def sketch(parts: Iterable[Tensor]) -> Floats:
    """A few numbers by which logits are known again, also after rounding; runs of rows in order.

    Sums over nodes of z − max z, by class, with weights that differ from node to node; then the sum
    of their mean sizes, and the number of nodes.
    """
    sums, size, count = torch.zeros(1, dtype=torch.float64), 0.0, 0
    for part in parts:
        nodes = torch.arange(count + 1, count + len(part) + 1, dtype=torch.float64)
        weights = torch.sin(nodes * 12.9898).to(part.dtype)
        for rows in row_blocks(*part.shape):
            gaps = part[rows] - part[rows].amax(dim=1, keepdim=True)
            sums = sums + (weights[rows] @ gaps).double()
            size -= float(gaps.sum()) / part.shape[1]
        count += len(part)
    return np.append(sums.numpy(), [size, count])


def same_logits(one: Floats, other: Floats) -> bool:
    """Whether two sketches are of the same logits, up to `ROUNDING` of their mean size."""
    if one.shape != other.shape or one[-1] != other[-1]:
        return False
    tolerance = ROUNDING * one[-2] / np.sqrt(one[-1])
    return bool(np.abs(one - other)[:-2].max() <= tolerance)


def _identity(data: NodeInputs) -> tuple[str, Floats]:
    """What graph and logits are known again by."""
    return data.neighbourhoods.fingerprint(), sketch([data.logits])
