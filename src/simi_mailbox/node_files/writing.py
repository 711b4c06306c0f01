"""Results as files: every node with its id, its predicted class and its confidence."""

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
    if path.suffix.lower() == ".npy":
        with whole_file(path) as unfinished:
            np.save(unfinished, probs)
        return
    named = zip(_names(probs, nodes), probs.T, strict=True)
    columns = {f"p_{name}": np.ascontiguousarray(column) for name, column in named}
    _write(path, probs, nodes, columns, {"probabilities": probs})


def write_decisions(path: Path, probs: Array, nodes: Nodes, sets: Array, accepted: Array) -> None:
    """Write what was decided for every node; the file appears whole or not at all.

    Besides id, predicted class and confidence: whether the prediction is accepted or handed over,
    the classes of its set in words, how many they are, and 1 or 0 for every class.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "decisions.csv")
    ...     probs, yes = np.array([[0.75, 0.25]]), np.array([True])
    ...     nodes = Nodes(1, np.array(["a"]), classes=("cat", "dog"))
    ...     write_decisions(file, probs, nodes, np.array([[True, True]]), yes)
    ...     print(file.read_text())
    id,predicted,confidence,decision,set,set_size,in_cat,in_dog
    a,cat,0.75,accept,cat | dog,2,1,1
    <BLANKLINE>
    """
    check_decisions(path)
    names = np.array(_names(probs, nodes), dtype=object)
    columns = {
        "decision": np.where(accepted, "accept", "hand over"),
        "set": np.array([" | ".join(names[held]) for held in sets]),
        "set_size": sets.sum(axis=1),
    }
    whole = sets.astype(np.int8)
    columns |= {f"in_{name}": np.ascontiguousarray(whole[:, k]) for k, name in enumerate(names)}
    _write(path, probs, nodes, columns, {"accepted": accepted, "sets": sets})


def check_decisions(path: Path) -> None:
    """Refuse, before any work, a file that cannot hold decisions.

    Examples
    --------
    >>> check_decisions(Path("decisions.npy"))
    Traceback (most recent call last):
    ValueError: decisions.npy: one array cannot hold sets and acceptance; use .npz
    """
    check_ending(path)
    if path.suffix.lower() == ".npy":
        raise ValueError(f"{path}: one array cannot hold sets and acceptance; use .npz")


def _write(
    path: Path, probs: Array, nodes: Nodes, columns: dict[str, Array], arrays: dict[str, Array]
) -> None:
    """Id, predicted class and confidence of every node, and what else there is to say."""
    predicted, confidence = _predicted(probs, nodes)
    told = {"predicted": predicted, "confidence": confidence}
    columns = {nodes.id_name: nodes.shown(), **told, **columns}
    ending = path.suffix.lower()
    with whole_file(path) as unfinished:
        if ending == ".npz":
            known: dict[str, Any] = {"ids": nodes.shown(), **told, **arrays}
            np.savez(unfinished, **known, classes=np.array(_names(probs, nodes)))
        elif ending == ".parquet":
            arrow = require("pyarrow", extra="files")
            parquet = require("pyarrow.parquet", extra="files")
            parquet.write_table(arrow.table(columns), unfinished)
        else:
            _write_text(unfinished, columns, "\t" if ending == ".tsv" else ",")


def _names(probs: Array, nodes: Nodes) -> tuple[str, ...]:
    return nodes.classes or tuple(str(k) for k in range(probs.shape[1]))


def _predicted(probs: Array, nodes: Nodes) -> tuple[Array, Array]:
    winner = probs.argmax(axis=1)
    named = winner if nodes.classes is None else np.array(nodes.classes)[winner]
    return named, probs[np.arange(len(probs)), winner]


def _write_text(path: Path, columns: dict[str, Array], mark: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=mark, lineterminator="\n")
        writer.writerow(columns)
        # Python's floats: the shortest text that reads back as the same number.
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
