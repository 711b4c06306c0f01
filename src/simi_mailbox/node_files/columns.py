"""What a file of nodes holds: named columns or named arrays, and the names that are understood."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simi_mailbox._arrays import Array, Floats
from simi_mailbox.exceptions import FileFormatError

NAMES: dict[str, tuple[str, ...]] = {
    "logits": ("logits",),
    "probabilities": ("probabilities", "probs", "prob"),
    "edges": ("edges", "edge_index"),
    "labels": ("labels", "y"),
    "calibration": ("calibration", "val", "val_mask", "mask"),
    "test": ("test", "test_mask"),
    "train": ("train", "train_mask"),
    "features": ("features", "x"),
    "hidden": ("hidden",),
    "classes": ("classes", "class_names"),
}
"""What each part may be called; other parts have one name only."""
ID_NAMES = ("id", "ids", "nid", "node", "node_id", "nodeid")  # columns that name nodes
PANDAS_INDEX = "__index_level_0__"
"""What pandas calls an index without a name; it names nodes if nothing else does."""
LABEL_NAMES = (*NAMES["labels"], "label", "class", "target")
EDGE_NAMES = (
    ("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("head", "tail"),
    ("node1", "node2"), ("id1", "id2"),
)  # fmt: skip
PREFIXES = {
    "logits": ("logit_", "logits_", "score_", "z_"),
    "probabilities": ("p_", "prob_", "proba_"),
}
"""How names of columns of class scores may begin."""
CALLED = {*ID_NAMES, *chain(*EDGE_NAMES)}  # columns whose cells are what nodes are called
WRITTEN = ("predicted", "confidence")  # columns of files that are written here
SETS = ("calibration", "test", "train")
NOT_SCORES = {*LABEL_NAMES, *WRITTEN, "split", "name", PANDAS_INDEX}
NOT_SCORES |= {*chain(*(NAMES[part] for part in SETS))}
"""Columns that stand beside scores of classes."""
KNOWN = {*CALLED, *NOT_SCORES, *chain(*NAMES.values()), "adj_t"}
"""All names that are understood."""
_MASKED, _BEYOND, _SAMPLE = -1e4, 20.0, 10_000
"""Logits below the first rule a class out; those of a class that lie so many times above all others
are something else; nodes that are looked at."""
_LIKE_AN_ID = re.compile(r"(^|[^A-Za-z])(id|uid|uuid|guid)s?$|[a-z](Id|ID)s?$", re.ASCII)


@dataclass(frozen=True)
class Columns:
    """A table of Arrow arrays; of text files all but numbers with fractions stay text.

    ``names`` are ``""`` where there is no header, ``decimal`` separates fractions in text, and
    ``first_row`` is where the first cells stand in the file, counted from 1.
    """

    path: Path
    names: tuple[str, ...]
    values: tuple[Any, ...]
    decimal: str = "."
    first_row: int = 1

    @property
    def rows(self) -> int:
        return len(self.values[0])

    @property
    def has_header(self) -> bool:
        return any(self.names)

    def title(self, position: int) -> str:
        """What a message calls a column."""
        return self.names[position] or str(position + 1)

    def find(self, names: Iterable[str]) -> int | None:
        """Position of the column that has one of the names; two such columns are refused."""
        return _only(self.names, names, self.path)

    def numbers(self, position: int) -> Floats:
        """A column as float64, NaN where a cell is empty."""
        column, title = self.values[position], self.title(position)
        if pa.types.is_string(column.type):
            if self.decimal != ".":
                column = pc.replace_substring(column, self.decimal, ".")
            column = pc.if_else(pc.equal(column, ""), None, column)
        elif not is_numeric(column.type):
            raise FileFormatError(f"{self.path}: column {title} holds {column.type}, not numbers")
        try:
            return np.asarray(column.cast(pa.float64()))
        except pa.ArrowInvalid:
            cells = pc.fill_null(column, "").to_pylist()
        wrong = [row for row, cell in enumerate(cells) if cell and not is_number(cell)]
        more = f" (nor are {len(wrong) - 1:,} more)" if len(wrong) > 1 else ""
        raise FileFormatError(
            f"{self.path}: row {self.first_row + wrong[0]}, column {title}: {cells[wrong[0]]!r} is "
            f"not a number{more}; if the column names nodes, say --id-column {title}; decimal "
            "commas need cells that are separated by semicolons"
        )

    def measures(self, position: int) -> bool:
        """Whether a column holds numbers with fractions, which no label, mask or id is."""
        try:
            return bool((np.nan_to_num(self.numbers(position)) % 1 != 0).any())
        except FileFormatError:
            return False


Contents = Columns | dict[str, Any]


def _only(names: Sequence[str], wanted: Iterable[str], path: Path) -> int | None:
    lower = {name.lower() for name in wanted}
    found = [k for k, name in enumerate(names) if name.lower() in lower]
    if len(found) > 1:
        raise FileFormatError(
            f"{path}: it has both a column {names[found[0]]!r} and {names[found[1]]!r}: keep one "
            "of them"
        )
    return found[0] if found else None


def id_column(names: Sequence[str], path: Path, more: Iterable[str] = ()) -> int | None:
    """The column that names nodes: of `ID_NAMES` or ``more``; pandas' index; a first like an id."""
    found = _only(names, (*ID_NAMES, *more), path)
    if found is None and PANDAS_INDEX in names:
        return list(names).index(PANDAS_INDEX)
    return 0 if found is None and names and like_an_id(names[0]) else found


