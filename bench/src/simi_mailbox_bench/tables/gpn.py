"""ECE of graph posterior networks, as they are and calibrated."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from simi_mailbox_bench.backbones.cached_runs import RunKey, kept, place
from simi_mailbox_bench.backbones.gpn import GPNPrediction, GPNSettings, train_gpn
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.datasets import NodeDataset, Split, load, make_split
from simi_mailbox_bench.store import row_key
from simi_mailbox_bench.tables.calibration import CalibrationTable, table

# Raised when the code changes what the same settings compute.
CODE_VERSION = 1


@dataclass(frozen=True, eq=False)
class GPNSource:
    """Outputs of one GPN in the place of a backbone's logits."""

    dataset: NodeDataset
    split: Split
    logits: torch.Tensor
    seconds: float


def settings_of(run: RunKey) -> GPNSettings:
    """Settings of the GPN of a run, the same for all graphs."""
    return GPNSettings.latent16()


def gpn_identity(run: RunKey) -> dict[str, Any]:
    """Everything that decides about the outputs of a run's GPN."""
    return {**asdict(run), "version": CODE_VERSION, **asdict(settings_of(run))}


def load_gpn(run: RunKey) -> GPNSource:
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
        facts = {"seconds": trained.seconds, "epochs": trained.epochs}
        return {"alpha": trained.predict(dataset.x, dataset.graph).alpha}, facts

    tensors, facts = kept("gpn", gpn_identity(run), make)
    return GPNSource(dataset, split, GPNPrediction(tensors["alpha"]).log_probs, facts["seconds"])


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

    def backbone_identity(self) -> str:
        return row_key(gpn_identity(self.run))

    def ready(self) -> bool:
        return place("gpn", gpn_identity(self.run)).is_file()

    def prepare(self) -> GPNSource:
        return load_gpn(self.run)


class GPNTable(CalibrationTable):
    """A calibration table whose backbone is a GPN."""

    def unit_of(self, run: RunKey) -> GPNUnit:
        return GPNUnit(run, (), self.evaluation, self.quantity)


TABLES = (table("gpn", GPNTable),)
