"""`Monitor`: looks at nodes without labels, and says whether to trust their probabilities."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.monitor import accuracy as accuracies
from simi_mailbox.monitor.accuracy import Estimate
from simi_mailbox.monitor.drift import drift_tests, p_value
from simi_mailbox.monitor.stream import Stream
from simi_mailbox.validation import InputType, read_index, read_known

OK, WATCH, DISTRUST, UNKNOWN = "ok", "watch", "do not trust", "unknown"
ALARM = 0.05
"""Rate of false alarms, of drift and of labels."""
# Fixed on the structural shifts of CoraML, Citeseer and Photo.
OVERCONFIDENT = 0.05
"""Confidence above accuracy from which probabilities are not to be trusted."""
FAR = 0.3
"""Distance from which drift without features or labels leaves everything open."""
FEWEST_LABELS, MOST_LABELS = 20, 100
DETECTED, POWER = 0.15, 2.8
"""So many labels find a gap of 15 points with 80 % power at the rate of false alarms above."""


@dataclass(frozen=True, eq=False)
class Check:
    """What `Monitor.check` found.

    Attributes
    ----------
    verdict : {"ok", "watch", "do not trust", "unknown"}
    accuracy, interval : float, tuple of float
        Estimated, of the predicted classes, with its 95 % interval; None if it is unknown.
    how : str
        What the estimate is made of: A, A and D, labels (`simi_mailbox.monitor.accuracy`).
    drift : dict
        By name ("confidence", "similarity", "degree", "groups"): distance and corrected p-value.
    outside, confidence : float
        Share of nodes outside what 99 % of the calibration nodes have shown; mean confidence.
    labels, z : int, float or None
        How many labels were given, and their (right − confidence) / standard error; below −1.96
        overconfident.
    to_label : array
        Nodes whose labels would answer fastest: spread evenly over confidence.
    advice : {"", "label", "update", "refit"}

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(900, 3, temperature=2.0, seed=0)
    >>> cal = SimiMailbox().fit(problem.logits, problem.y, graph=problem.graph, mask=range(300))
    >>> found = Monitor(cal).check(problem.logits, graph=problem.graph)
    >>> found.to_dict()["verdict"], found.how
    ('ok', 'A')
    """

    verdict: str
    accuracy: float | None
    interval: tuple[float, float] | None
    how: str
    drift: dict[str, dict[str, float]]
    outside: float
    confidence: float
    nodes: int
    labels: int
    z: float | None
    to_label: Any
    advice: str
    sentence: str
    evidence: tuple[Floats, Bools] = field(repr=False)
    p: float = field(repr=False)

    @property
    def drifted(self) -> bool:
        """Whether any drift test raises an alarm."""
        return any(found["p"] <= ALARM for found in self.drift.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and alerting."""
        names = ("verdict", "accuracy", "how", "outside", "confidence", "nodes", "labels", "z")
        found = {name: getattr(self, name) for name in (*names, "advice", "sentence")}
        interval = None if self.interval is None else list(self.interval)
        to_label = np.asarray(self.to_label).tolist()
        return {**found, "interval": interval, "drift": self.drift, "to_label": to_label}

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.sentence}", f"{'':<12}distance   p"]
        for name, test in self.drift.items():
            mark = "  drifted" if test["p"] <= ALARM else ""
            lines.append(f"{name:<12}{test['distance']:8.3f}   {test['p']:.3f}{mark}")
        return "\n".join(lines)