def like_an_id(name: str) -> bool:
    """Whether a column is called like ids: ``account_id``, ``userId``, ``UUID``."""
    return _LIKE_AN_ID.search(name) is not None or name.lower() in ("uid", "uuid", "guid")


def edge_columns(names: Sequence[str]) -> tuple[int, int] | None:
    """The two columns of an edge by their names, or the only two; pandas' index is none."""
    lower = [name.lower() for name in names]
    for first, second in EDGE_NAMES:
        if first in lower and second in lower:
            return lower.index(first), lower.index(second)
    others = [k for k, name in enumerate(lower) if name != PANDAS_INDEX]
    return (others[0], others[1]) if len(others) == 2 else None


def as_text(given: Any) -> Any:
    """Names as an Arrow array of text, "" where there is none; whole numbers lose their ``.0``."""
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    elif not isinstance(given, pa.Array):
        given = np.asarray(given)
        given = pa.array(given.astype(np.float64) if given.dtype.kind == "f" else given)
    if pa.types.is_floating(given.type):
        given = pc.if_else(pc.is_nan(given), None, given)
        with suppress(pa.ArrowInvalid):  # they have fractions
            given = given.cast(pa.int64())
    text = pc.fill_null(given.cast(pa.string()), "")
    if not pc.all(pc.or_(pc.equal(text, ""), pc.ends_with(text, ".0"))).as_py():
        return text
    kept = pc.or_(pc.equal(text, ""), pc.match_substring_regex(text, r"^[+-]?\d+\.0$"))
    return pc.replace_substring_regex(text, r"\.0$", "") if pc.all(kept).as_py() else text


def matrix(cells: Any, where: object) -> Array:
    """A column of lists as [rows, width]."""
    width = len(cells[0]) if len(cells) and cells[0].is_valid else 0
    same = pc.all(pc.equal(pc.list_value_length(cells), width), skip_nulls=False).as_py()
    flat = np.asarray(cells.flatten().to_numpy(zero_copy_only=False))
    if not same or not width or flat.dtype.kind not in "fiu":
        raise FileFormatError(f"{where}: its lists are not numbers of one length")
    return flat.reshape(len(cells), width)


