"""What a report is made from, validated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.graph import as_graph
from simi_mailbox.plain_text import plain
from simi_mailbox.validation import NO_LABEL, NodeInputs, read_classes, read_index, read_logits


@dataclass(frozen=True, kw_only=True)
class ReportInputs(NodeInputs):
    """Checked input: logits and graph of all nodes, and what follows; None if it was not given.

    Attributes
    ----------
    calibration, test, train : int64 arrays or None
        Node numbers.
    test_labels : int64 array or None
        Labels of just those nodes.
    labels : int64 [n] or None
        Labels that methods may be fitted with: of calibration and training nodes, −1 elsewhere.
    class_names : tuple of str

    Examples
    --------
    >>> inputs = read_inputs([[2.0, 0.0], [0.0, 1.0]], y=[0, 1], test=[1])
    >>> inputs.test_labels.tolist(), inputs.class_names
    ([1], ('0', '1'))
    """

    calibration: Ints | None
    test: Ints | None
    test_labels: Ints | None
    train: Ints | None
    labels: Ints | None
    class_names: tuple[str, ...]

    @property
    def labelled(self) -> Ints | None:
        """Nodes that distances are measured to: training nodes, or else calibration nodes."""
        return self.calibration if self.train is None else self.train

    @property
    def shown(self) -> Ints:
        """Nodes that the pictures are about: test nodes, or all if none were named."""
        return np.arange(self.num_nodes, dtype=np.int64) if self.test is None else self.test


def read_inputs(
    logits: Any,
    graph: Any = None,
    y: Any = None,
    calibration: Any = None,
    test: Any = None,
    train: Any = None,
    class_names: Sequence[str] | None = None,
) -> ReportInputs:
    """Check what a report is made from.

    Raises
    ------
    ValueError, TypeError
        If something has the wrong shape, or if a node is in two of the three sets.

    Examples
    --------
    >>> read_inputs([[2.0, 0.0], [0.0, 1.0]], y=[0, 1], calibration=[0], test=[1]).shown.tolist()
    [1]
    """
    z = read_logits(logits)
    n, k = int(z.shape[0]), int(z.shape[1])
    nobody = np.empty(0, dtype=np.int64)
    given = {"calibration": calibration, "train": train, "test": test}
    nodes = {
        name: nobody if index is None else read_index(index, n, name)
        for name, index in given.items()
    }
    for name, other in (("calibration", "test"), ("train", "test"), ("calibration", "train")):
        both = np.intersect1d(nodes[name], nodes[other])
        if both.size:
            raise ValueError(
                f"{both.size} nodes are both in {name} and in {other} (node {both[0]} is the "
                "first); a model looks better than it is on nodes it was fitted to: take them out "
                "of one of the two"
            )
    labels, test_labels = None, None
    if y is not None:
        # The shape of labels is checked even if nobody's is read.
        read = {name: read_classes(y, index, n, k, of=name) for name, index in nodes.items()}
        labels, test_labels = np.full(n, NO_LABEL, dtype=np.int64), read.pop("test")
        for name, classes in read.items():
            labels[nodes[name]] = classes
    return ReportInputs(
        logits=z,
        graph=None if graph is None else as_graph(graph, n),
        calibration=None if calibration is None else nodes["calibration"],
        test=None if test is None else nodes["test"],
        test_labels=None if test is None else test_labels,
        train=None if train is None else nodes["train"],
        labels=labels,
        class_names=_class_names(class_names, k),
    )


def _class_names(given: Sequence[str] | None, k: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(c) for c in range(k))
    if isinstance(given, str) or len(given) != k:
        raise ValueError(f"class_names must hold {k} names, got {given!r:.80}")
    return tuple(plain(str(name)) for name in given)
