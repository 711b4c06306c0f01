"""Self-training: a GNN labels the nodes it is sure of, and learns again with their help.

How sure it is decides everything, so confidence is calibrated anew in every stage, on the
validation nodes. Wang et al. (NeurIPS 2021) introduced the scheme for graphs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simi_mailbox import calibrators
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.split import IntArray, Split
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.models.settings import Settings

Floats = npt.NDArray[np.floating[Any]]
Trainer = Callable[[IntArray, Split, int], Any]
"""``train(y, split, seed) -> logits``: ``y`` is -1 wherever the label may not be used."""
NO_LABEL = -1


@dataclass(frozen=True, eq=False)
class Stage:
    """What happened in one stage: train, calibrate, label.

    Attributes
    ----------
    number : int
        1 for the first stage, whose GNN is the plain one: it has true labels only.
    train_nodes : int
        Labels the GNN was trained on, pseudo-labels included.
    val_accuracy : float
        Of this stage's GNN on the validation nodes.
    added : ndarray of int64
        Nodes that got a pseudo-label after this stage's training.
    labels : ndarray of int64
        Their pseudo-labels.
    right : int or None
        How many of these are right. Only known, and only for the report, when the true labels
        were given.
    test_accuracy : float or None
        Of this stage's GNN on the test nodes; likewise.
    """

    number: int
    train_nodes: int
    val_accuracy: float
    added: IntArray
    labels: IntArray
    right: int | None = None
    test_accuracy: float | None = None


@dataclass(frozen=True, eq=False)
class SelfTraining:
    """Result of `self_train`.

    Attributes
    ----------
    stages : tuple of Stage
        One record per stage that was run.
    logits : ndarray [n, K]
        Of the last stage's GNN.
    probs : ndarray [n, K]
        Its calibrated probabilities (plain softmax without a calibrator).
    pseudo_labels : ndarray, int64 [n]
        Label that each node was given, -1 for nodes that were not.
    """

    stages: tuple[Stage, ...]
    logits: Floats
    probs: Floats
    pseudo_labels: IntArray

    @property
    def predictions(self) -> IntArray:
        """Predicted class of every node."""
        return np.asarray(self.logits.argmax(axis=1), dtype=np.int64)

    @property
    def test_accuracy(self) -> float | None:
        """Test accuracy of the last stage's GNN, if the true labels were given."""
        return self.stages[-1].test_accuracy

    def __str__(self) -> str:
        lines = [f"{'stage':>5} {'labels':>7} {'added':>6} {'right':>6} {'val':>6} {'test':>6}"]
        for stage in self.stages:
            right = "–" if stage.right is None else str(stage.right)
            test = "–" if stage.test_accuracy is None else f"{100 * stage.test_accuracy:.2f}"
            lines.append(
                f"{stage.number:>5} {stage.train_nodes:>7} {stage.added.size:>6} {right:>6} "
                f"{100 * stage.val_accuracy:>6.2f} {test:>6}"
            )
        return "\n".join(lines)


