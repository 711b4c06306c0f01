"""What other graphs tell before a graph's own labels are seen: numbers of settings, and a prior.

A prior is made of medians over settings, so that the prior without one dataset family is made from
the same few numbers. `simi-mailbox prior fit` of the bench learns the settings.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators.simi_mailbox.evidence import term_names
from simi_mailbox.calibrators.simi_mailbox.families import family_of
from simi_mailbox.calibrators.simi_mailbox.model import Coefficients
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, whole_file

FORMAT, VERSION = "simi-mailbox prior", 1
LEARNED = "learned"
_NAME = re.compile(r"learned(?:@(?P<digest>[0-9a-f]+))?(?: without (?P<family>.+))?")
DEVIATION = 1.4826  # times the median deviation: the standard deviation of a normal variable
NARROWEST = {"log_degree": 0.025, "inverse_degree": 0.1, "uniform": 0.3}
NARROWEST_COEFFICIENT = 0.1  # spreads over graphs: a few of them cannot tell these to be smaller
EITHER_SIGN = frozenset({"neighbours", "neighbours_2_steps"})
"""Other graphs tell the size of these coefficients and not their sign: their location is zero."""
LARGEST_EFFECT = 50.0
MODES = ("kept", "free", "kept_unselected", "free_unselected")
"""Predictions preserved or not; calibration nodes that chose the checkpoint, or did not."""


@dataclass(frozen=True)
class Setting:
    """One backbone on one graph: means over ``runs``, with n = ``labels`` calibration nodes.

    The others are the nodes that were neither trained nor calibrated on; u is the `model.bias_unit`
    of the calibration nodes, e and e' are the error rates of these and of the others.
    """

    graph: str
    family: str
    backbone: str
    runs: int
    labels: int
    plain: Mapping[str, float]  # coefficients that fit the others, without a hidden layer
    hidden: Mapping[str, float]  # and with one; empty where it is missing
    bias: Mapping[str, float]  # by `MODES`, mean of (confidence − correct) u / n over the others
    bias_weight: float  # mean of (u / n)²
    fewer_errors: float  # (e' − e) / (1 − e')
    fewer_errors_weight: float  # e' / (n (1 − e')): the ratio counts nodes that cannot be wrong

    def __post_init__(self) -> None:
        for found, hidden in ((self.plain, False), (self.hidden, True)):
            names = {*term_names(hidden=hidden), "uniform"}
            if (found or not hidden) and set(found) != names:
                raise ValueError(f"{self.graph} has coefficients {sorted(found)}, not {names}")
        effects = [*self.plain.values(), *self.hidden.values()]
        others = [*(self.bias[mode] for mode in MODES), self.fewer_errors]
        positive = self.runs, self.labels, self.bias_weight, self.fewer_errors_weight
        sensible = np.isfinite([*others, *positive]).all() and min(positive) > 0
        if not (sensible and max(map(abs, effects)) < LARGEST_EFFECT):
            raise ValueError(f"the numbers of {self.graph} make no sense")


@dataclass(frozen=True)
class Prior:
    """What to expect of a graph on which nothing but a few labels is known.

    ``bias`` is, by `MODES`, by how much mean confidence is too high after a fit, in units of
    `model.bias_unit` / labels; ``error_free_labels`` calibration nodes as good as cannot be wrong.
    """

    plain: Coefficients  # of the model without a hidden layer
    hidden: Coefficients  # and with one
    bias: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(MODES, 0.0))
    fewest_labels: int = 1  # that ``bias`` was learned from: it is not extrapolated below
    error_free_labels: float = 0.0
    origin: str = ""

    @classmethod
    def vague(cls) -> Prior:
        """Nothing is assumed of other graphs, nor of selection bias."""
        plain, hidden = (Coefficients.vague(term_names(hidden=given)) for given in (False, True))
        return cls(plain, hidden)

    def coefficients(self, *, hidden: bool) -> Coefficients:
        """What is believed of the model with these inputs."""
        return self.hidden if hidden else self.plain

    def drop(self, unit: float, labels: int, *, keep_classes: bool, selected: bool) -> float:
        """By how much mean confidence is too high after a fit on nodes of this `bias_unit`."""
        mode = ("kept" if keep_classes else "free") + ("" if selected else "_unselected")
        return self.bias[mode] * unit / max(labels, self.fewest_labels)

    def error_weight(self, labels: int) -> float:
        """Errors elsewhere that one among calibration nodes, which chose the GNN, stands for."""
        n = max(labels, self.fewest_labels, 2.0 * self.error_free_labels, 1.0)
        return n / (n - self.error_free_labels)


def prior_of(settings: Sequence[Setting]) -> Prior:
    """Medians over settings and deviations from them; of selection bias interquartile means."""
    weight = np.array([s.bias_weight for s in settings])
    bias = {mode: np.array([s.bias[mode] for s in settings]) / weight for mode in MODES}
    found = {mode: interquartile_mean(each, np.sqrt(weight)) for mode, each in bias.items()}
    fewer = np.array([(s.fewer_errors, s.fewer_errors_weight) for s in settings]).T
    graphs, backbones = (
        ", ".join(sorted({getattr(s, name) for s in settings})) for name in ("graph", "backbone")
    )
    return Prior(
        coefficients_of([s.plain for s in settings], hidden=False),
        coefficients_of([s.hidden for s in settings if s.hidden], hidden=True),
        {mode: max(mean, 0.0) for mode, mean in found.items()},
        min(s.labels for s in settings),
        max(interquartile_mean(fewer[0] / fewer[1], fewer[1]), 0.0),
        f"{graphs} with {backbones}, {sum(s.runs for s in settings)} runs",
    )


def without(settings: Sequence[Setting], family: str) -> tuple[Setting, ...]:
    """Settings less those of a dataset family."""
    kept = tuple(s for s in settings if s.family != family)
    if not kept:
        raise ValueError(f"without {family} no graph is left")
    return kept


def coefficients_of(fits: Sequence[Mapping[str, float]], *, hidden: bool) -> Coefficients:
    """What is believed of coefficients after these fits on other graphs."""
    vague = Coefficients.vague(term_names(hidden=hidden))
    if not fits:
        return vague
    location, spread = {}, {}
    for name in vague.location:
        values = np.array([fit[name] for fit in fits])
        if name == "uniform":
            location[name], found = float(values.mean()), float(values.std())
        else:
            location[name] = 0.0 if name in EITHER_SIGN else float(np.median(values))
            found = DEVIATION * float(np.median(np.abs(values - location[name])))
        least = NARROWEST.get(name, NARROWEST_COEFFICIENT)
        spread[name] = max(found, least) if len(fits) > 1 else vague.spread[name]
    return Coefficients(location, spread)


def interquartile_mean(values: Floats, weights: Floats) -> float:
    """Mean over the inner half of the weight: a quarter at either end may be anything."""
    order = values.argsort()
    reached = weights[order].cumsum() / weights.sum()
    inside = np.diff(reached.clip(0.25, 0.75), prepend=0.25)
    return float(values[order] @ inside / inside.sum())


# --- files ----------------------------------------------------------------------------------------


def dumps(settings: Sequence[Setting]) -> str:
    """The text of a prior file: JSON, one line for each setting."""
    exact = [json.dumps(asdict(setting)) for setting in settings]
    rounded = [json.loads(one, parse_float=lambda x: float(f"{float(x):.5g}")) for one in exact]
    lines = [json.dumps(one, ensure_ascii=False) for one in rounded]
    head = {"format": FORMAT, "version": VERSION, "checksum": _checksum(lines)}
    return json.dumps(head)[:-1] + ', "settings": [\n' + ",\n".join(lines) + "\n]}\n"


def loads(text: str, source: str = "this text") -> tuple[Setting, ...]:
    """Settings of the text of a prior file; `FileFormatError` if it is none."""
    try:
        head = json.loads(text)
        if head["format"] != FORMAT:
            raise ValueError(f"its format is {head['format']!r}, not {FORMAT!r}")
        version = head["version"]
        if type(version) is not int or version > VERSION:
            raise ValueError(f"its format version is {version}, this library reads {VERSION}")
        settings = tuple(Setting(**entry) for entry in head["settings"])
        lines = [json.dumps(entry, ensure_ascii=False) for entry in head["settings"]]
        if head["checksum"] != _checksum(lines):
            raise ValueError("its content does not match its checksum")
        prior_of(settings)  # raises where numbers, each fine alone, make no prior
    except DAMAGE as error:
        raise FileFormatError(f"{source} is damaged or not a prior file: {error}") from error
    return settings


def write(settings: Sequence[Setting], path: str | os.PathLike[str]) -> None:
    """Write a prior file; it appears whole or not at all."""
    with whole_file(path) as unfinished:
        unfinished.write_text(dumps(settings), encoding="utf-8")


def read(path: str | os.PathLike[str]) -> tuple[Setting, ...]:
    """Settings that `write` wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no prior file {os.fspath(path)!r}; prior is 'learned', None or the path "
            "of a file that `simi-mailbox prior fit` wrote"
        ) from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not a prior file: {error}") from error
    return loads(text, str(path))


