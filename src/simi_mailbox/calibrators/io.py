"""One file per calibrator: tensors as safetensors, the rest as JSON in its header. No pickle."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from simi_mailbox._files import whole_file
from simi_mailbox.exceptions import FileFormatError

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator

FORMAT = "simi-mailbox calibrator"
VERSION = 1


def save(
    path: str | os.PathLike[str], name: str, params: dict[str, Any], state: dict[str, Any]
) -> None:
    """Write a calibrator; the file appears whole or not at all."""
    from simi_mailbox import __version__

    tensors: dict[str, Tensor] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": __version__,
        "calibrator": name,
        "params": _encode(params, "params", tensors),
        "state": _encode(state, "state", tensors),
    }
    with whole_file(path) as unfinished:
        save_file(tensors, unfinished, metadata={"simi_mailbox": json.dumps(header)})


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator that ``save`` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, is no calibrator, or was written in a newer format.

    Examples
    --------
    >>> import numpy as np, tempfile, simi_mailbox
    >>> logits = np.random.default_rng(0).normal(size=(50, 3))
    >>> cal = simi_mailbox.TemperatureScaling().fit(logits, logits.argmax(1), mask=np.arange(50))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(f"{folder}/cal.safetensors")
    ...     again = simi_mailbox.load(f"{folder}/cal.safetensors")
    >>> bool((again.predict_proba(logits) == cal.predict_proba(logits)).all())
    True
    """
    from simi_mailbox.calibrators import registry

    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, EOFError) as error:
        raise FileFormatError(f"{path} is damaged or not a safetensors file: {error}") from error
    header = _header(path, metadata)
    try:
        cls = registry.get(header["calibrator"])
        calibrator = cls(**_decode(header["params"], tensors))
        for name, value in _decode(header["state"], tensors).items():
            setattr(calibrator, name, value)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} does not describe a calibrator: {error}") from error
    return calibrator


def _header(path: str | os.PathLike[str], metadata: dict[str, str]) -> dict[str, Any]:
    try:
        header = json.loads(metadata["simi_mailbox"])
        if header["format"] != FORMAT:
            raise KeyError
        version = int(header["version"])
    except (KeyError, TypeError, ValueError):
        raise FileFormatError(
            f"{path} is a safetensors file but not a simi-mailbox calibrator"
        ) from None
    if version > VERSION:
        raise FileFormatError(
            f"{path} has format version {version}, this library reads up to {VERSION}: "
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
