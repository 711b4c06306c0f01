"""What all decision rules share: input validation, parameters and files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from simi_mailbox import parameters
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import resolve
from simi_mailbox.decide.scores import Score, ScoredNodes, from_dict
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, whole_file
from simi_mailbox.graph import as_graph
from simi_mailbox.parameters import Fitted, Kind, check_parameters
from simi_mailbox.validation import (
    Labelled,
    read_features,
    read_index,
    read_labels,
    read_probabilities,
)

ENDLESS = frozenset({"threshold_", "thresholds_", "saving_interval_"})
"""Fitted values that are infinite where labels are too few."""
_RULES: dict[str, type[Rule]] = {}


class Rule(Fitted):
    """A decision rule on probabilities: keyword-only parameters, fitted values that end in ``_``.

    ``fit`` cuts the labels down to the nodes of ``mask`` before anything looks at them.
    """

    kind = Kind("rule", version=1)

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            _RULES[cls.name] = cls

    def _saved_params(self) -> dict[str, Any]:
        return {
            name: {"$score": value.to_dict()} if isinstance(value, Score) else value
            for name, value in super()._saved_params().items()
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted rule to one file: JSON if it is called so, else safetensors."""
        if Path(path).suffix.lower() != ".json":
            super().save(path)
            return
        self._check_fitted()
        content = {
            "format": self.kind.format,
            "version": self.kind.version,
            "rule": self.name,
            "parameters": self._saved_params(),
            "fitted": self._state(),
        }
        with whole_file(path) as unfinished:
            unfinished.write_text(json.dumps(_plain(content), indent=2) + "\n", "utf-8")

    def summary(self) -> str:
        """What was fitted, in one line: parameters, labels, and the weight of an error."""
        self._check_fitted()
        told = [f"{self!r}", *self._told()]
        weight = getattr(self, "error_weight_", 1.0)
        if weight != 1.0:
            told.append(f"calibration nodes chose the model: an error counts for {weight:.2f}")
        return "; ".join(told)

    # --- for rules ------------------------------------------------------------------------------

    def _told(self) -> list[str]:
        """What else a summary says."""
        return []

    def _read_again(self, probs: Any) -> npt.NDArray[np.floating[Any]]:
        """Probabilities at prediction: of the classes that ``fit`` saw."""
        self._check_fitted()
        p = read_probabilities(probs)
        if p.shape[1] != self.num_classes_:
            raise ValueError(
                f"probs have {p.shape[1]} classes, "
                f"but this {type(self).__name__} was fitted on {self.num_classes_}"
            )
        return p


class ThresholdRule(Rule):
    """A rule whose threshold is found on the labels of calibration nodes."""

    def fit(
        self,
        probs: Any,
        y: Any,
        *,
        mask: Any,
        used_for_selection: bool = True,
        cross_fitted: Iterable[tuple[Any, Any]] | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Find the threshold on the labels of the calibration nodes.

        Parameters
        ----------
        probs, y, mask, cross_fitted
            As `PredictionSets.fit` takes them; `Alert` takes P(class) [n] as well.
        used_for_selection : bool
            Whether these nodes had a part in choosing the model. If they had, an error among them
            stands for more than one elsewhere, and so much fewer are allowed.
        sample_weight : array [n] or [m], optional
            1 / P(the label was collected), for labels collected by a known policy. Labels are
            thinned to a random sample by them, which costs labels and keeps the guarantee.
        """
        check_parameters(self)
        self._forget()
        nodes = self._read(probs)
        calibration = read_calibration(y, mask, nodes.probs, sample_weight)
        del y  # from here on, no other label exists
        index = calibration.index.numpy()
        seen_probs = nodes.probs[index]
        for places, seen in read_cross_fitted(cross_fitted, nodes, index):
            seen_probs[places] = seen.probs[index[places]]
        try:
            self.num_classes_ = int(nodes.probs.shape[1])
            self.error_weight_ = error_weight(self.prior, used_for_selection, len(index))
            self._fit(nodes.probs, index, calibration.y.numpy(), seen_probs)
        except BaseException:
            self._forget()  # a failed fit leaves an unfitted rule, not half of one
            raise
        return self

    def _read(self, probs: Any) -> ScoredNodes:
        return read_nodes(probs, None, None)

    def _fit(self, probs: Array, index: Ints, labels: Ints, seen_probs: Array) -> None:
        """Find the threshold; ``seen_probs`` are those of the calibration nodes, cross-fitted."""
        raise NotImplementedError


def load_rule(path: str | os.PathLike[str]) -> Rule:
    """Read a rule that ``save`` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, holds no rule, or was written in a newer format.

    Examples
    --------
    >>> import tempfile
    >>> from simi_mailbox.decide import Accept
    >>> p = np.tile([0.9, 0.1], (300, 1))
    >>> rule = Accept(max_error=0.1).fit(p, np.zeros(300, int), mask=range(200))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rule.save(f"{folder}/rule.safetensors")
    ...     load_rule(f"{folder}/rule.safetensors").threshold_ == rule.threshold_
    True
    """
    json_file = Path(path).suffix.lower() == ".json"
    name, params, state = _load_json(path) if json_file else parameters.load(path, Rule.kind)
    try:
        for key, value in params.items():
            if isinstance(value, dict) and set(value) == {"$score"}:
                params[key] = from_dict(value["$score"])
        rule = _RULES[name](**params)
        check_parameters(rule)
        parameters.check_numbers(state, ENDLESS)
    except DAMAGE as error:
        raise FileFormatError(f"{path} does not describe a rule: {error}") from error
    for attribute, value in state.items():
        setattr(rule, attribute, value)
    return rule


def _plain(value: Any) -> Any:
    """As JSON holds it: arrays are named, and numbers without end are text."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return {"$array": _plain(value.tolist())}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$array"}:
            return np.array(_from_plain(value["$array"]))
        return {key: _from_plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_from_plain(part) for part in value]
    return float(value) if value in ("inf", "-inf") else value


