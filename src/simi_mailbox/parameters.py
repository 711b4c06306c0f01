"""Calibrators and rules as objects: hyper-parameters, fitted values, and their files.

A class under `hyperparameters` declares each of them in one line, from which its constructor is
made; they are checked at ``fit``. Files are safetensors, with all but arrays in a JSON header.
"""

import hashlib
import json
import math
import os
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from sklearn.base import BaseEstimator
from torch import Tensor

from simi_mailbox.exceptions import FileFormatError, NotFittedError
from simi_mailbox.files import DAMAGE, whole_file

C = TypeVar("C")


class Constraint(NamedTuple):
    """What holds for a value, and the words for it."""

    words: str
    holds: Callable[[Any], bool]


Count = Annotated[int, Constraint("≥ 1", lambda x: x >= 1)]
"""A whole number, at least 1."""
Whole = Annotated[int, Constraint("≥ 0", lambda x: x >= 0)]
"""A whole number, at least 0."""
Positive = Annotated[float, Constraint("> 0", lambda x: x > 0)]
"""A finite number above 0."""
NonNegative = Annotated[float, Constraint("≥ 0", lambda x: x >= 0)]
"""A finite number, at least 0."""
Share = Annotated[float, Constraint("in [0, 1)", lambda x: 0 <= x < 1)]
"""A number from 0 to 1, without 1."""
Level = Annotated[float, Constraint("in (0, 1)", lambda x: 0 < x < 1)]
"""A number between 0 and 1, without both."""


def _is_number(kind: Any, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)


_KINDS: dict[Any, Constraint] = {
    bool: Constraint("True or False", lambda x: isinstance(x, bool)),
    int: Constraint("a whole number", lambda x: _is_number(Integral, x)),
    float: Constraint("a finite number", lambda x: _is_number(Real, x)),
    types.NoneType: Constraint("None", lambda x: x is None),
    Any: Constraint("anything", lambda x: True),
}


@typing.dataclass_transform(kw_only_default=True, eq_default=False)
def hyperparameters(cls: type[C]) -> type[C]:
    """Class decorator: annotated attributes become keyword-only arguments, checked at ``fit``."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


def check_parameters(estimator: Any) -> None:
    """Raise `ValueError` for the first parameter that is not what its class declares."""
    cls: Any = type(estimator)
    declared = typing.get_type_hints(cls, include_extras=True)
    given = estimator.get_params(deep=False) if hasattr(cls, "get_params") else vars(estimator)
    for name, value in given.items():
        expected = _constraint(declared.get(name, Any))
        if not expected.holds(value):
            raise ValueError(f"{name} must be {expected.words}, got {value!r}")


def _constraint(hint: Any) -> Constraint:
    """What an annotation allows."""
    kind, args = typing.get_origin(hint), typing.get_args(hint)
    if kind is Annotated:
        parts = [_constraint(args[0]), *args[1:]]
        words = " ".join(part.words for part in parts)
        return Constraint(words, lambda x: all(part.holds(x) for part in parts))
    if kind in (Union, types.UnionType):
        parts = [_constraint(part) for part in args]
        words = " or ".join(part.words for part in parts)
        return Constraint(words, lambda x: any(part.holds(x) for part in parts))
    if kind is Literal:
        words = " or ".join(map(repr, args))
        return Constraint(words, lambda x: any(type(x) is type(c) and x == c for c in args))
    cls = kind or hint
    return _KINDS.get(hint) or Constraint(f"a {cls.__name__}", lambda x: isinstance(x, cls))


# --- fitted values and their files ----------------------------------------------------------------


class Kind(NamedTuple):
    """What a file holds: the ``word`` for it, under which its name is kept, and its version."""

    word: str
    version: int

    @property
    def format(self) -> str:
        return f"simi-mailbox {self.word}"


class Fitted(BaseEstimator):  # type: ignore[misc]
    """Parameters are arguments of the constructor; fitted values end in an underscore."""

    name: ClassVar[str] = ""
    kind: ClassVar[Kind]
    num_classes_: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was fitted to one file (safetensors; written whole or not at all)."""
        from simi_mailbox import __version__

        self._check_fitted()
        tensors: dict[str, Tensor] = {}
        header = {
            "format": self.kind.format,
            "version": self.kind.version,
            "written_by": __version__,
            self.kind.word: self.name,
            "params": _encode(self.get_params(deep=False), "params", tensors),
            "state": _encode(self._state(), "state", tensors),
        }
        content = safetensors_bytes(tensors, {"simi_mailbox": sealed(header, tensors)})
        with whole_file(path) as unfinished:
            unfinished.write_bytes(content)

    def _state(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}

    def _forget(self) -> None:
        for name in self._state():
            delattr(self, name)

    def _check_fitted(self) -> None:
        if not hasattr(self, "num_classes_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(...) first")


