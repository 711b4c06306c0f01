"""ECE of graph posterior networks, as they are and calibrated."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from simi_mailbox.data import NodeDataset, Split, load, make_split
from simi_mailbox.experiments.calibration import CalibrationUnit
from simi_mailbox.experiments.downstream.keep import kept, place
from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.logits import graph_size
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.outcome import Failure, Outcome
from simi_mailbox.experiments.protocol import Run
from simi_mailbox.experiments.store import row_key
from simi_mailbox.experiments.tables.calibration import CalibrationTable, Column
from simi_mailbox.experiments.tables.registry import register
from simi_mailbox.models.features import row_normalised
from simi_mailbox.models.gpn import GPNSettings, train_gpn

DATASETS = ("CoraML", "Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")
# Raised when the code changes what the same settings compute.
CODE_VERSION = 1


@dataclass(frozen=True, eq=False)
class GPNSource:
    """Outputs of one GPN in the place of a backbone's logits."""

    dataset: NodeDataset
    split: Split
    logits: torch.Tensor
    seconds: float

    def features(self, kind: str) -> Any:
        """Node features as the GPN saw them."""
        return row_normalised(self.dataset.x)


def settings_of(run: Run) -> GPNSettings:
    """Settings of the GPN of a run, the same for all graphs.

    Examples
    --------
    >>> settings_of(Run("Cora", "gpn", "gpn")).latent_dim
    16
    """
    return GPNSettings.latent16()


def gpn_identity(run: Run) -> dict[str, Any]:
    """Everything that decides about the outputs of a run's GPN."""
    return {**run.identity(), "version": CODE_VERSION, **asdict(settings_of(run))}


def load_gpn(run: Run) -> GPNSource:
    """Log-probabilities of a run's GPN, trained now unless they were kept."""
    dataset = gpn_dataset(run.dataset)
    split = make_split(dataset, run.protocol, run.split, run.fold)

    def make() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        trained = train_gpn(
            dataset.x,
            dataset.graph,
            dataset.y,
            split,
            num_classes=dataset.num_classes,
            settings=settings_of(run),
            seed=run.init + 1000 * run.split,
        )
        prediction = trained.predict(dataset.x, dataset.graph)
        facts = {"seconds": trained.seconds, "epochs": trained.epochs}
        return {"alpha": prediction.alpha, "own": prediction.feature_evidence}, facts

    tensors, facts = kept("gpn", gpn_identity(run), make)
    alpha = tensors["alpha"]
    log_probs = alpha.log() - alpha.sum(dim=1, keepdim=True).log()
    return GPNSource(dataset, split, log_probs, facts["seconds"])


@functools.lru_cache(maxsize=2)
def gpn_dataset(name: str) -> NodeDataset:
    """A graph with the features that the GPN's authors use: Pubmed's are made binary."""
    dataset = load(name)
    if name != "Pubmed":
        return dataset
    x = sp.csr_array(dataset.x)
    ones = sp.csr_array((np.ones_like(x.data), x.indices, x.indptr), shape=x.shape)
    return replace(dataset, x=ones)


@dataclass(frozen=True)
class GPNUnit(CalibrationUnit):
    """Some methods on the log-probabilities of one GPN."""

    def identity(self, method: Method) -> dict[str, Any]:
        return {**super().identity(method), "backbone_settings": row_key(gpn_identity(self.run))}

    def seconds(self, durations: Durations) -> float:
        where = self.run.dataset, self.run.backbone
        size = graph_size(self.run.dataset)
        fits = sum(durations.fit(m.name, *where, size) for m in self.methods)
        return fits if self.ready() else fits + durations.training(*where, size)

    def ready(self) -> bool:
        return place("gpn", gpn_identity(self.run)).is_file()

    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        try:
            source = load_gpn(self.run)
        except Exception as error:
            yield Failure(self.label, f"{type(error).__name__}: {error}", traceback.format_exc())
            return
        for method in self.methods:
            try:
                identity = self.identity(method)
                if not skip(row_key(identity)):
                    yield {"key": row_key(identity), **identity, **self._measure(method, source)}
            except Exception as error:
                label = f"{self.label}: {method.name}"
                yield Failure(label, f"{type(error).__name__}: {error}", traceback.format_exc())


class GPNTable(CalibrationTable):
    """A calibration table whose backbone is a GPN."""

    def _unit(self, run: Run, wanted: tuple[Method, ...]) -> GPNUnit:
        return GPNUnit(run, wanted, self.evaluation, self.measure)


TABLE = register(
    GPNTable(
        name="gpn",
        shows="test ECE of graph posterior networks",
        datasets=DATASETS,
        backbones=("gpn",),
        columns=(
            Column.of("uncalibrated", "GPN"),
            Column.of("temperature"),
            Column.of("simi-mailbox", "Simi-Mailbox"),
            Column.of("simi-mailbox-paper", "Simi-Mailbox"),
            Column.of("simi-mailbox-oracle", "Simi-Mailbox"),
        ),
        protocol="gpn",
        baseline="uncalibrated",
        caption=(
            "What is calibrated is the logarithm of the GPN's probabilities: it has no logits. "
            "15 bins. The paper does not say which of the GPN's two published settings it used; "
            "here it is the one with 16 latent dimensions, on every graph.",
            "A GPN costs minutes on the larger graphs; the column of runs tells how many of the "
            "ten splits were made.",
        ),
    )
)
