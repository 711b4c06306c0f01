"""Methods of others that are no part of the library, beside ours on the same labels.

Calibrators of probmetrics, which know of no graph; and for who lets predicted classes change, PyG's
Correct & Smooth (Huang et al., ICLR 2021), and the GNN trained once more with validation labels.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._extras import require
from simi_mailbox.calibrators.base import Calibrator, Holdout
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.validation import CalibrationData, NodeInputs


class Rival(Calibrator):
    """A calibrator of probmetrics with that package's defaults, under its name there."""

    rival_: Any

    def _fit(self, data: CalibrationData) -> None:
        factory = require("probmetrics.calibrators.factory", extra="rivals")
        config = {f"{self.name}_print_init_info": False}
        self.rival_ = factory.get_calibrator(self.name, **config)
        with warnings.catch_warnings():  # of its optimiser; the metrics judge
            warnings.simplefilter("ignore")
            self.rival_.fit_torch(_logits(data.calibration_logits), data.calibration.y)

    def _predict(self, data: NodeInputs) -> Tensor:
        probs: Tensor = self.rival_.predict_proba_torch(_logits(data.logits)).get_probs()
        return probs


RIVALS: dict[str, type[Rival]] = {
    name: type(name, (Rival,), {"name": name, "__doc__": about})
    for name, about in {
        "ts-mix": "One temperature, and a share 1 / (labels + 1) of the uniform distribution.",
        "svs": "Vector scaling, shrunk toward one temperature.",
        "sms": "Matrix scaling, shrunk toward one temperature.",
    }.items()
}


def _logits(z: Tensor) -> Any:
    """Probabilities, as its documentation passes them, by their logarithms: no zero is rounded."""
    distributions = require("probmetrics.distributions", extra="rivals")
    return distributions.CategoricalLogits(z.to(torch.float64).log_softmax(dim=1))


CORRECTION, SMOOTHING, LAYERS = 0.979, 0.756, 50
"""The settings of PyG's example for this method, on every graph."""


class CorrectAndSmooth(Calibrator):
    """PyG's ``CorrectAndSmooth`` on training and validation labels, its rows scaled to sum 1."""

    name: ClassVar[str] = "correct-and-smooth"
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
    holdout: ClassVar[Holdout] = "training"

    known_: Tensor
    labels_: Tensor

    def _fit(self, data: CalibrationData) -> None:
        if data.holdout is None:
            raise ValueError(f"{self.name} needs training labels: pass early_stopping_mask=…")
        self.known_ = torch.cat([data.calibration.index, data.holdout.index])
        self.labels_ = torch.cat([data.calibration.y, data.holdout.y])

    def _predict(self, data: NodeInputs) -> Tensor:
        pyg = require("torch_geometric.nn", extra="pyg")
        method = pyg.CorrectAndSmooth(LAYERS, CORRECTION, LAYERS, SMOOTHING, autoscale=True)
        graph = data.neighbourhoods
        edges = torch.stack([graph.rows(), graph.indices.long()])
        probs = scaled_softmax(data.logits).float()
        for step in (method.correct, method.smooth):
            probs = step(probs, self.labels_, self.known_, edges)
        positive = probs.double().clamp(min=1e-12)
        return positive / positive.sum(dim=1, keepdim=True)


class Retrained(Calibrator):
    """The GNN trained anew on both kinds of labels; its logits come as features."""

    name: ClassVar[str] = "retrained"
    required_inputs: ClassVar[frozenset[str]] = frozenset({"features"})

    def _fit(self, data: CalibrationData) -> None:
        """Nothing: the labels are in the network."""

    def _predict(self, data: NodeInputs) -> Tensor:
        assert data.features is not None
        return scaled_softmax(data.features)


def train_on_both(
    dataset: Any, split: Any, backbone: str, *, seed: int, settings: Any, epochs: int
) -> Tensor:
    """Logits of a backbone trained on training and validation nodes, for so many epochs."""
    from simi_mailbox_bench.backbones.training import train

    both = np.sort(np.concatenate([split.train, split.val]))
    parts: Any = SimpleNamespace(train=both, val=both, test=split.test, check=split.check)
    settings = replace(settings, epochs=max(1, epochs))
    return train(dataset, parts, backbone, seed=seed, settings=settings).logits


LABEL_RIVALS: dict[str, type[Calibrator]] = {cls.name: cls for cls in (CorrectAndSmooth, Retrained)}
