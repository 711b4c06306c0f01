"""What all decision rules share: input validation, parameters and files."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch

from simi_mailbox import parameters
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import resolve
from simi_mailbox.decide.scores import Score, ScoredNodes, from_dict
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, whole_file
from simi_mailbox.graph import as_graph
from simi_mailbox.parameters import Fitted, Kind, check_parameters
from simi_mailbox.validation import read_features, read_index, read_labels, read_probabilities

ENDLESS = frozenset({"threshold_", "thresholds_", "saving_interval_"})
"""Fitted values that are infinite where labels are too few."""
Parts: TypeAlias = Iterator[tuple[Ints, ScoredNodes]]


class Rule(Fitted):
    """A decision rule on probabilities: keyword-only parameters, fitted values that end in ``_``.

    ``fit`` cuts the labels down to the nodes of ``mask`` before anything looks at them.
    """

    kind = Kind("rule", version=1)
    prior: str | os.PathLike[str] | None = None

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
        sample_weight: Any = None,
    ) -> Self:
        """Fit the rule on the labels of the calibration nodes.

        Parameters
        ----------
        probs : array [n, K]
            Probabilities of all nodes, calibrated or not. `Alert` takes P(class) [n] as well.
        y, mask : array
            Labels, of all nodes [n] or of the calibration nodes [m], and these: boolean [n] or
            indices [m]. No other label is read.
        graph, features
            As calibrators take them, where scores or groups of `PredictionSets` need them.
        used_for_selection : bool
            Whether these nodes had a part in choosing the model. A wrong prediction then counts for
            more than one, by what other graphs have shown (`Prior.error_weight`).
        cross_fitted : pairs (nodes, probs), optional
            For one part of the mask after another, probabilities of all nodes made without the
            labels of that part (`simi_mailbox.crossfit.cross_fitted_folds`). Needed where a
            calibrator takes labels as evidence on neighbours, as `SimiMailbox` does.
        sample_weight : array [n] or [m], optional
            1 / P(the label was collected): labels are thinned to a random sample by it.
        """
        check_parameters(self)
        self._forget()
        nodes = self._read(probs, graph, features)
        index, labels = read_calibration(y, mask, nodes.probs, sample_weight)
        del y  # from here on, no other label exists
        try:
            self.num_classes_ = int(nodes.probs.shape[1])
            self.error_weight_ = 1.0
            if self.prior is not None and used_for_selection:
                self.error_weight_ = resolve(self.prior).error_weight(len(index))
            self._fit(nodes, index, labels, read_cross_fitted(cross_fitted, nodes, index))
        except BaseException:
            self._forget()  # a failed fit leaves an unfitted rule, not half of one
            raise
        return self

    def _read(self, probs: Any, graph: Any, features: Any) -> ScoredNodes:
        """Check everything that is not a label."""
        return read_nodes(probs)

    def _fit(self, nodes: ScoredNodes, index: Ints, labels: Ints, parts: Parts) -> None:
        """Set the fitted values from the calibration nodes, looked at as ``parts`` show them."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted rule to one JSON file, whole or not at all."""
        self._check_fitted()
        content = {
            "format": self.kind.format,
            "version": self.kind.version,
            "rule": self.name,
            "parameters": self.get_params(deep=False),
            "fitted": self._state(),
        }
        with whole_file(path) as unfinished:
            unfinished.write_text(json.dumps(_plain(content), indent=2) + "\n", "utf-8")

    def _read_again(self, probs: Any) -> Array:
        """Probabilities at prediction: of the classes that ``fit`` saw."""
        self._check_fitted()
        p = read_probabilities(probs)
        if p.shape[1] != self.num_classes_:
            who = f"this {type(self).__name__} was fitted on {self.num_classes_}"
            raise ValueError(f"probs have {p.shape[1]} classes, but {who}")
        return p


