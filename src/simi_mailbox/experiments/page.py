"""Pages with measured figures: marked blocks of a Markdown file, made from tables.

A block is what stands between two comments that begin a line::

    <!-- begin: matrix table1 datasets="Cora, Photo" methods="temperature as TS, gats" -->
    this is made, and lost when it is made again
    <!-- end -->

First comes the kind (one of `page_blocks.KINDS`), then the table or tables, then what is shown of
them: ``methods``, ``datasets``, ``backbones``, and how many ``runs`` of each cell (the first);
all that is measured if nothing is said. ``x as y`` shows a table or a method x under the name y. A
comment may take several lines. All other text is left alone, other comments among it, and so are
markers inside a fence (three backticks or tildes): a page can show one.
Nothing is read or written here: tables come from a function, pages are text.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from simi_mailbox.experiments import render
from simi_mailbox.experiments.page_blocks import KINDS, Shown
from simi_mailbox.experiments.tables.base import choose
from simi_mailbox.experiments.tables.result import TableResult

Results = Callable[[str, int | None], TableResult]
"""A table by its name and the runs of a cell (None: as it is); an unknown name is a ValueError."""

OPTIONS = ("methods", "datasets", "backbones", "runs")
WITHOUT = {"standings": ("methods",), "progress": OPTIONS}
"""Options that a kind does not take."""

# A marker, or what was meant as one: "begin" without its colon, but before a kind of block.
_OPENING = re.compile(
    rf"^\ufeff?[ \t]*<!--\s*(?:begin:|begin\s+(?:{'|'.join(KINDS)})\b|end\s*(?:-->|\Z))",
    re.MULTILINE,
)
_MARKER = re.compile(
    r"^\ufeff?([ \t]*)<!--\s*(?:begin:(.*?)|end)\s*-->[ \t]*(?=\r?$)", re.MULTILINE | re.DOTALL
)
# A fence ends with a line of at least as many of its characters and nothing else. One without an
# end counts as none: a forgotten line must not hide what comes after it.
_FENCE = re.compile(
    r"^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)*"  # in a quotation or an item of a list
    r"(?P<mark>`{3,}(?=[^`\n]*$)|~{3,}(?!~)).*?^[ \t>]*(?P=mark)[`~]*[ \t]*\r?$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of a page: line of its first marker, what it asks for, and where its body is."""

    line: int
    asks: str
    indent: str
    start: int
    stop: int


def find(text: str) -> list[Block]:
    r"""The blocks of a page; a marker without its partner is an error with its line number.

    Examples
    --------
    >>> (block,) = find("Title\n<!-- begin: misses nll -->\nold\n<!-- end -->\n")
    >>> block.line, block.asks
    (2, 'misses nll')
    """
    found: list[Block] = []
    begun: re.Match[str] | None = None
    fences = [fence.span() for fence in _FENCE.finditer(text)]
    for opening in _OPENING.finditer(text):
        if any(start < opening.start() < stop for start, stop in fences):
            continue
        marker = _MARKER.match(text, opening.start())
        if marker is None or "<!--" in (marker[2] or ""):
            raise ValueError(
                f"line {_line(text, opening)}: a broken marker; expected "
                "'<!-- begin: KIND TABLES … -->' or '<!-- end -->' with nothing behind it"
            )
        if marker[2] is not None:
            if begun is not None:
                raise ValueError(
                    f"line {_line(text, marker)}: a begin before the end of the block that began "
                    f"in line {_line(text, begun)}"
                )
            begun = marker
        elif begun is None:
            raise ValueError(f"line {_line(text, marker)}: an end without a begin")
        else:
            asks = " ".join(begun[2].split())
            found.append(Block(_line(text, begun), asks, begun[1], begun.end(), marker.start()))
            begun = None
    if begun is not None:
        raise ValueError(f"line {_line(text, begun)}: a begin without an end")
    return found


