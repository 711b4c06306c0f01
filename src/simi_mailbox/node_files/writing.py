"""Probabilities as files: every node with its id, its predicted class and its confidence."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox._extras import require
from simi_mailbox.files import whole_file
from simi_mailbox.node_files.nodes import Nodes

WRITES = (".csv", ".tsv", ".npy", ".npz", ".parquet")
"""Endings of files that can be written."""


def check_ending(path: Path) -> None:
    """Refuse, before any work, a file whose ending says no format that can be written.

    Examples
    --------
    >>> check_ending(Path("probs.xlsx"))
    Traceback (most recent call last):
    ValueError: probs.xlsx: files that end in '.xlsx' cannot be written; use one of .csv, ...
    """
    if path.suffix.lower() not in WRITES:
        raise ValueError(
            f"{path}: files that end in {path.suffix or 'nothing'!r} cannot be written; "
            f"use one of {', '.join(WRITES)}"
        )
    if path.suffix.lower() == ".parquet":
        require("pyarrow", extra="files")


def write_probabilities(path: Path, probs: Array, nodes: Nodes) -> None:
    """Write probabilities [n, K]; the file appears whole or not at all.

    ``.npy`` holds the probabilities alone. The others have, for every node, its id as it was given,
    the predicted class by its name, its probability, and the probability of every class.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "probs.csv")
    ...     probs = np.array([[0.75, 0.25]])
    ...     write_probabilities(file, probs, Nodes(1, np.array(["a"]), classes=("cat", "dog")))
    ...     print(file.read_text())
    id,predicted,confidence,p_cat,p_dog
    a,cat,0.75,0.75,0.25
    <BLANKLINE>
    """
    check_ending(path)
    ending = path.suffix.lower()
    with whole_file(path) as unfinished:
        if ending == ".npy":
            np.save(unfinished, probs)
        elif ending == ".npz":
            np.savez(unfinished, **_arrays(probs, nodes))
        elif ending == ".parquet":
            arrow = require("pyarrow", extra="files")
            parquet = require("pyarrow.parquet", extra="files")
            parquet.write_table(arrow.table(_columns(probs, nodes)), unfinished)
        else:
            _write_text(unfinished, probs, nodes, "\t" if ending == ".tsv" else ",")


def _names(probs: Array, nodes: Nodes) -> tuple[str, ...]:
    return nodes.classes or tuple(str(k) for k in range(probs.shape[1]))


def _predicted(probs: Array, nodes: Nodes) -> tuple[Array, Array]:
    winner = probs.argmax(axis=1)
    named = winner if nodes.classes is None else np.array(nodes.classes)[winner]
    return named, probs[np.arange(len(probs)), winner]


def _arrays(probs: Array, nodes: Nodes) -> dict[str, Any]:
    predicted, confidence = _predicted(probs, nodes)
    return {
        "ids": nodes.shown(),
        "predicted": predicted,
        "confidence": confidence,
        "probabilities": probs,
        "classes": np.array(_names(probs, nodes)),
    }


def _columns(probs: Array, nodes: Nodes) -> dict[str, Any]:
    predicted, confidence = _predicted(probs, nodes)
    columns = {nodes.id_name: nodes.shown(), "predicted": predicted, "confidence": confidence}
    named = zip(_names(probs, nodes), probs.T, strict=True)
    return columns | {f"p_{name}": np.ascontiguousarray(column) for name, column in named}


def _write_text(path: Path, probs: Array, nodes: Nodes, mark: str) -> None:
    columns = _columns(probs, nodes)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=mark, lineterminator="\n")
        writer.writerow(columns)
        # Python's floats: the shortest text that reads back as the same number.
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
