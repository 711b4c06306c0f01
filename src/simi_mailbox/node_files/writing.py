"""Results as files: every node with its id, its predicted class and its confidence."""

import csv
import gzip
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from simi_mailbox._arrays import Array
from simi_mailbox.files import whole_file
from simi_mailbox.node_files.columns import PANDAS_INDEX
from simi_mailbox.node_files.formats import STANDARD, check_ending, ending_of
from simi_mailbox.node_files.problem import NodeNames

_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
WRITES = (*_TEXT, ".npy", ".npz", ".parquet", ".feather")


def check_writable(path: Path, *, table: bool = False) -> None:
    """Refuse, before any work, an ending that cannot be written, or cannot hold a ``table``."""
    if path == STANDARD:
        return
    check_ending(path, WRITES, "written")
    if table and ending_of(path) == ".npy":
        raise ValueError(f"{path}: one array cannot hold sets and acceptance; use .npz")


def write_probabilities(path: Path, probs: Array, nodes: NodeNames) -> None:
    """Write probabilities [n, K]: in ``.npy`` alone, else with ids and predictions."""
    check_writable(path)
    if path != STANDARD and ending_of(path) == ".npy":
        with whole_file(path) as unfinished:
            np.save(unfinished, probs)
        return
    named = zip(_names(probs, nodes), probs.T, strict=True)
    columns = {f"p_{name}": np.ascontiguousarray(column) for name, column in named}
    _write(path, probs, nodes, columns, {"probabilities": probs})


def write_decisions(
    path: Path, probs: Array, nodes: NodeNames, sets: Array, accepted: Array
) -> None:
    """Write for every node whether its prediction is accepted, and its set in three forms."""
    check_writable(path, table=True)
    names = np.array(_names(probs, nodes), dtype=object)
    columns = {
        "decision": np.where(accepted, "accept", "defer"),
        "set": np.array([" | ".join(names[held]) for held in sets]),
        "set_size": sets.sum(axis=1),
        **{f"in_{name}": held for name, held in zip(names, sets.T.astype(np.int8), strict=True)},
    }
    _write(path, probs, nodes, columns, {"accepted": accepted, "sets": sets})


def write_alerts(path: Path, probs: Array, nodes: NodeNames, positive: int, alerts: Array) -> None:
    """Write all nodes, those with the highest P(class) first: rank, id, P(class), alert or not."""
    check_writable(path, table=True)
    order = np.argsort(-probs[:, positive], kind="stable")
    ranked = replace(nodes, ids=nodes.shown()[order])
    columns = {
        "rank": np.arange(1, len(order) + 1),
        f"p_{_names(probs, nodes)[positive]}": probs[order, positive],
        "alert": alerts[order].astype(np.int8),
    }
    _write(path, probs[order], ranked, columns, columns)


def _write(
    path: Path, probs: Array, nodes: NodeNames, columns: dict[str, Array], arrays: dict[str, Array]
) -> None:
    """Id, predicted class and confidence of every node, and what else there is to say."""
    winner = probs.argmax(axis=1)
    predicted = winner if nodes.classes is None else np.array(nodes.classes)[winner]
    told = {"predicted": predicted, "confidence": probs[np.arange(len(probs)), winner]}
    # A column of ids that is called like one of the results must not be lost under it.
    taken = nodes.id_name in (*told, *columns, PANDAS_INDEX)
    table = {"id" if taken else nodes.id_name: nodes.shown(), **told, **columns}
    if path == STANDARD:
        text = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
        _write_text(text, table, ",")
        text.detach()
        return
    ending = ending_of(path)
    with whole_file(path) as unfinished:
        if ending == ".npz":
            known: dict[str, Any] = {"ids": np.array(nodes.shown().tolist()), **told, **arrays}
            np.savez(unfinished, **known, classes=np.array(_names(probs, nodes)))
        elif ending == ".parquet":
            pyarrow.parquet.write_table(pa.table(table), unfinished)
        elif ending == ".feather":
            pyarrow.feather.write_feather(pa.table(table), str(unfinished))
        else:
            opened: Any = gzip.open if ending.endswith(".gz") else open
            with opened(unfinished, "wt", encoding="utf-8", newline="") as file:
                _write_text(file, table, "\t" if ending.startswith(".tsv") else ",")


def _names(probs: Array, nodes: NodeNames) -> tuple[str, ...]:
    return nodes.classes or tuple(map(str, range(probs.shape[1])))


def _write_text(file: IO[str], columns: dict[str, Array], mark: str) -> None:
    writer = csv.writer(file, delimiter=mark, lineterminator="\n")
    writer.writerow(columns)
    # Python's floats: the shortest text that reads back as the same number.
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