def self_train(
    x: Any,
    graph: Any,
    y: Any,
    split: Split,
    *,
    backbone: str | Trainer = "gcn",
    calibrator: str | Calibrator | None = "simi-mailbox",
    stages: int = 4,
    threshold: float = 0.8,
    labels_per_class: int | None = None,
    num_classes: int | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    truth: Any = None,
    progress: Callable[[Stage], None] | None = None,
) -> SelfTraining:
    """Train a GNN in stages, each with the nodes that the one before was sure of.

    In every stage the GNN is trained anew with the same seed, its confidence is calibrated on the
    validation nodes, and each node whose calibrated confidence exceeds ``threshold`` enters the
    training nodes under its predicted class, for good. Nodes of the split's validation and test
    parts are never given a pseudo-label. A stage that adds nothing is the last: the next one would
    repeat it.

    Parameters
    ----------
    x : array or sparse matrix [n, d]
        Node features.
    graph
        A `Graph`, or anything `as_graph` reads.
    y : array [n]
        Labels. Only those of ``split.train`` and ``split.val`` are read.
    split
        Training, validation and test nodes. Nodes in no part are the ones to be labelled.
    backbone
        Name of a backbone ("gcn", "gat", "sage", "gin", "mlp"), or a function
        ``train(y, split, seed) -> logits`` for a GNN of your own; ``y`` is -1 wherever a label may
        not be used, and ``split.train`` includes the pseudo-labelled nodes.
    calibrator
        Name of a calibrator, an unfitted calibrator, or None for plain softmax confidence.
    stages
        At most so many stages.
    threshold
        Confidence above which a node is labelled, in (0, 1).
    labels_per_class
        Use only the first so many training nodes of each class, to study a lower label rate.
    num_classes
        Needed only if the highest class has no training or validation node.
    settings
        Of the backbone; `models.Settings` by default.
    seed
        Of the backbone's weights and dropout.
    truth : array [n], optional
        True labels of all nodes. They are used for nothing but the record: how many pseudo-labels
        were right, and the test accuracy.
    progress
        Called with the record of every stage.

    Examples
    --------
    >>> from simi_mailbox.data import Split
    >>> y = np.repeat([0, 1], 30)
    >>> x = np.eye(2)[y] + np.random.default_rng(0).normal(0, 0.8, (60, 2))
    >>> split = Split([0, 1, 30, 31], [*range(2, 12), *range(32, 42)], [12, 13, 42, 43])
    >>> edges = np.stack([np.arange(60), np.roll(np.arange(60), 1)])
    >>> result = self_train(x, edges, y, split, calibrator="temperature", stages=2, truth=y)
    >>> result.stages[0].train_nodes, result.stages[1].train_nodes > 4
    (4, True)
    """
    _check(stages, threshold)
    n = int(x.shape[0]) if x is not None else len(y)
    split.check(n)
    neighbourhoods = as_graph(graph, n)
    labels, split, classes = _readable(y, split, n, num_classes, labels_per_class)
    if isinstance(backbone, str):
        train = _backbone(backbone, x, neighbourhoods, classes, settings)
    else:
        train = backbone
    free = np.ones(n, dtype=np.bool_)
    for part in (split.train, split.val, split.test):
        free[part] = False
    if not free.any():
        raise ValueError(
            "no node is left to be labelled: every node is in the training, validation or test "
            "part of the split; leave some nodes in no part"
        )
    known = None if truth is None else np.asarray(truth)
    pseudo = np.full(n, NO_LABEL, dtype=np.int64)
    records: list[Stage] = []
    for number in range(1, stages + 1):
        nodes = Split(
            np.concatenate([split.train, np.flatnonzero(pseudo >= 0)]), split.val, split.test
        )
        logits = _logits(train(np.where(pseudo >= 0, pseudo, labels), nodes, seed), n)
        probs = _calibrated(calibrator, logits, labels, split.val, neighbourhoods, x)
        guess = probs.argmax(axis=1)
        added = np.flatnonzero(free & (probs.max(axis=1) > threshold))
        if number == stages:
            added = added[:0]  # nothing is trained after the last stage
        free[added] = False
        pseudo[added] = guess[added]
        records.append(_record(number, nodes, logits, labels, added, pseudo[added], known))
        if progress is not None:
            progress(records[-1])
        if not added.size:
            break
    return SelfTraining(tuple(records), logits, probs, pseudo)


def _check(stages: int, threshold: float) -> None:
    if stages < 1:
        raise ValueError(f"stages must be at least 1, got {stages}")
    if not 0.0 < threshold < 1.0:
        raise ValueError(
            f"threshold is a confidence and must lie strictly between 0 and 1, got {threshold}"
        )


