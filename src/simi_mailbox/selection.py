"""Choosing a calibrator by the calibration labels alone, and only where these can tell."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone

from simi_mailbox import calibrators
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators import Calibrator
from simi_mailbox.crossfit import cross_fitted, full_length, parts
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.metrics import nll
from simi_mailbox.plain_text import unknown
from simi_mailbox.validation import read_classes, read_index

METHODS = ("simi-mailbox", "temperature", "ensemble-temperature", "isotonic", "uncalibrated")
"""What is compared when nothing is said: methods that fit in seconds."""

INPUTS = frozenset(
    {"features", "forward", "train_mask", "hidden", "used_for_selection", "input_type"}
)
"""What goes on to the methods that use it."""

RISK = 0.05
"""Chance at which the default is left though no other is better."""


@dataclass(frozen=True)
class CandidateScore:
    """What cross-fitting says of one method.

    Attributes
    ----------
    name : str
    nll : float
        Mean negative log-likelihood of nodes whose label the fit did not see.
    difference : float
        Mean over folds of its NLL minus the default's, on the same nodes.
    error : float
        Standard error of ``difference``; folds share labels, and it says so (Nadeau & Bengio 2003).
    """

    name: str
    nll: float
    difference: float
    error: float


@dataclass(frozen=True)
class Choice:
    """The chosen method, fitted on all calibration labels, and why.

    Attributes
    ----------
    name : str
    calibrator : Calibrator
        Fitted.
    verdict : str
        The reason in one line.
    evidence : tuple of CandidateScore
        By method, the lowest NLL first; empty where labels are too few for any fold.
    """

    name: str
    calibrator: Any
    verdict: str
    evidence: tuple[CandidateScore, ...]

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.evidence), default=0)
        lines = [
            f"{row.name:<{width}}  NLL {row.nll:.4f}  {row.difference:+.4f} ± {row.error:.4f}"
            for row in self.evidence
        ]
        return "\n".join([self.verdict, *lines])


def select(
    logits: Any,
    y: Any,
    *,
    mask: Any,
    graph: Any = None,
    methods: Iterable[str | Calibrator] | Mapping[str, Calibrator] | None = None,
    default: str = "simi-mailbox",
    folds: int = 5,
    repeats: int = 3,
    seed: int = 0,
    early_stopping_mask: Any = None,
    **inputs: Any,
) -> Choice:
    """The method that predicts labels of calibration nodes best when it has not seen them.

    Every method is cross-fitted ``repeats`` times on the same folds. The default is left only for
    one whose NLL is lower by more than chance allows, so many methods tried counted in; else the
    default is fitted, and ``verdict`` says that no other method is significantly better.

    Parameters
    ----------
    logits, y, mask, graph, early_stopping_mask
        As of `Calibrator.fit`. ``early_stopping_mask`` goes to methods that use one.
    methods : names, calibrators, or a mapping from names to calibrators
        What is compared, the default added. Without it, `METHODS` as far as the inputs suffice.
    default : str
        What is taken unless another is better.
    folds, repeats, seed : int
        Parts that labels are cut into, how often, and the seed of the cuts.
    **inputs
        ``features=``, ``forward=``, ``train_mask=``, ``hidden=``, ``used_for_selection=`` and
        ``input_type=``, as of `Calibrator.fit`; each goes to the methods that use it.

    Returns
    -------
    Choice
        ``str(choice)`` is the evidence as a table.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(600, 3, temperature=2.5, seed=0)
    >>> methods = ["uncalibrated", "temperature"]
    >>> given = {"mask": range(300), "methods": methods, "default": "uncalibrated"}
    >>> select(problem.logits, problem.y, **given).name
    'temperature'
    >>> select(problem.logits, problem.y, **given | {"mask": range(6)}).verdict
    'uncalibrated (default kept: no other method is significantly better)'
    """
    for name in inputs:
        if name not in INPUTS:
            raise TypeError(unknown("argument", name, sorted(INPUTS)))
    offered = {**inputs, "graph": graph}
    given = {key: value for key, value in offered.items() if value is not None}
    rivals = _named(methods, default, set(given))
    nodes = read_index(mask, len(logits), "mask")
    labels = full_length(y, nodes, len(logits))

    def fitting(calibrator: Any) -> dict[str, Any]:
        used = (
            calibrator.required_inputs | calibrator.optional_inputs | {"train_mask", "input_type"}
        )
        held = early_stopping_mask if calibrator.holdout else None
        return {"early_stopping_mask": held, **{key: given[key] for key in given if key in used}}

    losses: dict[str, Floats] = {}
    if nodes.size >= 2 * folds and len(rivals) > 1:
        with warnings.catch_warnings():  # told when the winner is fitted
            warnings.simplefilter("ignore", CalibrationWarning)
            for name, calibrator in rivals.items():
                losses[name] = np.concatenate(
                    [
                        _cross_fitted(
                            clone(calibrator), logits, labels, nodes, folds, seed + k, fitting
                        )
                        for k in range(repeats)
                    ]
                )
    evidence = _evidence(losses, default, folds)
    name, verdict = _judge(evidence, default, folds * repeats)
    winner = clone(rivals[name])
    winner.fit(logits, labels, mask=nodes, **fitting(winner))
    return Choice(name, winner, verdict, evidence)


def _named(methods: Any, default: str, given: set[str]) -> dict[str, Any]:
    """Unfitted calibrators by name, the default among them."""
    if methods is None:
        able = [name for name in METHODS if calibrators.get(name).required_inputs <= given]
        found = {name: calibrators.get(name)() for name in able}
    elif isinstance(methods, Mapping):
        found = dict(methods)
    else:
        made = [calibrators.get(item)() if isinstance(item, str) else item for item in methods]
        found = {item.name: item for item in made}
        if len(found) < len(made):
            raise ValueError("two methods have one name; give a mapping from names to calibrators")
    if default not in found:
        found[default] = calibrators.get(default)()
    for name, calibrator in found.items():
        lacks = sorted(calibrator.required_inputs - given)
        if lacks:
            told = " and ".join(f"{part}=" for part in lacks)
            hint = "; or choose another default=" if name == default else ""
            raise TypeError(f"{name} needs {told}{hint}")
    return found


def _cross_fitted(
    calibrator: Any,
    logits: Any,
    labels: Any,
    nodes: Ints,
    folds: int,
    seed: int,
    fitting: Callable[[Any], dict[str, Any]],
) -> Floats:
    """Mean NLL of every fold after a fit on the others."""
    given = {"folds": folds, "seed": seed, **fitting(calibrator)}
    probs = cross_fitted(calibrator, logits, labels, mask=nodes, **given)
    part = parts(nodes.size, folds, seed)
    known = read_classes(labels, nodes, len(labels))
    return np.array([nll(probs[part == k], known[part == k]) for k in range(folds)])


def _evidence(losses: Mapping[str, Floats], default: str, folds: int) -> tuple[CandidateScore, ...]:
    rows = []
    for name, values in losses.items():
        gaps = values - losses[default]
        # Folds are fitted on labels that they share: their spread alone would claim too much.
        share = 1 / gaps.size + 1 / (folds - 1)
        error = float(np.sqrt(share) * gaps.std(ddof=1))
        rows.append(CandidateScore(name, float(values.mean()), float(gaps.mean()), error))
    return tuple(sorted(rows, key=lambda row: row.nll))


def _judge(evidence: tuple[CandidateScore, ...], default: str, fits: int) -> tuple[str, str]:
    """Name of the winner, and why."""
    undecided = default, f"{default} (default kept: no other method is significantly better)"
    others = [row for row in evidence if row.name != default]
    if not others:
        return undecided
    bound = float(student.ppf(1 - RISK / len(others), fits - 1))
    best = min(others, key=lambda row: row.difference)
    if best.difference + bound * best.error < 0:
        gain = f"{-best.difference:.4f} ± {best.error:.4f}"
        return best.name, f"{best.name}: NLL significantly lower than that of {default}, by {gain}"
    if all(row.difference - bound * row.error > 0 for row in others):
        return default, f"{default}: NLL significantly lower than that of every other"
    return undecided
