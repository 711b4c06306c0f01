"""One self-contained HTML file: how well a model is calibrated, and where it is not."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.files import whole_file
from simi_mailbox.plain_text import plain
from simi_mailbox.report.content import gather
from simi_mailbox.report.methods import Methods, read_inputs

__all__ = ["write_report"]

DEFAULT_METHODS = ("temperature", "simi-mailbox")


def write_report(
    path: str | os.PathLike[str],
    *,
    logits: Any,
    graph: Any = None,
    y: Any = None,
    calibration: Any = None,
    test: Any = None,
    train: Any = None,
    methods: Methods = DEFAULT_METHODS,
    title: str = "Node classifier",
    class_names: Sequence[str] | None = None,
    used_for_selection: bool = True,
    seed: int = 0,
    positive: int | str | None = None,
    costs: tuple[float, float] | None = None,
    node_names: Any = None,
) -> Path:
    """Write a report of a model before and after calibration, and return its path.

    The file loads nothing, sends nothing, and appears whole or not at all. What methods warned of
    stands at its top, and is warned of.

    Parameters
    ----------
    path, logits, graph
        The file to write; logits [n, K] of all nodes; anything that `as_graph` reads.
    y : array [n], optional
        Labels. Only those of ``calibration``, ``test`` and ``train`` are read.
    calibration, test, train : array, optional
        Nodes to calibrate with, to judge on, and that the model was trained on: boolean [n] or
        indices. They must not share a node.
    methods : sequence or mapping
        Names of calibrators, calibrators (fitted ones are used as they are), or a mapping from
        names to calibrators or probabilities [n, K]. The last one is opened first.
    title, class_names, node_names : str, sequence of str, sequence
        Names of the model or dataset, of the classes, and of the nodes (for tables of nodes).
    used_for_selection, seed : bool, int
        Whether calibration nodes had a part in choosing the model; seed of intervals and floor.
    positive, costs : int or str, (float, float), optional
        The class that is acted on, by its number or name: the report then begins with it; the costs
        of a missed node of it, and of a review.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/report.html", logits=[[2.0, 1.0]], methods=[]).name
    'report.html'
    """
    from simi_mailbox.report.render import render

    inputs = read_inputs(logits, graph, y, calibration, test, train, class_names)
    if costs is not None and not (len(costs) == 2 and min(costs) > 0):
        raise ValueError(f"costs are of a miss and of a review, two positive numbers; got {costs}")
    content = gather(
        inputs,
        methods,
        title=plain(str(title)),
        seed=seed,
        used_for_selection=used_for_selection,
        positive=positive,
        costs=costs,
        node_names=node_names,
    )
    page = render(content)
    with whole_file(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    for line in content.warnings:
        warnings.warn(line, CalibrationWarning, stacklevel=2)
    return Path(path)
