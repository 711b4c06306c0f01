"""The stages of self-training: train, calibrate, label, and again."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.validation import NO_LABEL
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.datasets.split import Split
from simi_mailbox_bench.self_training.models import Trainer, calibrated, trainer, unfitted
from simi_mailbox_bench.self_training.problem import Problem, read_problem
from simi_mailbox_bench.self_training.record import SelfTraining, Stage


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
    keep: Literal["last", "best"] = "last",
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
        Name of a calibrator, an unfitted calibrator, or None for plain softmax confidence. One
        that needs features is given ``x``; one that runs the GNN again with other edge weights
        ("dcgc") works with the backbones that take them, "gcn" and "sage".
    stages
        At most so many stages.
    keep : {"last", "best"}
        Whose logits and probabilities to return: those of the last stage (the published protocol),
        or of the first stage with the highest accuracy on the validation nodes.
    threshold
        Confidence above which a node is labelled, in (0, 1).
    labels_per_class
        Use only the first so many training nodes of each class, to study a lower label rate. A
        class that has fewer is an error.
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

    Warns
    -----
    CalibrationWarning
        If a class gets no pseudo-label in the first stage, or if the validation accuracy of the
        stage that is kept is below that of the first by more than a standard error.

    Examples
    --------
    >>> from simi_mailbox_bench.datasets import Split
    >>> y = np.repeat([0, 1], 30)
    >>> x = np.eye(2)[y] + np.random.default_rng(0).normal(0, 0.8, (60, 2))
    >>> split = Split([0, 1, 30, 31], [*range(2, 12), *range(32, 42)], [12, 13, 42, 43])
    >>> edges = np.stack([np.arange(60), np.roll(np.arange(60), 1)])
    >>> result = self_train(x, edges, y, split, calibrator="temperature", stages=2, truth=y)
    >>> result.stages[0].train_nodes, result.stages[1].train_nodes > 4
    (4, True)
    """
    _check(stages, threshold, keep)
    problem = read_problem(x, graph, y, split, num_classes, labels_per_class, truth)
    free = _free(problem)
    train = trainer(backbone, problem, settings)
    method = unfitted(calibrator, backbone, problem)
    pseudo = np.full(problem.num_nodes, NO_LABEL, dtype=np.int64)
    records: list[Stage] = []
    for number in range(1, stages + 1):
        nodes = Split(
            np.concatenate([problem.split.train, np.flatnonzero(pseudo >= 0)]),
            problem.split.val,
            problem.split.test,
        )
        trained = train(np.where(pseudo >= 0, pseudo, problem.y), nodes, seed)
        probs = calibrated(method, trained, problem)
        added = np.flatnonzero(free & (probs.max(axis=1) > threshold))
        if number == stages:
            added = added[:0]  # nothing is trained after the last stage
        elif number == 1:  # later on, the classes without a pseudo-label can only become fewer
            _warn_of_classes_left_behind(probs, added, threshold, problem)
        free[added] = False
        pseudo[added] = probs[added].argmax(axis=1)
        records.append(_record(number, nodes, trained.logits, added, pseudo[added], problem))
        best = max(stage.val_accuracy for stage in records[:-1]) if number > 1 else -1.0
        if keep == "last" or records[-1].val_accuracy > best:
            kept = number, trained.logits, probs
        if progress is not None:
            progress(records[-1])
        if not added.size:
            break
    number, logits, probs = kept
    _warn_of_harm(records[0], records[number - 1], problem.split.val.size)
    return SelfTraining(tuple(records), logits, probs, pseudo, number)


def _check(stages: int, threshold: float, keep: str) -> None:
    if not isinstance(stages, numbers.Integral):
        raise TypeError(f"stages must be a whole number, got {stages!r}")
    if stages < 1:
        raise ValueError(f"stages must be at least 1, got {stages}")
    if not isinstance(threshold, numbers.Real):
        raise TypeError(f"threshold must be a number between 0 and 1, got {threshold!r}")
    if not 0.0 < threshold < 1.0:
        raise ValueError(
            f"threshold is a confidence and must lie strictly between 0 and 1, got {threshold}"
        )
    if keep not in ("last", "best"):
        raise ValueError(f"keep must be 'last' or 'best', got {keep!r}")


def _free(problem: Problem) -> Any:
    """Mask of the nodes that may be labelled: those in no part of the split."""
    free = np.ones(problem.num_nodes, dtype=np.bool_)
    for part in (problem.split.train, problem.split.val, problem.split.test):
        free[part] = False
    if not free.any():
        raise ValueError(
            "no node is left to be labelled: every node is in the training, validation or test "
            "part of the split; leave some nodes in no part"
        )
    return free


def _record(
    number: int,
    nodes: Split,
    logits: Array,
    added: Ints,
    labels: Ints,
    problem: Problem,
) -> Stage:
    predicted = logits.argmax(axis=1)
    right = test = None
    truth = problem.truth
    if truth is not None:
        right = int((labels == truth[added]).sum())
        test = float((predicted[nodes.test] == truth[nodes.test]).mean())
    val = float((predicted[nodes.val] == problem.y[nodes.val]).mean())
    return Stage(number, nodes.train.size, val, added, labels, right, test)


def _warn_of_classes_left_behind(
    probs: Array, added: Ints, threshold: float, problem: Problem
) -> None:
    if not added.size:
        _warn(
            f"no node was labelled: none of those in no part of the split has a confidence above "
            f"threshold={threshold}; lower it, or train the GNN for longer"
        )
        return
    labelled = np.bincount(probs[added].argmax(axis=1), minlength=problem.num_classes)
    training = np.bincount(problem.y[problem.split.train], minlength=problem.num_classes)
    without = np.flatnonzero(labelled[: problem.num_classes] == 0)
    if without.size:
        named = ", ".join(f"{label} ({training[label]} training nodes)" for label in without[:5])
        _warn(
            f"{added.size} nodes were labelled in the first stage, none of them as class {named}"
            f"{', …' if without.size > 5 else ''}; the next GNN will neglect what gets no labels. "
            "Train the GNN for longer, label more nodes of these classes, or lower the threshold"
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
