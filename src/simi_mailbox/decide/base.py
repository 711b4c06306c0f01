"""What all decision rules share: the door, parameters and files."""

from __future__ import annotations

import inspect
import os
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from simi_mailbox import states
from simi_mailbox.decide.scores import Nodes, Score, from_dict
from simi_mailbox.exceptions import FileFormatError, NotFittedError
from simi_mailbox.graph import as_graph
from simi_mailbox.inputs import Labelled, read_features, read_labels
from simi_mailbox.metrics._inputs import check_probs

KIND = states.Kind("rule", version=1)
_RULES: dict[str, type[Rule]] = {}


class Rule:
    """A decision rule on probabilities: keyword-only parameters, fitted values that end in ``_``.

    ``fit`` cuts the labels down to the nodes of ``mask`` before anything looks at them.
    """

    name: ClassVar[str] = ""
    num_classes_: int

    def __init_subclass__(cls) -> None:
        if cls.name:
            _RULES[cls.name] = cls

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name (scikit-learn's convention; ``deep`` changes nothing)."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; takes effect at the next ``fit``."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has: {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted rule to one file (safetensors; written whole or not at all)."""
        self._check_fitted()
        params = {
            name: {"$score": value.to_dict()} if isinstance(value, Score) else value
            for name, value in self.get_params().items()
        }
        states.save(path, KIND, self.name, params, self._state())

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if isinstance(value, np.ndarray | Tensor) or value != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    # --- for rules ------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}

    def _forget(self) -> None:
        for name in self._state():
            delattr(self, name)

    def _check_fitted(self) -> None:
        if not hasattr(self, "num_classes_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: call fit(...) first"
            )

    def _read_again(self, probs: Any) -> npt.NDArray[np.floating[Any]]:
        """Probabilities at prediction: of the classes that ``fit`` saw."""
        self._check_fitted()
        p = check_probs(probs)
        if p.shape[1] != self.num_classes_:
            raise ValueError(
                f"probs have {p.shape[1]} classes, "
                f"but this {type(self).__name__} was fitted on {self.num_classes_}"
            )
        return p


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
    >>> rule = Accept(max_error=0.1).fit(p, np.zeros(300, int), mask=range(200), fresh=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rule.save(f"{folder}/rule.safetensors")
    ...     load_rule(f"{folder}/rule.safetensors").threshold_ == rule.threshold_
    True
    """
    name, params, state = states.load(path, KIND)
    try:
        for key, value in params.items():
            if isinstance(value, dict) and set(value) == {"$score"}:
                params[key] = from_dict(value["$score"])
        rule = _RULES[name](**params)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} does not describe a rule: {error}") from error
    for attribute, value in state.items():
        setattr(rule, attribute, value)
    return rule


def read_nodes(probs: Any, graph: Any, features: Any, seed: int = 0) -> Nodes:
    """Check everything that is not a label."""
    p = check_probs(probs)
    if p.shape[1] < 2:
        raise ValueError("probs have one column: there is nothing to decide between")
    return Nodes(
        probs=p,
        graph=None if graph is None else as_graph(graph, len(p)),
        features=None if features is None else read_features(features, len(p)),
        seed=seed,
    )


def read_calibration(y: Any, mask: Any, probs: npt.NDArray[Any]) -> Labelled:
    """Labels of the calibration nodes; no other label is looked at."""
    return read_labels(y, mask, probs.shape[0], probs.shape[1], "mask")


def like(given: Any, array: npt.NDArray[Any]) -> Any:
    """``array`` as NumPy or torch, whichever was given, on its device."""
    import torch

    return torch.from_numpy(array).to(given.device) if isinstance(given, Tensor) else array


def check_share(value: float, name: str) -> None:
    """Raise unless 0 < value < 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise TypeError(f"{name} must be a number between 0 and 1, got {value!r}")
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1 (0.9 for 90 %), got {value}")