def fill(text: str, results: Results) -> tuple[str, list[Block]]:
    """The page with all blocks made, and those that were not in it as they are made now.

    Raises
    ------
    ValueError
        A broken marker, or a block that asks for what there is not; names the line.
    """
    parts: list[str] = []
    stale: list[Block] = []
    done = 0
    for block in find(text):
        try:
            made = "\n".join(make(block.asks, results))
        except ValueError as error:
            raise ValueError(f"line {block.line}: {error}") from None
        body = "\n\n" + textwrap.indent(made, block.indent) + "\n\n"
        if text.startswith("\r\n", block.start):
            body = body.replace("\n", "\r\n")
        if text[block.start : block.stop] != body:
            stale.append(block)
        parts += [text[done : block.start], body]
        done = block.stop
    return "".join([*parts, text[done:]]), stale


def make(asks: str, results: Results) -> list[str]:
    """The lines of Markdown that a block asks for."""
    kind, *words = shlex.split(asks) or [""]
    if kind not in KINDS:
        raise ValueError(f"unknown kind of block {kind!r}; choices: {', '.join(KINDS)}")
    given = [word.split("=", 1) for word in words if "=" in word]
    _once(name for name, _ in given)
    options = dict(given)
    known = [name for name in OPTIONS if name not in WITHOUT.get(kind, ())]
    for name in options:
        if name not in known:
            choices = ", ".join(known) or "none"
            raise ValueError(f"unknown option {name!r} of {kind}; choices: {choices}")
    tables = _named(",".join(word for word in words if "=" not in word))
    one = kind in ("matrix", "overview")
    if not tables or (one and len(tables) > 1):
        got = ", ".join(tables) or "none"
        raise ValueError(f"{kind} shows {'one table' if one else 'tables'}, got {got}")
    if kind == "progress":  # what was never measured is part of the answer
        return KINDS[kind](
            [Shown(title, results(name, None), {}) for name, title in tables.items()]
        )
    runs = _runs(options.get("runs"))
    shown = [_shown(results(name, runs), title, options) for name, title in tables.items()]
    return KINDS[kind](shown)


def _shown(result: TableResult, title: str, options: Mapping[str, str]) -> Shown:
    """The part of a table that is asked for; to ask for what was never measured is an error."""
    part = result.measured()
    if not part.lines:
        raise ValueError(
            f"table {result.name!r} has no rows in this store; `simi-mailbox bench {result.name}` "
            "makes them, `--store` names another store"
        )
    for option in ("datasets", "backbones"):
        if option in options:
            there = [getattr(line, option[:-1]) for line in part.lines]
            asked = choose(option[:-1], _list(options[option]), tuple(dict.fromkeys(there)))
            kept = zip(part.lines, there, strict=True)
            part = replace(part, lines=tuple(line for line, name in kept if name in (asked or ())))
    names = render.titles(part)
    if "methods" in options:
        wanted = _named(options["methods"])
        spelled = choose("method", tuple(wanted), tuple(names)) or ()
        _once(spelled)
        chosen = zip(spelled, wanted.values(), strict=True)
        names = {name: called or names[name] for name, called in chosen}
    if not names:
        raise ValueError(f"nothing of table {result.name!r} is left to show")
    return Shown(title or f"`{result.name}`", part, names)


def _runs(given: str | None) -> int | None:
    if given is not None and not (given.isdecimal() and int(given) > 0):
        raise ValueError(f"runs must be a whole number above nought, got {given!r}")
    return None if given is None else int(given)


def _list(listed: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in listed.split(",") if part.strip())


def _named(listed: str) -> dict[str, str]:
    """``"a, b as c"`` as {"a": "", "b": "c"}."""
    parts = [part.partition(" as ") for part in _list(listed)]
    _once(name for name, _, _ in parts)
    return {name: called for name, _, called in parts}


def _once(names: Iterable[str]) -> None:
    """Refuse what is asked for twice: only one of the two could be shown."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{name!r} is asked for {times} times")


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
