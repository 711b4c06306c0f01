"""Self-training (Wang et al., NeurIPS 2021): a GNN learns again from nodes it is confident of."""

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from simi_mailbox import calibrators
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.validation import NO_LABEL, Forward, read_logits
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.backbones.training import build, restore, train
from simi_mailbox_bench.datasets import NodeDataset, Split

Trainer = Callable[[Ints, Split, int], Any]
"""``train(y, split, seed) -> logits``: ``y`` is -1 wherever the label may not be used."""
_Trained = tuple[Array, Callable[[], Forward] | None]
"""Logits, and the GNN as a function of edge weights."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage: train on so many nodes, label those ``added``, ``right`` of them rightly."""

    number: int
    train_nodes: int
    added: Ints
    right: int
    val_accuracy: float
    test_accuracy: float


@dataclass(frozen=True, eq=False)
class SelfTraining:
    """Stages that were run, and logits and calibrated probabilities of stage ``kept``.

    ``pseudo_labels`` is -1 for nodes that were given none.
    """

    stages: tuple[Stage, ...]
    logits: Array
    probs: Array
    pseudo_labels: Ints
    kept: int

    @property
    def predictions(self) -> Ints:
        """Predicted class of every node."""
        return np.asarray(self.logits.argmax(axis=1), dtype=np.int64)

    @property
    def test_accuracy(self) -> float:
        """Test accuracy of the GNN that is kept."""
        return self.stages[self.kept - 1].test_accuracy

    def __str__(self) -> str:
        lines = [f"{'stage':>5} {'labels':>7} {'added':>6} {'right':>6} {'val':>6} {'test':>6}"]
        lines += [
            f"{stage.number:>5} {stage.train_nodes:>7} {stage.added.size:>6} {stage.right:>6} "
            f"{100 * stage.val_accuracy:>6.2f} {100 * stage.test_accuracy:>6.2f}"
            for stage in self.stages
        ]
        if self.kept != len(self.stages):
            lines[self.kept] += "  kept"
        return "\n".join(lines)


def self_train(
    dataset: NodeDataset,
    split: Split,
    *,
    backbone: str | Trainer = "gcn",
    calibrator: str | Calibrator | None = "simi-mailbox",
    stages: int = 4,
    threshold: float = 0.8,
    keep: Literal["last", "best"] = "last",
    settings: Settings | None = None,
    seed: int = 0,
) -> SelfTraining:
    """Train a GNN in stages, each with the nodes that the one before was confident of.

    In every stage the GNN is trained anew with the same seed, its confidence is calibrated on the
    validation nodes, and each node in no part of the split whose calibrated confidence exceeds
    ``threshold`` enters the training nodes under its predicted class, for good. A stage that adds
    nothing is the last. Labels of test nodes serve for the record alone. ``backbone`` may be a
    function ``train(y, split, seed) -> logits``, whose ``y`` is −1 wherever a label may not be
    used; ``keep="best"`` returns the stage with the highest accuracy on the validation nodes.
    """
    if stages < 1 or not 0.0 < threshold < 1.0:
        raise ValueError(
            f"need at least one stage and a threshold strictly between 0 and 1, got {stages} and "
            f"{threshold}"
        )
    split.check(dataset.num_nodes)
    free = np.ones(dataset.num_nodes, dtype=np.bool_)
    free[np.concatenate([split.train, split.val, split.test])] = False
    if not free.any():
        raise ValueError("no node is left to be labelled: leave some in no part of the split")
    y = np.full(dataset.num_nodes, NO_LABEL, dtype=np.int64)
    for part in (split.train, split.val):
        y[part] = dataset.y[part]
    fit = _trainer(backbone, dataset, settings or Settings())
    method = calibrator or "uncalibrated"
    if isinstance(method, str):
        method = calibrators.get(method)()
    pseudo = np.full(dataset.num_nodes, NO_LABEL, dtype=np.int64)
    records: list[Stage] = []
    for number in range(1, stages + 1):
        grown = np.concatenate([split.train, np.flatnonzero(pseudo >= 0)])
        nodes = Split(grown, split.val, split.test)
        trained = fit(np.where(pseudo >= 0, pseudo, y), nodes, seed)
        probs = _calibrated(method, trained, dataset, y, split)
        added = np.flatnonzero(free & (probs.max(axis=1) > threshold))
        if number == stages:
            added = added[:0]  # nothing is trained after the last stage
        elif number == 1:  # later on, the classes without a pseudo-label can only become fewer
            _warn_of_classes_left_behind(probs, added, threshold, dataset, split)
        free[added] = False
        pseudo[added] = probs[added].argmax(axis=1)
        correct = trained[0].argmax(axis=1) == dataset.y
        right = int((pseudo[added] == dataset.y[added]).sum())
        scores = float(correct[split.val].mean()), float(correct[split.test].mean())
        records.append(Stage(number, grown.size, added, right, *scores))
        best = max(stage.val_accuracy for stage in records[:-1]) if number > 1 else -1.0
        if keep == "last" or records[-1].val_accuracy > best:
            kept = number, trained[0], probs
        if not added.size:
            break
    number, logits, probs = kept
    _warn_of_harm(records[0], records[number - 1], split.val.size)
    return SelfTraining(tuple(records), logits, probs, pseudo, number)


