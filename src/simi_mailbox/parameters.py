"""What a hyper-parameter may be: declared once, as its type, and checked at ``fit``.

A class under `hyperparameters` declares each of them in one line, with what it may be and its
default; the constructor, which does nothing but store them, is made from these lines.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from sklearn.base import BaseEstimator

from simi_mailbox.exceptions import NotFittedError

C = TypeVar("C")


@dataclass(frozen=True)
class Constraint:
    """What holds for a number besides its type, and the words for it."""

    words: str
    holds: Callable[[Any], bool]


Count = Annotated[int, Constraint("≥ 1", lambda x: x >= 1)]
Whole = Annotated[int, Constraint("≥ 0", lambda x: x >= 0)]
Positive = Annotated[float, Constraint("> 0", lambda x: x > 0)]
NonNegative = Annotated[float, Constraint("≥ 0", lambda x: x >= 0)]
Share = Annotated[float, Constraint("in [0, 1)", lambda x: 0 <= x < 1)]
Level = Annotated[float, Constraint("in (0, 1)", lambda x: 0 < x < 1)]

_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("True or False", lambda x: isinstance(x, bool)),
    int: ("a whole number", lambda x: isinstance(x, Integral) and not isinstance(x, bool)),
    float: (
        "a finite number",
        lambda x: isinstance(x, Real) and not isinstance(x, bool) and math.isfinite(x),
    ),
    types.NoneType: ("None", lambda x: x is None),
    Any: ("anything", lambda x: True),
}


@dataclass_transform(kw_only_default=True, eq_default=False)
def hyperparameters(cls: type[C]) -> type[C]:
    """Class decorator: annotated attributes become keyword-only arguments, stored untouched."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


class Fitted(BaseEstimator):  # type: ignore[misc]
    """Parameters are arguments of the constructor; fitted values end in an underscore."""

    num_classes_: int

    def _state(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}

    def _forget(self) -> None:
        for name in self._state():
            delattr(self, name)

    def _check_fitted(self) -> None:
        if not hasattr(self, "num_classes_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(...) first")


def check_parameters(estimator: Any) -> None:
    """Raise `ValueError` for the first parameter that is not what its class declares.

    ``estimator`` is a calibrator or a dataclass of settings. A
    bool is no number here, and a number is finite.
    """
    cls: Any = type(estimator)
    declared = _declared(cls)
    given = estimator.get_params(deep=False) if hasattr(cls, "get_params") else vars(estimator)
    for name, value in given.items():
        hint = declared.get(name, Any)
        if not _fits(value, hint):
            raise ValueError(f"{name} must be {_words(hint)}, got {value!r}")


@functools.cache
def _declared(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _fits(value: Any, hint: Any) -> bool:
    kind, args = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return _fits(value, args[0]) and all(rule.holds(value) for rule in args[1:])
    if kind in (Union, types.UnionType):
        return any(_fits(value, part) for part in args)
    if kind is Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    return _KINDS[hint][1](value) if hint in _KINDS else isinstance(value, kind or hint)


def _words(hint: Any) -> str:
    kind, args = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return " ".join([_words(args[0]), *(rule.words for rule in args[1:])])
    if kind in (Union, types.UnionType):
        return " or ".join(_words(part) for part in args)
    if kind is Literal:
        return " or ".join(repr(choice) for choice in args)
    return _KINDS[hint][0] if hint in _KINDS else f"a {(kind or hint).__name__}"
