"""Cached runs: every backbone is trained once, and every calibrator judged on the same logits.

A run on disk is a safetensors file with a checksum, written beside its name and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import scipy.sparse as sp
import torch
from safetensors import SafetensorError
from torch import Tensor

from simi_mailbox.files import cache_folder, whole_file
from simi_mailbox.plain_text import unknown
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.networks import Backbone
from simi_mailbox_bench.backbones.settings import Settings, settings_for
from simi_mailbox_bench.backbones.training import BACKBONES, restore, train
from simi_mailbox_bench.datasets import NodeDataset, Split, load, make_split
from simi_mailbox_bench.datasets.catalogue import find
from simi_mailbox_bench.datasets.dataset import SHIFTS
from simi_mailbox_bench.datasets.loading import is_here
from simi_mailbox_bench.store import row_key


@dataclass(frozen=True)
class RunKey:
    """Which training is meant: the logits that all methods of a table are applied to."""

    dataset: str
    backbone: str
    protocol: str = "folds"
    split: int = 0
    fold: int = 0
    init: int = 0

    def __str__(self) -> str:
        place = f"s{self.split}-f{self.fold}-i{self.init}"
        return f"{self.dataset.lower()}/{self.backbone}/{self.protocol}/{place}"

    @property
    def place(self) -> tuple[int, int, int]:
        """Which of the runs of a graph and a backbone it is: what methods on one run share."""
        return self.split, self.fold, self.init

    @property
    def seed(self) -> int:
        """Seed of initial weights and dropout: the key's own, so that no two runs share noise."""
        return int.from_bytes(hashlib.sha256(str(self).encode()).digest()[:7], "big")


class Size(NamedTuple):
    """How many runs the paper makes under a protocol."""

    splits: int
    folds: int
    inits: int

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.splits * self.folds * self.inits


# As the paper states them: 75, 50, and three times 10 runs.
SIZES = {
    "folds": Size(5, 3, 5),
    "official": Size(10, 1, 5),
    "sparse": Size(10, 1, 1),
    "gpn": Size(10, 1, 1),
    "public": Size(1, 1, 10),
    "random-50-25-25": Size(5, 1, 1),
    **dict.fromkeys(SHIFTS, Size(1, 1, 5)),
}


def runs(
    dataset: str, backbone: str, protocol: str, limit: int | None = None, size: Size | None = None
) -> list[RunKey]:
    """Runs of one cell, over splits first: runs of one split share a test set and tell less."""
    order = product(*map(range, reversed(size or SIZES[protocol])))
    made = [RunKey(dataset, backbone, protocol, *reversed(place)) for place in order]
    return made[:limit]


@dataclass(frozen=True, eq=False)
class CachedRun:
    """A trained backbone as the cache holds it."""

    key: RunKey
    settings: Settings
    logits: Tensor
    weights: dict[str, Tensor]
    epochs: int
    best_epoch: int
    seconds: float
    val_accuracy: float
    val_nll: float

    @property
    def split(self) -> Split:
        """Nodes the backbone was trained, validated and is to be tested on."""
        return make_split(self.dataset, self.key.protocol, self.key.split, self.key.fold)

    @property
    def dataset(self) -> NodeDataset:
        """The dataset it was trained on (the last few loaded stay in memory)."""
        return _load(self.key.dataset)[0]

    def model(self, dataset: NodeDataset | None = None) -> Backbone:
        """The backbone itself, frozen."""
        return restore(self.key.backbone, self.weights, dataset or self.dataset, self.settings)

    def forward(self, dataset: NodeDataset | None = None) -> Callable[..., Tensor]:
        """Frozen backbone as a differentiable ``forward(edge_weight) -> logits``; default: ones."""
        dataset = dataset or self.dataset
        return self.model(dataset).on(dataset)

    @cached_property
    def hidden(self) -> Tensor:
        """Representation that enters the last layer, [n, d], computed from the weights."""
        dataset, model = self.dataset, self.model()
        features = Features(dataset.x, row_normalise=self.settings.row_normalise)
        with torch.no_grad():
            steps = model.plan(dataset.graph)
            return model.penultimate(model.stem(features, steps), steps)