def _trainer(
    backbone: str | Trainer, dataset: NodeDataset, settings: Settings
) -> Callable[[Ints, Split, int], _Trained]:
    """The training of one stage, by a backbone of this package or by a function."""
    if not isinstance(backbone, str):
        return lambda y, split, seed: (read_logits(backbone(y, split, seed)).numpy(), None)
    build(backbone, dataset.num_features, dataset.num_classes, settings)  # refuses unknown names

    def fit(y: Ints, split: Split, seed: int) -> _Trained:
        # Where there is no label a class is needed to fill the array; training never reads it.
        blinded = replace(dataset, y=np.where(y >= 0, y, 0))
        run = train(blinded, split, backbone, seed=seed, settings=settings)
        restored = restore(backbone, run.weights, blinded, settings)
        return run.logits.numpy(), lambda: restored.on(blinded)

    return fit


def _calibrated(
    calibrator: Any, trained: _Trained, dataset: NodeDataset, y: Ints, split: Split
) -> Array:
    """Probabilities [n, K], by a new fit on the validation nodes; the caller's stays unfitted."""
    fitted, (logits, forward) = copy.copy(calibrator), trained
    inputs: dict[str, Any] = {"graph": dataset.graph}
    if "features" in fitted.required_inputs:
        inputs["features"] = dataset.x
    if "forward" in fitted.required_inputs and forward is not None:
        inputs["forward"] = forward()
    fitted.fit(logits, y, mask=split.val, **inputs)
    return np.asarray(fitted.predict_proba(logits, **inputs))


def _warn_of_classes_left_behind(
    probs: Array, added: Ints, threshold: float, dataset: NodeDataset, split: Split
) -> None:
    if not added.size:
        _warn(
            "no node was labelled: none of those in no part of the split has a confidence above "
            f"threshold={threshold}; lower it, or train the GNN for longer"
        )
        return
    labelled = np.bincount(probs[added].argmax(axis=1), minlength=dataset.num_classes)
    training = np.bincount(dataset.y[split.train], minlength=dataset.num_classes)
    without = np.flatnonzero(labelled == 0)
    if without.size:
        named = ", ".join(f"{label} ({training[label]} training nodes)" for label in without)
        _warn(
            f"{added.size} nodes were labelled in the first stage, none of them as class {named}; "
            "the next GNN will neglect what gets no labels. Train the GNN for longer, label more "
            "nodes of these classes, or lower the threshold"
        )


def _warn_of_harm(first: Stage, kept: Stage, val_nodes: int) -> None:
    chance = math.sqrt(first.val_accuracy * (1 - first.val_accuracy) / val_nodes)
    if kept.val_accuracy < first.val_accuracy - chance:  # less is told by a node or two
        _warn(
            f"validation accuracy fell from {100 * first.val_accuracy:.2f} % in stage 1 to "
            f"{100 * kept.val_accuracy:.2f} % in stage {kept.number} ("
            f"{(first.val_accuracy - kept.val_accuracy) * val_nodes:.0f} of {val_nodes} nodes); "
            "keep='best' returns the stage with the highest"
        )


def _warn(message: str) -> None:
    # Of the line that called self_train.
    warnings.warn(f"self-training: {message}", CalibrationWarning, stacklevel=4)