def _load_json(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    try:
        content = _from_plain(json.loads(Path(path).read_text("utf-8")))
        if content["format"] != Rule.kind.format:
            raise ValueError(f"its format is {content['format']!r}, not {Rule.kind.format!r}")
        if content["version"] > Rule.kind.version:
            raise ValueError("it was written by a newer version: update simi-mailbox")
        return content["rule"], dict(content["parameters"]), dict(content["fitted"])
    except DAMAGE as error:
        raise FileFormatError(f"{path} does not describe a rule: {error}") from error


def read_nodes(probs: Any, graph: Any, features: Any, seed: int = 0) -> ScoredNodes:
    """Check everything that is not a label."""
    p = read_probabilities(probs)
    if p.shape[1] < 2:
        raise ValueError("probs have one column: there is nothing to decide between")
    return ScoredNodes(
        probs=p,
        graph=None if graph is None else as_graph(graph, len(p)),
        features=None if features is None else read_features(features, len(p)),
        seed=seed,
    )


def read_calibration(
    y: Any, mask: Any, probs: npt.NDArray[Any], sample_weight: Any = None
) -> Labelled:
    """Labels of the calibration nodes; no other label is looked at.

    With weights, each node is kept with a probability proportional to its weight: what is left is a
    random sample again, and every guarantee holds as it is.
    """
    found = read_labels(y, mask, probs.shape[0], probs.shape[1], "mask", sample_weight)
    if found.weight is None:
        return found
    weight = found.weight.numpy()
    kept = np.random.default_rng(0).random(len(weight)) * weight.max() < weight
    return Labelled(found.index[kept], found.y[kept])


def read_cross_fitted(
    cross_fitted: Iterable[tuple[Any, Any]] | None, nodes: ScoredNodes, index: Ints
) -> Iterator[tuple[Ints, ScoredNodes]]:
    """Places in ``index`` of calibration nodes, and all nodes as seen without their labels.

    If nothing was left out, all of them as they are.
    """
    if cross_fitted is None:
        yield np.arange(len(index)), nodes
        return
    seen = np.zeros(len(index), dtype=np.bool_)
    n, k = nodes.probs.shape
    for given, probs in cross_fitted:
        p = read_probabilities(probs)
        if p.shape != (n, k):
            raise ValueError(
                f"cross_fitted has probabilities of shape {list(p.shape)}; expected those of all "
                f"nodes, {[n, k]}"
            )
        chosen = read_index(given, n, "cross_fitted")
        places = np.searchsorted(index, chosen).clip(max=len(index) - 1)
        if (index[places] != chosen).any() or seen[places].any():
            raise ValueError("cross_fitted must name nodes of the mask, each of them once")
        seen[places] = True
        yield places, replace(nodes, probs=p)
    if not seen.all():
        raise ValueError(
            f"cross_fitted names {seen.sum()} of the {len(index)} calibration nodes; expected all"
        )


def error_weight(
    prior: str | os.PathLike[str] | None, used_for_selection: bool, labels: int
) -> float:
    """What an error among the calibration nodes counts, if they chose the checkpoint."""
    if prior is None or not used_for_selection:
        return 1.0
    return resolve(prior).error_weight(labels)


def like(given: Any, array: npt.NDArray[Any]) -> Any:
    """``array`` as NumPy or torch, whichever was given, on its device."""
    if torch.is_tensor(given):
        return torch.from_numpy(array).to(given.device)
    return array
