"""Logit bank: every backbone is trained once, and every calibrator judged on the same logits."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox.files import cache_folder
from simi_mailbox_bench.backbones import bankfile
from simi_mailbox_bench.backbones.bankfile import BadFileError
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.settings import Settings, settings_for
from simi_mailbox_bench.backbones.training import BACKBONES, TrainedRun, restore, train

if TYPE_CHECKING:
    from simi_mailbox_bench.backbones.backbones import Backbone
    from simi_mailbox_bench.datasets import NodeDataset, Split


@dataclass(frozen=True)
class RunKey:
    """Which training is meant: the logits that all methods of a table are applied to.

    Examples
    --------
    >>> key = RunKey("Cora", "gcn", split=1)
    >>> str(key)
    'cora/gcn/folds/s1-f0-i0'
    >>> key.seed == RunKey("cora", "gcn", split=1).seed, key.seed == RunKey("Cora", "gat").seed
    (True, False)
    """

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


@dataclass(frozen=True, eq=False)
class BankedRun:
    """A trained backbone as the bank holds it.

    Attributes
    ----------
    key : RunKey
    settings : Settings
    logits : Tensor [n, K]
        Float32, of all nodes, in evaluation mode.
    weights : dict of str to Tensor
    epochs, best_epoch : int
    seconds, val_accuracy, val_nll : float
        As in :class:`TrainedRun`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = LogitBank(folder).get(RunKey("Digits", "gcn", "sparse"), Settings(epochs=2))
    >>> run.hidden.shape, run.split
    (torch.Size([1797, 64]), Split(train=200, val=500, test=1000))
    >>> halved = torch.full((run.dataset.graph.num_entries,), 0.5)
    >>> run.forward()(halved).shape
    torch.Size([1797, 10])
    """

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
        from simi_mailbox_bench.datasets import make_split

        return make_split(self.dataset, self.key.protocol, self.key.split, self.key.fold)

    @property
    def dataset(self) -> NodeDataset:
        """The dataset it was trained on (the last few loaded stay in memory)."""
        return _load(self.key.dataset)[0]

    def model(self, dataset: NodeDataset | None = None) -> Backbone:
        """The backbone itself, frozen."""
        return restore(self.key.backbone, self.weights, dataset or self.dataset, self.settings)

    def forward(self, dataset: NodeDataset | None = None) -> Callable[..., Tensor]:
        """Frozen backbone as a function of edge weights: ``forward(edge_weight) -> logits``.

        One weight for each entry of the dataset's graph; none stands for ones. The result is
        differentiable in the weights.
        """
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


class LogitBank:
    """Folder of trained backbones; what is missing is trained when asked for.

    Parameters
    ----------
    root : path, optional
        Folder. By default ``logits`` in the folder that the environment variable
        ``SIMI_MAILBOX_CACHE`` names, else in ``~/.cache/simi-mailbox``.

    Notes
    -----
    A file is written beside its final name and renamed, so a reader never sees half of one. Files
    carry a checksum and the digests of dataset and split: one that is damaged, or was trained on
    other data than today's, is trained anew and replaced. Two processes that want the same
    missing run both train it; the later rename wins, with equal content.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bank = LogitBank(folder)
    ...     key = RunKey("Digits", "mlp", "sparse")
    ...     key in bank, bank.get(key, Settings(epochs=2)).logits.shape
    (False, torch.Size([1797, 10]))
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = Path(root) if root is not None else cache_folder("logits")

    def path(self, key: RunKey, settings: Settings | None = None) -> Path:
        """File of a run; an unknown backbone is an error."""
        if key.backbone not in BACKBONES:
            raise ValueError(
                f"unknown backbone {key.backbone!r}; choose one of {', '.join(BACKBONES)}"
            )
        settings = settings or settings_for(key.dataset)
        return self.root / f"{key}-{settings.digest()}.safetensors"

    def __contains__(self, key: RunKey) -> bool:
        """Whether there is a file for the run, with the dataset's published settings."""
        return self.path(key).is_file()

    def get(self, key: RunKey, settings: Settings | None = None) -> BankedRun:
        """Read a run; train and keep it first if it is missing, damaged or out of date."""
        settings = settings or settings_for(key.dataset)
        found = self.find(key, settings)
        return found if found is not None else self._train(key, settings)

    def find(self, key: RunKey, settings: Settings | None = None) -> BankedRun | None:
        """Read a run, or return None if there is no intact file of today's data for it."""
        settings = settings or settings_for(key.dataset)
        path = self.path(key, settings)
        try:
            tensors, facts = bankfile.read(path)
        except FileNotFoundError:
            return None
        except BadFileError as error:
            warnings.warn(f"logit bank: {path} is damaged ({error}); ignored", stacklevel=2)
            return None
        if facts["data"] != _identity(key):
            warnings.warn(f"logit bank: {path} belongs to other data; ignored", stacklevel=2)
            return None
        return _banked(key, settings, tensors, facts)

    def _train(self, key: RunKey, settings: Settings) -> BankedRun:
        from simi_mailbox_bench.datasets import make_split

        dataset, _ = _load(key.dataset)
        split = make_split(dataset, key.protocol, key.split, key.fold)
        run = train(dataset, split, key.backbone, seed=key.seed, settings=settings)
        tensors, facts = _contents(run)
        facts |= {"key": asdict(key), "settings": asdict(settings), "data": _identity(key)}
        bankfile.write(self.path(key, settings), tensors, facts)
        return _banked(key, settings, tensors, facts)


_FACTS = ("epochs", "best_epoch", "seconds", "val_accuracy", "val_nll")


def _contents(run: TrainedRun) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors = {"logits": run.logits.to(torch.float32).contiguous()}
    tensors |= {f"weights.{name}": value for name, value in run.weights.items()}
    return tensors, {name: getattr(run, name) for name in _FACTS}


def _banked(
    key: RunKey, settings: Settings, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> BankedRun:
    prefix = "weights."
    return BankedRun(
        key=key,
        settings=settings,
        logits=tensors["logits"],
        weights={k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)},
        **{name: facts[name] for name in _FACTS},
    )


def _load(name: str) -> tuple[NodeDataset, str]:
    places = (os.environ.get("SIMI_MAILBOX_DATA"), os.environ.get("SIMI_MAILBOX_CACHE"))
    return _load_from(name.lower(), places)


@lru_cache(maxsize=2)
def _load_from(name: str, places: tuple[str | None, ...]) -> tuple[NodeDataset, str]:
    from simi_mailbox_bench.datasets import load

    dataset = load(name)
    return dataset, _digest(dataset)


def _digest(dataset: NodeDataset) -> str:
    """Name of what a training sees, independent of how the arrays are stored."""
    x = sp.csr_array(dataset.x, dtype=np.float32, copy=True)
    x.sum_duplicates()
    x.eliminate_zeros()
    graph = dataset.graph
    return _hash(
        [graph.indptr.numpy(), graph.indices.numpy(), x.indptr, x.indices, dataset.y],
        x.data.tobytes(),
    )


def _identity(key: RunKey) -> str:
    from simi_mailbox_bench.datasets import make_split

    dataset, digest = _load(key.dataset)
    split = make_split(dataset, key.protocol, key.split, key.fold)
    return f"{digest}-{_hash([split.train, split.val, split.test])}"


def _hash(integers: list[Any], rest: bytes = b"") -> str:
    digest = hashlib.sha256(rest)
    for array in integers:
        digest.update(np.asarray(array).astype(np.int64).tobytes() + b"|")
    return digest.hexdigest()[:16]