def is_numeric(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# --- scores of classes ----------------------------------------------------------------------------


def score_columns(
    names: Sequence[str],
    position: int | None,
    measures: Callable[[int], bool],
    kind: str | None = None,
) -> tuple[list[int], list[int]]:
    """Columns that may be scores of classes, and those that are for certain, by their `PREFIXES`.

    A class may be called like something else if its column ``measures``: has fractions.
    """
    chosen = [
        k
        for k, name in enumerate(names)
        if k != position
        and (name.lower() not in NOT_SCORES or (name not in WRITTEN and measures(k)))
    ]
    prefixes = PREFIXES[kind] if kind else tuple(chain(*PREFIXES.values()))
    return chosen, [k for k in chosen if names[k].lower().startswith(prefixes)]


def refuse_others(names: Sequence[str], array: Array, path: Path) -> None:
    """Raise for columns that are no scores of a class; one constant for all nodes may be one."""
    some = array[:: max(1, len(array) // _SAMPLE)].T
    columns = [column[np.isfinite(column) & (column > _MASKED)] for column in some]
    columns = [column if column.size else np.zeros(1) for column in columns]
    varied = [np.ptp(column) > 0 for column in columns]
    whole = [(column % 1 == 0).all() for column in columns]
    usual = [np.median(column) for column in columns]
    size = np.array([np.median(np.abs(column)) for column in columns])
    told = []
    for k, name in enumerate(names):
        if like_an_id(name):
            told.append(f"column {name!r} is called like an id")
        elif varied[k] and whole[k] and not all(whole):
            told.append(f"column {name!r} holds whole numbers, the others fractions")
        elif varied[k] and usual[k] > _BEYOND * max(1.0, np.delete(size, k).max(initial=0.0)):
            told.append(f"column {name!r} is about {usual[k]:.4g}, far above the others")
    if told:
        prefix = PREFIXES["logits"][0]
        raise FileFormatError(
            f"{path}: {'; '.join(told)}: is it no score of a class? then take it out, or say "
            f"--id-column if it names the nodes; else call the columns of all classes {prefix}…"
        )


def value_columns(
    table: Columns, kind: str, position: int | None
) -> tuple[Array, tuple[str, ...] | None, int | None]:
    """Columns of logits or probabilities, the classes they name, and the column of ids."""
    lists = {k for k, column in enumerate(table.values) if is_list(column.type)}
    named = table.find(NAMES[kind])
    if named is not None and named in lists:
        where = f"{table.path}, column {table.title(named)}"
        return matrix(table.values[named], where).astype(np.float64), None, position
    chosen, prefixed = score_columns(table.names, position, table.measures, kind)
    chosen = [k for k in chosen if k not in lists]
    if kind == "logits" and not prefixed and set(WRITTEN) <= set(table.names):
        raise ValueError(
            f"{table.path}: it holds probabilities as they are written here (columns p_…), not "
            "logits: say --input-type probabilities"
        )
    if prefixed and position is None and len(chosen) == len(prefixed) + 1:
        position = next(k for k in chosen if k not in prefixed)
    chosen = prefixed or chosen
    if position is None and chosen[:1] == [0] and len(chosen) > 1:
        position = _maybe_ids(table)
        chosen = [k for k in chosen if k != position]
    if not chosen:
        raise FileFormatError(f"{table.path}: it has no columns of {kind}")
    names = tuple(table.names[k] for k in chosen)
    array = np.stack([table.numbers(k) for k in chosen])
    if prefixed:
        names = tuple(name.split("_", 1)[1] for name in names)
    elif table.has_header:
        refuse_others(names, array.T, table.path)
    numbered = names == tuple(map(str, range(len(names)))) or not table.has_header
    return array.T, None if numbered else names, position


def _maybe_ids(table: Columns) -> int | None:
    """A first column of words names the nodes; one of whole numbers might, and is asked about."""
    first = as_text(table.values[0])
    if not all(is_number(cell) for cell in first.unique().to_pylist() if cell):
        return 0
    counts = len(table.values) > 2 and all(map(table.measures, range(1, len(table.values))))
    if counts and not table.measures(0) and len(first.unique()) == len(first) > 1:
        raise ValueError(
            f"{table.path}: its first column holds different whole numbers, the others do not: if "
            f"it names the nodes, say --id-column {table.title(0)}, or give the file a header "
            "(id, …)"
        )
    return None
