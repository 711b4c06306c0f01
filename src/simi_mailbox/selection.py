"""Choosing a calibrator by the calibration labels alone, and only where these can tell."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone

from simi_mailbox import calibrators
from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators import Calibrator
from simi_mailbox.crossfit import cross_fitted_folds, full_length
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.metrics import nll
from simi_mailbox.plain_text import unknown
from simi_mailbox.validation import read_classes, read_index

METHODS = ("simi-mailbox", "temperature", "ensemble-temperature", "isotonic", "uncalibrated")
"""What is compared when nothing is said: methods that fit in seconds."""

INPUTS = {"features", "forward", "train_mask", "hidden", "used_for_selection", "input_type"}
"""What goes on to the methods that use it."""

RISK = 0.05  # chance at which the default is left though no other is better


@dataclass(frozen=True)
class CandidateScore:
    """What cross-fitting says of one method."""

    name: str
    nll: float  # mean over nodes whose label the fit did not see
    difference: float  # mean over folds of the NLL minus that of the default on the same nodes
    error: float  # of the difference, counting in that folds share labels (Nadeau & Bengio 2003)


@dataclass(frozen=True)
class Choice:
    """The chosen method, fitted on all calibration labels, and why."""

    name: str
    calibrator: Any
    verdict: str  # the reason in one line
    evidence: tuple[CandidateScore, ...]  # lowest NLL first; empty where labels are too few

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.evidence), default=0)
        line = "{0.name:<{1}}  NLL {0.nll:.4f}  {0.difference:+.4f} ± {0.error:.4f}".format
        return "\n".join([self.verdict, *(line(row, width) for row in self.evidence)])


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
    one whose NLL is lower by more than chance allows. ``str(choice)`` is the evidence as a table.

    Parameters
    ----------
    logits, y, mask, graph, early_stopping_mask
        As of `Calibrator.fit`.
    methods : names, calibrators, or a mapping from names to calibrators
        What is compared, the default added. Without it, `METHODS` as far as the inputs suffice.
    default : str
        What is taken unless another is better.
    folds, repeats, seed : int
        Parts that labels are cut into, how often, and the seed of the cuts.
    **inputs
        ``features=``, ``forward=``, ``train_mask=``, ``hidden=``, ``used_for_selection=`` and
        ``input_type=``, as of `Calibrator.fit`; each goes to the methods that use it.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(600, 3, temperature=2.5, seed=0)
    >>> given = {"methods": ["uncalibrated", "temperature"], "default": "uncalibrated"}
    >>> select(problem.logits, problem.y, mask=range(300), **given).name
    'temperature'
    """
    for name in inputs.keys() - INPUTS:
        raise TypeError(unknown("argument", name, sorted(INPUTS)))
    given = {key: value for key, value in (inputs | {"graph": graph}).items() if value is not None}
    rivals = _named(methods, default, set(given))
    nodes = read_index(mask, len(logits), "mask")
    labels = full_length(y, nodes, len(logits))

    def fitting(calibrator: Any) -> dict[str, Any]:
        used = {*calibrator.required_inputs, *calibrator.optional_inputs, "train_mask"}
        held = early_stopping_mask if calibrator.holdout else None
        passed = {key: given[key] for key in (used | {"input_type"}) & given.keys()}
        return {"early_stopping_mask": held, **passed}

    def losses(calibrator: Any) -> Floats:
        """Mean NLL of every fold of every cut after a fit on the others."""
        given, found = {"mask": nodes, "folds": folds, **fitting(calibrator)}, []
        for cut in range(seed, seed + repeats):
            cuts = cross_fitted_folds(clone(calibrator), logits, labels, seed=cut, **given)
            found += [nll(p[fold], read_classes(labels, fold, len(labels))) for fold, p in cuts]
        return np.array(found)

    evidence: tuple[CandidateScore, ...] = ()
    if nodes.size >= 2 * folds and len(rivals) > 1:
        # Warnings are shown when the winner is fitted.
        with warnings.catch_warnings(action="ignore", category=CalibrationWarning):
            measured = {name: losses(calibrator) for name, calibrator in rivals.items()}
        rows = [_score(name, found, measured[default], folds) for name, found in measured.items()]
        evidence = tuple(sorted(rows, key=lambda row: row.nll))
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


def _score(name: str, losses: Floats, defaults: Floats, folds: int) -> CandidateScore:
    gaps = losses - defaults
    # Folds are fitted on labels that they share: their spread alone would claim too much.
    error = np.sqrt(1 / gaps.size + 1 / (folds - 1)) * gaps.std(ddof=1)
    return CandidateScore(name, float(losses.mean()), float(gaps.mean()), float(error))


def _judge(evidence: tuple[CandidateScore, ...], default: str, fits: int) -> tuple[str, str]:
    """Name of the winner, and why."""
    others = [row for row in evidence if row.name != default]
    bound = float(student.ppf(1 - RISK / max(len(others), 1), fits - 1))
    best = min(others, key=lambda row: row.difference, default=None)
    if best and best.difference + bound * best.error < 0:
        gain = f"{-best.difference:.4f} ± {best.error:.4f}"
        return best.name, f"{best.name}: NLL significantly lower than that of {default}, by {gain}"
    if best and all(row.difference - bound * row.error > 0 for row in others):
        return default, f"{default}: NLL significantly lower than that of every other"
    return default, f"{default} (default kept: no other method is significantly better)"