def load_rule(path: str | os.PathLike[str]) -> Rule:
    """Read a rule that ``save`` wrote; `FileFormatError` if the file is damaged or holds none.

    Examples
    --------
    >>> import tempfile
    >>> from simi_mailbox.decide import Accept
    >>> rule = Accept().fit(np.eye(2)[np.zeros(99, int)], np.zeros(99, int), mask=range(99))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rule.save(f"{folder}/rule.json")
    ...     load_rule(f"{folder}/rule.json").threshold_
    1.0
    """
    text = Path(path).read_bytes()
    try:
        content = json.loads(text)
        if content["format"] != Rule.kind.format:
            raise ValueError(f"its format is {content['format']!r}, not {Rule.kind.format!r}")
        if content["version"] > Rule.kind.version:
            raise ValueError("it was written by a newer version: update simi-mailbox")
        rules = {cls.name: cls for cls in Rule.__subclasses__()}
        rule: Rule = rules[content["rule"]](**_from_plain(content["parameters"]))
        check_parameters(rule)
        fitted = dict(_from_plain(content["fitted"], ("inf", "-inf", "nan")))
        parameters.check_numbers(fitted, ENDLESS)
    except DAMAGE as error:
        raise FileFormatError(f"{path} does not describe a rule: {error}") from error
    for attribute, value in fitted.items():
        setattr(rule, attribute, value)
    return rule


def _plain(value: Any) -> Any:
    """As JSON holds it: arrays and scores are named, and numbers without end are text."""
    if isinstance(value, Score):
        return {"$score": _plain(value.to_dict())}
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | torch.Tensor):
        return {"$array": _plain(value.tolist())}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _from_plain(value: Any, numbers: tuple[str, ...] = ()) -> Any:
    if isinstance(value, dict):
        parts = {key: _from_plain(part, numbers) for key, part in value.items()}
        if set(parts) == {"$score"}:
            return from_dict(parts["$score"])
        return np.array(parts["$array"]) if set(parts) == {"$array"} else parts
    if isinstance(value, list):
        return [_from_plain(part, numbers) for part in value]
    return float(value) if value in numbers else value


def read_nodes(probs: Any, graph: Any = None, features: Any = None, seed: int = 0) -> ScoredNodes:
    """Check everything that is not a label."""
    p = read_probabilities(probs)
    if p.shape[1] < 2:
        raise ValueError("probs have one column: there is nothing to decide between")
    links = None if graph is None else as_graph(graph, len(p))
    x = None if features is None else read_features(features, len(p))
    return ScoredNodes(p, links, x, seed)


def read_calibration(y: Any, mask: Any, probs: Array, sample_weight: Any) -> tuple[Ints, Ints]:
    """The calibration nodes and their labels; no other label is looked at."""
    found = read_labels(y, mask, probs.shape[0], probs.shape[1], "mask", sample_weight)
    index, labels = found.index.numpy(), found.y.numpy()
    if found.weight is None:
        return index, labels
    # Kept with a probability proportional to its weight: what is left is a random sample again.
    weight = found.weight.numpy()
    kept = np.random.default_rng(0).random(len(weight)) * weight.max() < weight
    return index[kept], labels[kept]


def read_cross_fitted(
    cross_fitted: Iterable[tuple[Any, Any]] | None, nodes: ScoredNodes, index: Ints
) -> Parts:
    """Places in ``index`` of calibration nodes, and all nodes as seen without their labels."""
    if cross_fitted is None:
        yield np.arange(len(index)), nodes
        return
    seen = np.zeros(len(index), dtype=np.bool_)
    for given, probs in cross_fitted:
        p = read_probabilities(probs)
        if p.shape != nodes.probs.shape:
            raise ValueError(
                f"cross_fitted has probabilities of shape {list(p.shape)}; expected those of all "
                f"nodes, {list(nodes.probs.shape)}"
            )
        chosen = read_index(given, len(p), "cross_fitted")
        places = np.searchsorted(index, chosen).clip(max=len(index) - 1)
        if (index[places] != chosen).any() or seen[places].any():
            raise ValueError("cross_fitted must name nodes of the mask, each of them once")
        seen[places] = True
        yield places, replace(nodes, probs=p)
    if not seen.all():
        named = f"{seen.sum()} of the {len(index)} calibration nodes"
        raise ValueError(f"cross_fitted names {named}; expected all")


def cross_fitted_rows(index: Ints, parts: Parts) -> Array:
    """Probabilities [m, K] of the calibration nodes, each as seen without its label."""
    places, rows = zip(*((at, seen.probs[index[at]]) for at, seen in parts), strict=True)
    return np.concatenate(rows)[np.argsort(np.concatenate(places))]


def like(given: Any, array: Array) -> Any:
    """``array`` as NumPy or torch, whichever was given, on its device."""
    return torch.from_numpy(array).to(given.device) if torch.is_tensor(given) else array