class Monitor:
    """Watches the probabilities of a fitted `SimiMailbox` on nodes whose labels are not known yet.

    Three questions: do the nodes look like the calibration nodes (tests of confidence, mailbox
    similarity, degree and group shares, with 5 % false alarms in all); how accurate are the
    predictions (with an interval, and with how it was made); what do the labels say that have come
    in. A graph that is not known to hold the nodes of ``fit`` is "unknown" until labels tell more:
    without labels no estimate is right there.

    ``calibrator`` is a fitted one, ``seed`` that of permutations and of the nodes to label.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(900, 3, temperature=2.0, seed=0)
    >>> cal = SimiMailbox().fit(problem.logits, problem.y, graph=problem.graph, mask=range(300))
    >>> found = Monitor(cal).check(problem.logits, graph=problem.graph, nodes=range(300, 900))
    >>> found.verdict
    'ok'
    """

    def __init__(self, calibrator: SimiMailbox, *, seed: int = 0) -> None:
        if not isinstance(calibrator, SimiMailbox):
            name = type(calibrator).__name__
            raise TypeError(f"a Monitor watches a fitted SimiMailbox, got {name}")
        calibrator._check_fitted()
        self.calibrator, self.seed, self.stream = calibrator, seed, Stream()

    def check(
        self,
        logits: Any,
        *,
        graph: Any,
        nodes: Any = None,
        features: Any = None,
        feature_probs: Any = None,
        known: Any = None,
        hidden: Any = None,
        node_ids: Any = None,
        input_type: InputType | None = None,
    ) -> Check:
        """Judge some nodes.

        Parameters
        ----------
        logits, graph, hidden, node_ids, input_type
            All nodes as they are now, as ``predict_proba`` takes them.
        nodes : array, optional
            The nodes to judge, boolean or indices; by default all but the calibration nodes.
        features : array or sparse matrix [n, d], optional
            Of a logistic regression that is fitted here on the labels of ``fit``: a second opinion,
            which the graph cannot mislead.
        feature_probs : array [n, K], optional
            Probabilities of your own model of the features alone, in place of ``features``.
        known : pair (nodes, labels), optional
            Labels that have become known; those of the judged nodes test the probabilities. They
            are not used as evidence here: ``update`` does that.
        """
        cal = self.calibrator
        given: dict[str, Any] = {"graph": graph, "hidden": hidden, "node_ids": node_ids}
        data = cal._read_fitted(logits, **given, input_type=input_type)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # what it says, the verdict says
            probs = cal.predict_proba(logits, **given, input_type=input_type)
            before = cal._labels_of_fit(data, late=False)
        probs = np.asarray(probs, dtype=np.float64)
        n = data.num_nodes
        if nodes is None:
            chosen = np.setdiff1d(np.arange(n), before.index.numpy())
        else:
            chosen = np.sort(read_index(nodes, n, "nodes"))
        predicted, confidence = probs.argmax(axis=1), probs.max(axis=1)[chosen]
        tests, outside, p = self._drift(data, chosen)
        far = max(test["distance"] for test in tests.values())
        drifted = any(test["p"] <= ALARM for test in tests.values())
        same = len(before) > 0
        agreement = None
        if same and (features is not None or feature_probs is not None):
            other = _feature_classes(features, feature_probs, before, probs.shape)
            agrees = other == predicted
            agreement = agrees[before.index.numpy()], agrees[chosen]
        reference = cal.reference_
        known_before = float(reference["accuracy"]), len(reference["confidence"])
        guess = accuracies.estimate(confidence, known_before, far if drifted else 0.0, agreement)
        if not same:
            guess = Estimate(guess.accuracy, math.inf, "")
        told, right = _labels(known, chosen, predicted, probs.shape)
        z = None
        if len(told):
            spread = float((confidence[told] * (1.0 - confidence[told])).sum()) + 0.25
            z = float((right - confidence[told]).sum()) / math.sqrt(spread)
            if abs(z) > 1.96:  # what labels contradict is no estimate
                guess = replace(guess, error=math.inf)
        found = accuracies.with_labels(guess, confidence, told, right) if len(told) else guess
        verdict, why, advice = _verdict(same, drifted, far, found, confidence, told, right, z)
        wanted = 0
        if verdict != OK:
            spread = float((confidence * (1.0 - confidence)).mean())
            wanted = math.ceil(POWER**2 * spread / DETECTED**2)
            wanted = max(min(max(wanted, FEWEST_LABELS), MOST_LABELS) - len(told), 0)
        positions = self._to_label(confidence, told, wanted)
        names = chosen if data.node_ids is None else data.node_ids[chosen]
        if verdict == UNKNOWN:
            why += f": label {wanted} nodes"
        unknown = math.isinf(found.error)
        return Check(
            verdict,
            None if unknown else found.accuracy,
            None if unknown else found.interval,
            found.how,
            tests,
            outside,
            float(confidence.mean()),
            len(chosen),
            len(told),
            z,
            names[positions],
            advice,
            _sentence(why, found, confidence, len(told), advice),
            (confidence[told], right),
            p,
        )

    def update(self, batch: Check | tuple[Any, Any]) -> Stream:
        """Add a batch to the stream, whose alarms are false with 5 % probability over all time.

        ``batch`` is what `check` found, or a pair (probabilities [m, K], labels [m]) of nodes whose
        labels have come in.
        """
        if isinstance(batch, Check):
            return self.stream.add(*batch.evidence, p=batch.p)
        probs, labels = (np.asarray(part) for part in batch)
        if probs.ndim != 2 or labels.shape != (len(probs),):
            raise ValueError(
                f"a batch is a Check, or probabilities [m, K] with labels [m]; got shapes "
                f"{list(probs.shape)} and {list(labels.shape)}"
            )
        return self.stream.add(probs.max(axis=1), probs.argmax(axis=1) == labels)

    def _drift(self, data: Any, chosen: Ints) -> tuple[dict[str, dict[str, float]], float, float]:
        """Tests, share of nodes outside the reference, and the p-value for a stream."""
        cal, reference = self.calibrator, self.calibrator.reference_
        there, degree = cal._in_memory(replace(data, hidden=None)), data.neighbourhoods.degree
        points = cal._points(data.logits, degree, there.similarity())[chosen]
        then = np.stack([reference["confidence"], reference["similarity"]], axis=1)
        before = {name: np.asarray(reference[name], dtype=np.float64) for name in _NAMES}
        before["groups"] = cal._soft.grouping.assign(then.astype(np.float64)).astype(np.float64)
        # Rounded as the reference is, so that equal values are equal.
        now = {
            "confidence": points[:, 0].astype(np.float32).astype(np.float64),
            "similarity": points[:, 1].astype(np.float32).astype(np.float64),
            "degree": degree.numpy()[chosen].astype(np.float64),
            "groups": cal._soft.grouping.assign(points).astype(np.float64),
        }
        tests = drift_tests(before, now, seed=self.seed)
        out = np.zeros(len(chosen), dtype=bool)
        for name in _NAMES:
            low, high = np.quantile(before[name], [0.005, 0.995])
            out |= (now[name] < low) | (now[name] > high)
        counts = len(before["degree"]), len(chosen)
        each = [p_value(tests[name]["distance"], *counts) for name in _NAMES]
        return tests, float(out.mean()), min(1.0, len(_NAMES) * min(each))

    def _to_label(self, confidence: Floats, told: Ints, count: int) -> Ints:
        free = np.setdiff1d(np.arange(len(confidence)), told)
        count = min(count, len(free))
        if count == 0:
            return free[:0]
        order = free[np.argsort(confidence[free], kind="stable")]
        start = np.random.default_rng(self.seed).random()
        places = ((np.arange(count) + start) * len(free) / count).astype(np.int64)
        return np.sort(order[places])


