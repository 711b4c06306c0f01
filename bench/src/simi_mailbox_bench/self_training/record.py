"""What self-training leaves behind: one record per stage, and the model that is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simi_mailbox._arrays import Array, Ints


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

    Examples
    --------
    >>> Stage(1, 20, 0.8, np.array([5, 7]), np.array([0, 1])).added.size
    2
    """

    number: int
    train_nodes: int
    val_accuracy: float
    added: Ints
    labels: Ints
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
        Of the GNN that is kept: the last stage's, or the best one's.
    probs : ndarray [n, K]
        Its calibrated probabilities (plain softmax without a calibrator).
    pseudo_labels : ndarray, int64 [n]
        Label that each node was given, -1 for nodes that were not.
    kept : int
        Number of the stage whose GNN is kept.

    Examples
    --------
    >>> stage = Stage(1, 20, 0.8, np.array([], dtype=int), np.array([], dtype=int))
    >>> logits = np.array([[2.0, 0.0]])
    >>> SelfTraining((stage,), logits, logits, np.array([-1]), kept=1).predictions
    array([0])
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
    def test_accuracy(self) -> float | None:
        """Test accuracy of the GNN that is kept, if the true labels were given."""
        return self.stages[self.kept - 1].test_accuracy

    def __str__(self) -> str:
        lines = [f"{'stage':>5} {'labels':>7} {'added':>6} {'right':>6} {'val':>6} {'test':>6}"]
        for stage in self.stages:
            right = "–" if stage.right is None else str(stage.right)
            test = "–" if stage.test_accuracy is None else f"{100 * stage.test_accuracy:.2f}"
            lines.append(
                f"{stage.number:>5} {stage.train_nodes:>7} {stage.added.size:>6} {right:>6} "
                f"{100 * stage.val_accuracy:>6.2f} {test:>6}"
            )
        if self.kept != len(self.stages):
            lines[self.kept] += "  kept"
        return "\n".join(lines)