def learned() -> Prior:
    """The prior that comes with the package."""
    return resolve(LEARNED)


def leave_out(dataset: str) -> str:
    """Name of the shipped prior learned without a dataset and its family, to measure on that.

    ``SimiMailbox(prior=leave_out("Cora"))`` has learned nothing on Cora. The name also pins the
    content of the shipped file, so that results of different priors are not mixed up.

    >>> leave_out("CoraFull").split("without ")[1]
    'cora'
    """
    return f"{LEARNED}@{_digest()} without {family_of(dataset)}"


def resolve(prior: str | os.PathLike[str] | None) -> Prior:
    """The prior that a calibrator's parameter names: the shipped one, a part of it, or a file."""
    if prior is None:
        return Prior.vague()
    if not isinstance(prior, str | os.PathLike):
        raise TypeError(f"prior must be 'learned', None or the path of a prior file, got {prior!r}")
    name = _NAME.fullmatch(os.fspath(prior))
    if name is None:
        return prior_of(read(prior))
    if name["digest"] not in (None, _digest()):
        raise ValueError(
            f"{os.fspath(prior)!r} names another shipped prior than this package's ({_digest()}); "
            f"use {LEARNED!r}, or the package version that made the name"
        )
    return _shipped(None if name["family"] is None else family_of(name["family"]))


def shipped() -> tuple[Setting, ...]:
    """Settings of the prior that comes with the package."""
    return loads(_text(), "the shipped prior")


@functools.cache
def _shipped(family: str | None) -> Prior:
    settings = shipped()
    return prior_of(settings if family is None else without(settings, family))


@functools.cache
def _digest() -> str:
    return hashlib.sha256(_text().encode()).hexdigest()[:8]


@functools.cache
def _text() -> str:
    return resources.files(__package__).joinpath("learned.json").read_text("utf-8")


def _checksum(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
