"""Fitted objects as files: tensors in safetensors, the rest as JSON in its header. No pickle.

Calibrators and decision rules are written and read here; what their files hold is theirs to say.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import whole_file


@dataclass(frozen=True)
class Kind:
    """What a file holds: the ``word`` for it, under which its name is kept, and its format."""

    word: str
    version: int

    @property
    def format(self) -> str:
        """What the header of a file of this kind says."""
        return f"simi-mailbox {self.word}"


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
    with whole_file(path) as unfinished:
        save_file(tensors, unfinished, metadata={"simi_mailbox": json.dumps(header)})


def load(path: str | os.PathLike[str], kind: Kind) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Name, parameters and fitted values that ``save`` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, holds something else, or was written in a newer format.
    """
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, EOFError) as error:
        raise FileFormatError(f"{path} is damaged or not a safetensors file: {error}") from error
    header = _header(path, kind, metadata)
    try:
        params, state = (dict(_decode(header[part], tensors)) for part in ("params", "state"))
        return str(header[kind.word]), params, state
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} does not describe a {kind.word}: {error}") from error


def _header(path: str | os.PathLike[str], kind: Kind, metadata: dict[str, str]) -> dict[str, Any]:
    try:
        header = json.loads(metadata["simi_mailbox"])
        if header["format"] != kind.format:
            raise KeyError
        version = int(header["version"])
    except (KeyError, TypeError, ValueError):
        raise FileFormatError(f"{path} is a safetensors file but not a {kind.format}") from None
    if version > kind.version:
        raise FileFormatError(
            f"{path} has format version {version}, this library reads up to {kind.version}: "
            f"it was written by simi-mailbox {header.get('written_by', '?')}; upgrade to read it"
        )
    return dict(header)


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
