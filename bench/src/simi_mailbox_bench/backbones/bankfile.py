"""One run on disk: a safetensors file with a checksum, written beside its name and renamed."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from simi_mailbox.files import whole_file


class BadFileError(ValueError):
    """A file is not what :func:`write` wrote."""


def write(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON-able facts so that no reader ever sees a part of them.

    Examples
    --------
    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.safetensors"
    ...     write(path, {"logits": torch.ones(2)}, {"epochs": 3})
    ...     tensors, facts = read(path)
    >>> tensors["logits"].tolist(), facts
    ([1.0, 1.0], {'epochs': 3})
    """
    text = json.dumps(facts, sort_keys=True)
    metadata = {"facts": text, "sha256": _checksum(tensors, text)}
    content = safetensors.torch.save(tensors, metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write` wrote; raise :class:`BadFileError` for anything else."""
    content = path.read_bytes()
    try:
        tensors = safetensors.torch.load(content)
        metadata = _metadata(content)
        expected, text = metadata["sha256"], metadata["facts"]
    except (SafetensorError, struct.error, ValueError, KeyError, TypeError) as error:
        raise BadFileError(f"not a complete file: {error}") from error
    if _checksum(tensors, text) != expected:
        raise BadFileError("its checksum does not match its content")
    facts: dict[str, Any] = json.loads(text)
    return tensors, facts


def _metadata(content: bytes) -> dict[str, str]:
    (length,) = struct.unpack("<Q", content[:8])
    header: dict[str, dict[str, str]] = json.loads(content[8 : 8 + length])
    return header["__metadata__"]


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()