_NAMES = ("confidence", "similarity", "degree")


def _feature_classes(features: Any, probs: Any, before: Any, shape: tuple[int, ...]) -> Ints:
    given = features if probs is None else probs
    given = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given
    if given.shape[0] != shape[0]:
        name = "features" if probs is None else "feature_probs"
        raise ValueError(f"{name} has {given.shape[0]} rows for {shape[0]} nodes")
    if probs is None:
        return accuracies.feature_predictions(given, before.index.numpy(), before.y.numpy())
    if given.ndim != 2 or given.shape[1] != shape[1]:
        raise ValueError(f"feature_probs must have shape {list(shape)}, got {list(given.shape)}")
    classes: Ints = np.asarray(given).argmax(axis=1)
    return classes


def _labels(known: Any, chosen: Ints, predicted: Ints, shape: Any) -> tuple[Ints, Bools]:
    """Which of the judged nodes have a label, and whether the prediction is right."""
    if known is None:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    given = read_known(known, *shape)
    here = np.isin(given.index.numpy(), chosen)
    index, y = given.index.numpy()[here], given.y.numpy()[here]
    return np.searchsorted(chosen, index), predicted[index] == y


def _verdict(
    same: bool,
    drifted: bool,
    far: float,
    found: Estimate,
    confidence: Floats,
    told: Ints,
    right: Bools,
    z: float | None,
) -> tuple[str, str, str]:
    """Verdict, why, and what to do."""
    enough = len(told) >= FEWEST_LABELS
    if z is not None and abs(z) > 1.96:
        gap = float((confidence[told] - right).mean())
        refit = "refit" if len(told) >= 50 else "update"
        if gap > OVERCONFIDENT:
            return DISTRUST, f"labels show {100 * gap:.0f} points of overconfidence", refit
        return WATCH, f"labels show {-100 * gap:.0f} points of underconfidence", "update"
    if not same and not enough:
        return UNKNOWN, "no node of fit is known to be here, and labels alone can tell", "label"
    if enough and z is not None:
        state = "the nodes have drifted" if drifted or not same else "no drift is seen"
        return (WATCH if drifted or not same else OK), f"{state}, and labels agree", ""
    if not drifted:
        return OK, "the nodes look like the calibration nodes", ""
    if found.gap is not None and found.gap > OVERCONFIDENT:
        why = "the nodes have drifted, and confidence exceeds what features support by "
        return DISTRUST, f"{why}{100 * found.gap:.0f} points", "label"
    if found.gap is None and far > FAR:
        return UNKNOWN, "the nodes have drifted far, and there is no second opinion", "label"
    return WATCH, "the nodes have drifted, which need not do harm", "label"


def _sentence(why: str, found: Estimate, confidence: Floats, labels: int, advice: str) -> str:
    parts = [why]
    if not math.isinf(found.error):
        low, high = found.interval
        parts.append(
            f"estimated accuracy {found.accuracy:.1%} ({low:.1%} to {high:.1%}, by {found.how}), "
            f"mean confidence {confidence.mean():.1%}"
        )
    if advice in ("update", "refit"):
        parts.append(f"{advice} the calibrator with these {labels} labels")
    return "; ".join(parts)