def _readable(
    y: Any, split: Split, n: int, num_classes: int | None, per_class: int | None
) -> tuple[IntArray, Split, int]:
    """Labels with everything but training and validation nodes blanked out, once and for all."""
    given = np.asarray(y)
    if given.shape != (n,):
        raise ValueError(
            f"labels have shape {list(given.shape)}, expected one for each of {n} nodes"
        )
    labels = np.full(n, NO_LABEL, dtype=np.int64)
    for part in (split.train, split.val):
        labels[part] = given[part]
    used = labels[np.concatenate([split.train, split.val])]
    classes = int(used.max()) + 1 if num_classes is None else num_classes
    if used.min() < 0 or used.max() >= classes:
        raise ValueError(
            f"labels of training and validation nodes range over {used.min()}..{used.max()}; "
            f"expected 0..{classes - 1}"
        )
    if per_class is not None:
        split = Split(first_per_class(labels, split.train, per_class), split.val, split.test)
        kept = np.zeros(n, dtype=np.bool_)
        kept[split.train] = kept[split.val] = True
        labels[~kept] = NO_LABEL
    return labels, split, classes


def first_per_class(y: Any, nodes: Any, per_class: int) -> IntArray:
    """First ``per_class`` nodes of every class that occurs among ``nodes``.

    Examples
    --------
    >>> first_per_class([0, 1, 0, 1, 0], [0, 1, 2, 3, 4], per_class=2).tolist()
    [0, 1, 2, 3]
    """
    if per_class < 1:
        raise ValueError(f"labels_per_class must be at least 1, got {per_class}")
    index = np.asarray(nodes, dtype=np.int64)
    labels = np.asarray(y)[index]
    chosen = []
    for label in np.unique(labels):
        members = index[labels == label]
        if members.size < per_class:
            raise ValueError(
                f"labels_per_class={per_class}, but class {label} has only {members.size} labelled "
                "training nodes; ask for fewer or label more nodes"
            )
        chosen.append(members[:per_class])
    return np.sort(np.concatenate(chosen))


def _backbone(
    name: str, x: Any, graph: Graph, num_classes: int, settings: Settings | None
) -> Trainer:
    from simi_mailbox.models.training import train

    def fit(y: IntArray, split: Split, seed: int) -> Any:
        # Where there is no label a class is needed to fill the array; training never reads it.
        filled = np.where(y >= 0, y, 0)
        dataset = NodeDataset("self-training", graph, x, filled, num_classes)
        return train(dataset, split, name, seed=seed, settings=settings or Settings()).logits

    return fit


def _logits(given: Any, n: int) -> Floats:
    logits = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    if logits.ndim != 2 or logits.shape[0] != n:
        raise ValueError(
            f"the trainer must return logits of shape [{n}, classes], got {list(logits.shape)}"
        )
    return logits


def _calibrated(
    calibrator: str | Calibrator | None,
    logits: Floats,
    y: IntArray,
    val: IntArray,
    graph: Graph,
    x: Any,
) -> Floats:
    if calibrator is None:
        calibrator = "uncalibrated"
    if isinstance(calibrator, str):
        fresh: Calibrator = calibrators.get(calibrator)()
    else:
        fresh = copy.copy(calibrator)  # each stage has its own fit; the caller's stays unfitted
    inputs = {"graph": graph, "features": x} if "features" in fresh.needs else {"graph": graph}
    fresh.fit(logits, y, mask=val, **inputs)
    return np.asarray(fresh.predict_proba(logits, **inputs))


def _record(
    number: int,
    nodes: Split,
    logits: Floats,
    y: IntArray,
    added: IntArray,
    labels: IntArray,
    truth: Any,
) -> Stage:
    predicted = logits.argmax(axis=1)
    right = test = None
    if truth is not None:
        right = int((labels == truth[added]).sum())
        test = float((predicted[nodes.test] == truth[nodes.test]).mean())
    val = float((predicted[nodes.val] == y[nodes.val]).mean())
    return Stage(number, nodes.train.size, val, added, labels, right, test)
