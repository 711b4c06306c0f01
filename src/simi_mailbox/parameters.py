"""Calibrators and rules as objects: hyper-parameters, fitted values, and their files.

A class under `hyperparameters` declares each of them in one line, with what it may be and its
default; the constructor, which does nothing but store them, is made from these lines. They are
checked at ``fit``. Files hold tensors in safetensors, the rest as JSON in its header: no pickle.
"""

import functools
import hashlib
import json
import math
import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from sklearn.base import BaseEstimator
from torch import Tensor

from simi_mailbox.exceptions import FileFormatError, NotFittedError
from simi_mailbox.files import DAMAGE, whole_file

C = TypeVar("C")


@dataclass(frozen=True)
class Constraint:
    """What holds for a number besides its type, and the words for it."""

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
    """Class decorator: annotated attributes become keyword-only arguments, stored untouched.

    They are checked at ``fit``: what an attribute may be is its annotation.

    Examples
    --------
    >>> from simi_mailbox.calibrators import TemperatureScaling
    >>> @hyperparameters
    ... class Halved(TemperatureScaling):
    ...     share: Share = 0.5
    >>> Halved(share=0.25).share
    0.25
    """
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


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


# --- fitted values and their files ----------------------------------------------------------------

CHECKSUM = "sha256"
PARTS = ("params", "state")


@dataclass(frozen=True)
class Kind:
    """What a file holds: the ``word`` for it, under which its name is kept, and its format."""

    word: str
    version: int

    @property
    def format(self) -> str:
        """What the header of a file of this kind says."""
        return f"simi-mailbox {self.word}"


class Fitted(BaseEstimator):  # type: ignore[misc]
    """Parameters are arguments of the constructor; fitted values end in an underscore."""

    name: ClassVar[str] = ""
    kind: ClassVar[Kind]
    num_classes_: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was fitted to one file (safetensors; written whole or not at all)."""
        self._check_fitted()
        save(path, self.kind, self.name, self._saved_params(), self._state())

    def _saved_params(self) -> dict[str, Any]:
        """Parameters as a file holds them."""
        return dict(self.get_params(deep=False))

    def _state(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}

    def _forget(self) -> None:
        for name in self._state():
            delattr(self, name)

    def _check_fitted(self) -> None:
        if not hasattr(self, "num_classes_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(...) first")


def save(
    path: str | os.PathLike[str],
    kind: Kind,
    name: str,
    params: dict[str, Any],
    state: dict[str, Any],
) -> None:
    """Write a fitted object; the file appears whole or not at all."""
    from simi_mailbox import __version__

    tensors: dict[str, Tensor] = {}
    header = {
        "format": kind.format,
        "version": kind.version,
        "written_by": __version__,
        kind.word: name,
        "params": _encode(params, "params", tensors),
        "state": _encode(state, "state", tensors),
    }
    text = json.dumps(header)
    metadata = {"simi_mailbox": text, CHECKSUM: _checksum(text, tensors)}
    with whole_file(path) as unfinished:
        unfinished.write_bytes(_in_order(safetensors_bytes(tensors, metadata)))


def _in_order(content: bytes) -> bytes:
    """The same file with its header in order: safetensors writes metadata in a random one."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


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
    header = _header(path, kind, metadata)
    if metadata.get(CHECKSUM) != _checksum(metadata["simi_mailbox"], tensors):
        raise FileFormatError(f"{path} is damaged: its content does not match its checksum")
    try:
        name, parts = header[kind.word], [_decode(header[part], tensors) for part in PARTS]
        if not (isinstance(name, str) and all(isinstance(part, dict) for part in parts)):
            raise TypeError(f"{kind.word}, params and state must be a name and two tables")
        return name, *parts
    except DAMAGE as error:
        raise FileFormatError(f"{path} does not describe a {kind.word}: {_why(error)}") from error


def check_numbers(state: dict[str, Any], endless: frozenset[str] = frozenset()) -> None:
    """Raise `ValueError` if a number of ``state`` is NaN or, unless ``endless``, infinite."""
    for name, value in state.items():
        fine = _no_nan if name in endless else _finite
        if not fine(value):
            raise ValueError(f"{name} is not {'a number' if name in endless else 'finite'}")


def _finite(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return all(_finite(v) for v in (value.values() if isinstance(value, dict) else value))
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Tensor):
        return bool(torch.isfinite(value).all())
    return not isinstance(value, np.ndarray) or bool(np.isfinite(value).all())


def _no_nan(value: Any) -> bool:
    return not bool(np.isnan(value).any())


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    """Of the header's text, and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel():  # nothing has no bytes to view
            digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _header(path: str | os.PathLike[str], kind: Kind, metadata: dict[str, str]) -> dict[str, Any]:
    try:
        header = json.loads(metadata["simi_mailbox"])
        version = header["version"]
        if header["format"] != kind.format or type(version) is not int or version < 1:
            raise KeyError
    except DAMAGE:
        raise FileFormatError(f"{path} is a safetensors file but not a {kind.format}") from None
    if version > kind.version:
        raise FileFormatError(
            f"{path} has format version {version}, this library reads up to {kind.version}: "
            f"it was written by simi-mailbox {header.get('written_by', '?')}; upgrade to read it"
        )
    return dict(header)


def _why(error: BaseException) -> str:
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)


def _encode(value: Any, key: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for ``value``; arrays go into ``tensors`` and leave a reference behind."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        tensors[key] = value.detach().cpu().contiguous().clone()
        return {"$tensor": key}
    if isinstance(value, np.ndarray):
        tensors[key] = torch.tensor(value).contiguous()
        return {"$array": key}
    if isinstance(value, tuple):
        return {"$tuple": [_encode(v, f"{key}.{i}", tensors) for i, v in enumerate(value)]}
    if isinstance(value, list):
        return [_encode(v, f"{key}.{i}", tensors) for i, v in enumerate(value)]
    if isinstance(value, dict):
        return {str(k): _encode(v, f"{key}.{k}", tensors) for k, v in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{key} is a {type(value).__name__}, which cannot be saved")


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(v, tensors) for v in value]
    if isinstance(value, dict):
        if set(value) == {"$tensor"}:
            return tensors[value["$tensor"]]
        if set(value) == {"$array"}:
            return tensors[value["$array"]].numpy()
        if set(value) == {"$tuple"}:
            return tuple(_decode(v, tensors) for v in value["$tuple"])
        return {k: _decode(v, tensors) for k, v in value.items()}
    return value
