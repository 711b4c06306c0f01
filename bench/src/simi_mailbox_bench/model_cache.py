"""Outputs of models that the logit bank does not hold, kept so that nothing is trained twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from simi_mailbox.files import cache_folder
from simi_mailbox_bench.backbones import bankfile
from simi_mailbox_bench.store import row_key

Made = tuple[dict[str, Tensor], dict[str, Any]]


def place(kind: str, identity: Mapping[str, Any]) -> Path:
    """File of one model's outputs, in the folder beside the logit bank."""
    return cache_folder("downstream") / kind / f"{row_key(identity)}.safetensors"


def kept(kind: str, identity: Mapping[str, Any], make: Callable[[], Made]) -> Made:
    """Tensors and facts of a model, made now unless an intact file has them.

    Parameters
    ----------
    kind
        Folder, for people.
    identity
        Everything that decides about the outputs, in plain words and numbers.
    make
        Trains the model and returns its outputs.
    """
    path = place(kind, identity)
    try:
        return bankfile.read(path)
    except (FileNotFoundError, bankfile.BadFileError):
        tensors, facts = make()
        tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
        bankfile.write(path, tensors, {**facts, "identity": dict(identity)})
        return tensors, facts
