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
    """Write a report of a model before and after calibration.

    The file opens from disk, loads nothing and sends nothing. It appears whole or not at all. What
    methods complained of stands at its top, and is warned of.

    Parameters
    ----------
    path : str or path
        The file to write, such as ``report.html``.
    logits : array [n, K]
        Of all nodes.
    graph, optional
        A `Graph`, a PyG ``Data``, a DGL graph, a SciPy sparse matrix or an edge index [2, E].
    y : array [n], optional
        Labels. Only those of ``calibration``, ``test`` and ``train`` are read.
    calibration, test : array, optional
        Nodes to calibrate with and nodes to judge on: boolean [n] or indices. They must not share
        a node.
    train : array, optional
        Nodes that the model was trained on: distances are measured to them, and methods that stop
        early stop on them.
    methods : sequence or mapping
        Names of calibrators (``calibrators.names()``), calibrators, or a mapping from names to
        calibrators or probabilities [n, K]. Fitted calibrators are used as they are. The last one
        is opened first.
    title, class_names : str and sequence of str
        Names of the model or dataset, and of the classes. Characters that would command a page or
        turn the direction of writing are shown as a mark.
    used_for_selection : bool
        Whether the calibration nodes had a part in choosing the model: passed to the calibrators
        that are fitted here, and to the rules of `simi_mailbox.decide`.
    seed : int
        Seed of intervals and of the noise floor.
    positive : int or str, optional
        The class that is acted on, by its number or name: the report then begins with what is
        caught and missed of it.
    costs : (float, float), optional
        Of a missed node of that class, and of a review.
    node_names : sequence, optional
        What the nodes are called, for the table of the nodes with the highest probability.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import tempfile
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(400, 3, temperature=2.0, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_report(
    ...         f"{folder}/report.html", logits=problem.logits, graph=problem.graph, y=problem.y,
    ...         calibration=range(100), test=range(100, 400), methods=["temperature"],
    ...     )
    ...     "<title>Node classifier</title>" in file.read_text("utf-8")
    True
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