class RunCache:
    """Folder of trained backbones; what is missing is trained when asked for."""

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root) if root is not None else cache_folder("logits")

    def path(self, key: RunKey, settings: Settings | None = None) -> Path:
        """File of a run; an unknown backbone is an error."""
        if key.backbone not in BACKBONES:
            raise ValueError(unknown("backbone", key.backbone, BACKBONES))
        settings = settings or settings_for(key.dataset)
        return self.root / f"{key}-{settings.digest()}.safetensors"

    def __contains__(self, key: RunKey) -> bool:
        """Whether there is a file for the run, with the dataset's published settings."""
        return self.path(key).is_file()

    def get(self, key: RunKey, settings: Settings | None = None) -> CachedRun:
        """Read a run; train and keep it first if it is missing, damaged or out of date."""
        settings = settings or settings_for(key.dataset)
        found = self.find(key, settings)
        if found is None:
            self._train(key, settings)
            found = self.find(key, settings)
        assert found is not None
        return found

    def find(self, key: RunKey, settings: Settings | None = None) -> CachedRun | None:
        """Read a run, or return None if there is no intact file of today's data for it."""
        settings = settings or settings_for(key.dataset)
        path = self.path(key, settings)
        try:
            tensors, facts = read_run_file(path)
        except FileNotFoundError:
            return None
        except BadFileError as error:
            warnings.warn(f"run cache: {path} is damaged ({error}); ignored", stacklevel=2)
            return None
        if facts["data"] != _identity(key):
            warnings.warn(f"run cache: {path} belongs to other data; ignored", stacklevel=2)
            return None
        logits = tensors.pop("logits")
        weights = {name.removeprefix(_WEIGHTS): value for name, value in tensors.items()}
        told = {name: facts[name] for name in _FACTS}
        return CachedRun(key, settings, logits, weights, **told)

    def _train(self, key: RunKey, settings: Settings) -> None:
        dataset, _ = _load(key.dataset)
        split = make_split(dataset, key.protocol, key.split, key.fold)
        run = train(dataset, split, key.backbone, seed=key.seed, settings=settings)
        tensors = {"logits": run.logits.to(torch.float32).contiguous()}
        tensors |= {f"{_WEIGHTS}{name}": value for name, value in run.weights.items()}
        facts: dict[str, Any] = {name: getattr(run, name) for name in _FACTS}
        facts |= {"key": asdict(key), "settings": asdict(settings), "data": _identity(key)}
        write_run_file(self.path(key, settings), tensors, facts)


_FACTS = ("epochs", "best_epoch", "seconds", "val_accuracy", "val_nll")
_WEIGHTS = "weights."


def _load(name: str) -> tuple[NodeDataset, str]:
    places = (os.environ.get("SIMI_MAILBOX_DATA"), os.environ.get("SIMI_MAILBOX_CACHE"))
    return _load_from(name.lower(), places)


@lru_cache(maxsize=2)
def _load_from(name: str, places: tuple[str | None, ...]) -> tuple[NodeDataset, str]:
    """A dataset, and the name of what a training sees, however the arrays are stored."""
    dataset = load(name)
    x = sp.csr_array(dataset.x, dtype=np.float32, copy=True)
    x.sum_duplicates()
    x.eliminate_zeros()
    graph = dataset.graph
    integers = [graph.indptr.numpy(), graph.indices.numpy(), x.indptr, x.indices, dataset.y]
    return dataset, _hash(integers, x.data.tobytes())


def _identity(key: RunKey) -> str:
    dataset, digest = _load(key.dataset)
    split = make_split(dataset, key.protocol, key.split, key.fold)
    return f"{digest}-{_hash([split.train, split.val, split.test])}"


def _hash(integers: list[Any], rest: bytes = b"") -> str:
    digest = hashlib.sha256(rest)
    for array in integers:
        digest.update(np.asarray(array).astype(np.int64).tobytes() + b"|")
    return digest.hexdigest()[:16]


def load_logits(run: RunKey) -> CachedRun:
    """Logits of a run, trained now if the cache does not have them."""
    return RunCache().get(run)


def digest(logits: Any) -> str:
    """Short name of the very numbers: networks of two machines differ in their last bits."""
    array = np.ascontiguousarray(logits)
    return hashlib.sha256(array.tobytes()).hexdigest()[:12]


def missing(names: Iterable[str]) -> dict[str, str]:
    """Datasets that are not here, each with what to do about it."""
    absent = {}
    for name in names:
        if not is_here(find(name)):
            try:
                load(name, download=False)
            except (FileNotFoundError, ValueError) as error:
                absent[name] = str(error)
    return absent


Made = tuple[dict[str, Tensor], dict[str, Any]]


def place(kind: str, identity: Mapping[str, Any]) -> Path:
    """File of one model's outputs, in the folder beside the run cache."""
    return cache_folder("downstream") / kind / f"{row_key(identity)}.safetensors"


def kept(kind: str, identity: Mapping[str, Any], make: Callable[[], Made]) -> Made:
    """Tensors and facts of a model, made now unless an intact file has them."""
    path = place(kind, identity)
    try:
        return read_run_file(path)
    except (FileNotFoundError, BadFileError):
        tensors, facts = make()
        tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
        write_run_file(path, tensors, {**facts, "identity": dict(identity)})
        return tensors, facts


class BadFileError(ValueError):
    """A file is not what :func:`write_run_file` wrote."""


def write_run_file(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON-able facts so that no reader ever sees a part of them."""
    text = json.dumps(facts, sort_keys=True)
    metadata = {"facts": text, "sha256": _checksum(tensors, text)}
    content = safetensors.torch.save(tensors, metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content)


def read_run_file(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_run_file` wrote; raise :class:`BadFileError` for anything else."""
    content = path.read_bytes()
    try:
        tensors = safetensors.torch.load(content)
        (length,) = struct.unpack("<Q", content[:8])
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        expected, text = metadata["sha256"], metadata["facts"]
    except (SafetensorError, struct.error, ValueError, KeyError, TypeError) as error:
        raise BadFileError(f"not a complete file: {error}") from error
    if _checksum(tensors, text) != expected:
        raise BadFileError("its checksum does not match its content")
    facts: dict[str, Any] = json.loads(text)
    return tensors, facts


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()