def load(path: str | os.PathLike[str], kind: Kind) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Name, parameters and fitted values that ``save`` wrote."""
    if os.path.isdir(path):
        raise FileFormatError(f"{path} is a folder, not a safetensors file")
    with open(path, "rb"):  # a file that is not there, or not to be read, is not damaged
        pass
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, EOFError, *DAMAGE) as error:
        raise FileFormatError(f"{path} is damaged or not a safetensors file: {error}") from error
    try:
        header = json.loads(metadata["simi_mailbox"])
        version = header["version"]
        if header["format"] != kind.format or type(version) is not int or version < 1:
            raise KeyError
        whole = header.pop("sha256", "") == _checksum(header, tensors)
    except DAMAGE:
        raise FileFormatError(f"{path} is a safetensors file but not a {kind.format}") from None
    if version > kind.version:
        raise FileFormatError(
            f"{path} has format version {version}, this library reads up to {kind.version}: "
            f"it was written by simi-mailbox {header.get('written_by', '?')}; upgrade to read it"
        )
    if not whole:
        raise FileFormatError(f"{path} is damaged: its content does not match its checksum")
    try:
        name, parts = header[kind.word], [_decode(header[p], tensors) for p in ("params", "state")]
        if not (isinstance(name, str) and all(isinstance(part, dict) for part in parts)):
            raise TypeError(f"{kind.word}, params and state must be a name and two tables")
    except DAMAGE as error:
        raise FileFormatError(f"{path} does not describe a {kind.word}: {error}") from error
    return name, *parts


def sealed(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """JSON of a header with a checksum: one text, as safetensors writes several in any order."""
    return json.dumps({**header, "sha256": _checksum(header, tensors)})


def check_numbers(state: dict[str, Any], endless: frozenset[str] = frozenset()) -> None:
    """Raise `ValueError` if a number of ``state`` is NaN or, unless ``endless``, infinite."""
    for name, value in state.items():
        for numbers in _floats(value):
            if np.isnan(numbers).any() or (name not in endless and np.isinf(numbers).any()):
                raise ValueError(f"{name} is not {'a number' if name in endless else 'finite'}")


def _floats(value: Any) -> Iterator[Any]:
    """All arrays and numbers within a value that can be NaN or infinite."""
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _floats(part)
    elif isinstance(value, float | Tensor | np.ndarray) and np.asarray(value).dtype.kind == "f":
        yield np.asarray(value)


def _checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Of the header, and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(json.dumps(header).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _encode(value: Any, key: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for ``value``; arrays go into ``tensors`` and leave a reference behind."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor | np.ndarray):
        tensors[key] = torch.as_tensor(value).detach().cpu().contiguous().clone()
        return {"$tensor" if isinstance(value, Tensor) else "$array": key}
    if isinstance(value, list | tuple):
        parts = [_encode(v, f"{key}.{i}", tensors) for i, v in enumerate(value)]
        return {"$tuple": parts} if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {str(k): _encode(v, f"{key}.{k}", tensors) for k, v in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{key} is a {type(value).__name__}, which cannot be saved")


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(v, tensors) for v in value]
    match value:
        case {"$tensor": key, **rest} if not rest:
            return tensors[key]
        case {"$array": key, **rest} if not rest:
            return tensors[key].numpy()
        case {"$tuple": parts, **rest} if not rest:
            return tuple(_decode(v, tensors) for v in parts)
        case dict():
            return {k: _decode(v, tensors) for k, v in value.items()}
    return value
