"""`Monitor`: looks at nodes without labels, and says whether to trust their probabilities."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.monitor.drift import drift_tests, p_value
from simi_mailbox.monitor.stream import Stream
from simi_mailbox.validation import InputType, as_numpy, read_index, read_known

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
WEIGHT_OF_CONFIDENCE = 0.25
PER_DISTANCE = {"A": 0.10, "A and D": 0.07}
"""Standard error by which an estimate may be off, per unit of drift distance."""
PER_GAP = 0.25
Z = 1.96
_NAMES = ("confidence", "similarity", "degree")


@dataclass(frozen=True, eq=False)
class Check:
    """What `Monitor.check` found.

    Attributes
    ----------
    verdict : {"ok", "watch", "do not trust", "unknown"}
    accuracy, interval, how : float, tuple of float, str
        Estimated accuracy with its 95 % interval, None if it is unknown; and what it is made of:
        mean confidence (A), agreement with a model of the features (D), labels.
    drift : dict
        By name ("confidence", "similarity", "degree", "groups"): distance and corrected p-value.
    outside, confidence : float
        Share of nodes outside what 99 % of the calibration nodes have shown; mean confidence.
    labels, z : int, float or None
        Labels given, and their (right − confidence) / standard error.
    to_label : array
        Nodes whose labels would answer fastest: spread evenly over confidence.
    advice : {"", "label", "update", "refit"}
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
        return _alarmed(self.drift)

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

    Three questions: do the nodes look like the calibration nodes (with 5 % false alarms in all);
    how accurate are the predictions; what do the labels say that have come in. A graph that is not
    known to hold the nodes of ``fit`` is "unknown" until labels tell more.

    ``calibrator`` is a fitted one, ``seed`` that of permutations and of the nodes to label.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(900, 3, temperature=2.0, seed=0)
    >>> cal = SimiMailbox().fit(problem.logits, problem.y, graph=problem.graph, mask=range(300))
    >>> Monitor(cal).check(problem.logits, graph=problem.graph).verdict
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
            Of a logistic regression that is fitted here on the labels of ``fit``.
        feature_probs : array [n, K], optional
            Probabilities of your own model of the features alone, in place of ``features``.
        known : pair (nodes, labels), optional
            Labels that have become known; they test the probabilities, but are no evidence here.
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
        drifted, same = _alarmed(tests), len(before) > 0
        far = max(test["distance"] for test in tests.values())
        agreement = None
        if same and (features is not None or feature_probs is not None):
            other = _feature_classes(features, feature_probs, before, probs.shape)
            agrees = other == predicted
            agreement = agrees[before.index.numpy()], agrees[chosen]
        reference = cal.reference_
        known_before = float(reference["accuracy"]), len(reference["confidence"])
        found = estimate(confidence, known_before, far if drifted else 0.0, agreement)
        if not same:
            found = Estimate(found.accuracy, math.inf, "")
        told, right = _labels(known, chosen, predicted, probs.shape)
        z, over = None, 0.0
        if len(told):
            c = confidence[told]
            over = float((c - right).mean())
            z = float((right - c).sum()) / math.sqrt(float((c * (1.0 - c)).sum()) + 0.25)
            if abs(z) > Z:  # what labels contradict is no estimate
                found = replace(found, error=math.inf)
            found = with_labels(found, confidence, told, right)
        verdict, why, advice = _verdict(same, drifted, far, found.gap, len(told), z, over)
        wanted = 0
        if verdict != OK:
            spread = float((confidence * (1.0 - confidence)).mean())
            wanted = math.ceil(POWER**2 * spread / DETECTED**2)
            wanted = max(min(max(wanted, FEWEST_LABELS), MOST_LABELS) - len(told), 0)
        names = chosen if data.node_ids is None else data.node_ids[chosen]
        if verdict == UNKNOWN:
            why += f": label {wanted} nodes"
        unknown = math.isinf(found.error)
        return Check(
            verdict=verdict,
            accuracy=None if unknown else found.accuracy,
            interval=None if unknown else found.interval,
            how=found.how,
            drift=tests,
            outside=outside,
            confidence=float(confidence.mean()),
            nodes=len(chosen),
            labels=len(told),
            z=z,
            to_label=names[self._to_label(confidence, told, wanted)],
            advice=advice,
            sentence=_sentence(why, found, confidence, len(told), advice),
            evidence=(confidence[told], right),
            p=p,
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
            shapes = f"{list(probs.shape)} and {list(labels.shape)}"
            raise ValueError(f"a batch is a Check, or probabilities with labels; got {shapes}")
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
        rounded = points.astype(np.float32).astype(np.float64)
        now = {
            "confidence": rounded[:, 0],
            "similarity": rounded[:, 1],
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


def _alarmed(tests: dict[str, dict[str, float]]) -> bool:
    return any(test["p"] <= ALARM for test in tests.values())


def _feature_classes(features: Any, probs: Any, before: Any, shape: tuple[int, ...]) -> Ints:
    """Classes by features alone: by ``probs``, or by a logistic regression on known labels.

    Calibration nodes are predicted without their labels.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    given = features if probs is None else probs
    x = given.tocsr() if hasattr(given, "tocsr") else as_numpy(given)
    if x.shape[0] != shape[0] or (probs is not None and x.shape != shape):
        name = "features" if probs is None else "feature_probs"
        raise ValueError(f"{name} has shape {list(x.shape)} for probabilities {list(shape)}")
    if probs is not None:
        return np.asarray(x.argmax(axis=1))
    calibration, y = before.index.numpy(), before.y.numpy()
    model = LogisticRegression(max_iter=300)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    found: Ints = model.fit(x[calibration], y).predict(x)
    found[calibration] = cross_val_predict(model, x[calibration], y, cv=folds)
    return found


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
    gap: float | None,
    labels: int,
    z: float | None,
    over: float,
) -> tuple[str, str, str]:
    """Verdict, why, and what to do; ``over`` is by how much labels show too much confidence."""
    if z is not None and abs(z) > Z:
        refit = "refit" if labels >= 50 else "update"
        if over > OVERCONFIDENT:
            return DISTRUST, f"labels show {100 * over:.0f} points of overconfidence", refit
        return WATCH, f"labels show {-100 * over:.0f} points of underconfidence", "update"
    if labels >= FEWEST_LABELS:
        if drifted or not same:
            return WATCH, "the nodes have drifted, and labels agree", ""
        return OK, "no drift is seen, and labels agree", ""
    if not same:
        return UNKNOWN, "no node of fit is known to be here, and labels alone can tell", "label"
    if not drifted:
        return OK, "the nodes look like the calibration nodes", ""
    if gap is not None and gap > OVERCONFIDENT:
        why = "the nodes have drifted, and confidence exceeds what features support by "
        return DISTRUST, f"{why}{100 * gap:.0f} points", "label"
    if gap is None and far > FAR:
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


@dataclass(frozen=True)
class Estimate:
    """Accuracy, standard error (infinite if unknown), what it is made of, and A − D if both are."""

    accuracy: float
    error: float
    how: str
    gap: float | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval, within [0, 1]."""
        half = Z * self.error
        return max(self.accuracy - half, 0.0), min(self.accuracy + half, 1.0)


def estimate(
    confidence: Floats,
    reference: tuple[float, int],
    distance: float,
    agreement: tuple[Bools, Bools] | None,
) -> Estimate:
    """Accuracy without labels, from the calibrated confidence of some nodes.

    A is their mean confidence, D the accuracy on the calibration nodes (``reference``, with their
    number) + agreement with a model of the features alone on the nodes − the same ``agreement`` on
    the calibration nodes.
    """
    a, n = float(confidence.mean()), len(confidence)
    before, m = reference
    variance = a * (1.0 - a) / n + before * (1.0 - before) / m
    if agreement is None:
        found, how, gap = a, "A", None
    else:
        then, now = (float(part.mean()) for part in agreement)
        d = min(max(before + now - then, 0.0), 1.0)
        found, how, gap = d + WEIGHT_OF_CONFIDENCE * (a - d), "A and D", a - d
        variance += (then * (1.0 - then) / m + now * (1.0 - now) / n) / 4.0
        if distance > 0.0:
            variance += PER_GAP * gap**2
    variance += (PER_DISTANCE[how] * distance) ** 2
    return Estimate(found, math.sqrt(variance), how, gap)


def with_labels(guess: Estimate, confidence: Floats, labelled: Ints, right: Bools) -> Estimate:
    """An estimate without labels, and what some labels tell, weighted by their precision."""
    off = right - confidence[labelled]
    told = float(np.clip(confidence.mean() + off.mean(), 0.0, 1.0))
    # As if one right and one wrong node had been added: a few labels, all right, prove little.
    spread = float(((off**2).sum() + 0.5) / (len(off) + 2.0))
    error = math.sqrt(spread / len(off))
    if math.isinf(guess.error):
        return Estimate(told, error, "labels", guess.gap)
    weights = np.array([guess.error**-2, error**-2])
    found = float(weights @ [guess.accuracy, told] / weights.sum())
    return Estimate(found, float(weights.sum()) ** -0.5, f"{guess.how} and labels", guess.gap)
