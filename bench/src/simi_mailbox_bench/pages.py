"""Markdown pages with measured figures: marked blocks, filled from the CSV files of `bench write`.

A block is what stands between two comments that begin a line::

    <!-- begin: overview table1 datasets="Cora, Photo" methods="temperature as TS, gats" -->
    this is made, and lost when it is made again
    <!-- end -->

First comes the kind (one of `KINDS`), then the tables, then what is shown of them: ``methods``,
``datasets``, ``backbones``; ``spread=std`` adds the standard deviation over runs to an overview.
``x as y`` shows a table or a method x under the name y; ``x/m`` is metric m of a table with
several. ``chart``, one of `charts.CHARTS`, ``name=`` and ``title=`` make the picture
``images/bench/NAME.svg`` beside the page instead.
"""

import csv
import functools
import re
import shlex
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from simi_mailbox.plain_text import unknown
from simi_mailbox_bench import charts, methods
from simi_mailbox_bench.compare import holm, pooled
from simi_mailbox_bench.render import INDEX, NOTHING, READS_TEST_LABELS, grid

Row = dict[str, str]
OPTIONS = ("methods", "datasets", "backbones", "spread")
PICTURE = ("name", "title")
"""Options of charts alone."""
DISTANCES = "deviation", "deviation_error"
SIGNIFICANT = 2
"""Standard errors beyond which a cell differs from print."""
SLACK = 0.7
"""By so much a mean over runs may miss a target by chance, in points."""
BASELINES = {"temperature": "temperature scaling"}
"""What baselines are called in sentences."""
_BLOCK = re.compile(
    r"^([ \t]*)<!-- begin:((?:(?!<!--).)*?)-->\n((?:(?!<!-- begin:).)*?)^[ \t]*<!-- end -->",
    re.MULTILINE | re.DOTALL,
)
_MARKER = re.compile(r"^[ \t]*<!-- (?:begin:|end -->)", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Part:
    """The part of a table that a block shows; ``methods`` maps names to what they are called."""

    name: str
    title: str
    about: Row
    rows: list[Row]
    methods: dict[str, str]
    spreads: bool = False

    @property
    def digits(self) -> int:
        return int(self.about["digits"])

    def row(self, place: tuple[str, str], method: str) -> Row | None:
        wanted = (*place, method)
        found = (r for r in self.rows if (r["dataset"], r["backbone"], r["method"]) == wanted)
        return next(found, None)

    def shown(self, method: str | None = None) -> list[Row]:
        """Measured rows of one method, or of all that are shown."""
        names = self.methods if method is None else (method,)
        return [row for row in self.rows if row["method"] in names and row["mean"]]

    def places(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((row["dataset"], row["backbone"]) for row in self.shown()))

    def mean(self, row: Row | None) -> str:
        return f"{float(row['mean']):.{self.digits}f}" if row and row["mean"] else NOTHING

    def spread(self, row: Row, kind: str) -> str:
        """Mean ± standard deviation, measured ("") or as printed ("printed_")."""
        mean, std = (row[f"{kind}{name}"] for name in ("mean", "std"))
        return " ± ".join(f"{float(x):.{self.digits}f}" for x in (mean, std) if x)


@dataclass(frozen=True)
class Block:
    """What a page asks for, and on which line."""

    line: int
    kind: str
    parts: list[Part]
    options: dict[str, str]
    asks: str

    @property
    def chart(self) -> Path | None:
        """File of a chart, seen from the page."""
        return Path(f"images/bench/{self.options['name']}.svg") if "name" in self.options else None

    def text(self) -> list[str]:
        """The lines of Markdown."""
        if self.chart is not None:
            return [f"![{self.options['title']}]({self.chart})"]
        return KINDS[self.kind](self.parts)

    def is_drawn(self, page: Path) -> bool:
        """Whether the file of a chart shows these numbers; a block of text needs no file."""
        if self.chart is None:
            return True
        file, told = page.parent / self.chart, charts.told(self.kind, self.parts)
        return file.is_file() and told in file.read_text("utf-8")


def fill(text: str, folder: Path) -> tuple[str, list[tuple[int, str]], list[Block]]:
    """The page with all blocks made; line and request of those that were stale; all blocks."""
    stale: list[tuple[int, str]] = []
    fences = [fence.span() for fence in _FENCE.finditer(text)]  # a page can show a marker there

    def outside(pattern: re.Pattern[str]) -> list[re.Match[str]]:
        found = pattern.finditer(text)
        return [m for m in found if not any(a < m.start() < b for a, b in fences)]

    matches = outside(_BLOCK)
    if len(outside(_MARKER)) != 2 * len(matches):
        raise ValueError("a '<!-- begin: … -->' without its '<!-- end -->', or the reverse")
    parts, done, blocks = [], 0, []
    for match in matches:
        line, asks = text.count("\n", 0, match.start()) + 1, " ".join(match[2].split())
        try:
            block = read(asks, folder, line)
            made = textwrap.indent("\n".join(block.text()), match[1])
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from None
        body = f"\n{made}\n\n"
        if match[3] != body:
            stale.append((line, asks))
        blocks.append(block)
        parts += [text[done : match.start(3)], body]
        done = match.end(3)
    return "".join([*parts, text[done:]]), stale, blocks


def read(asks: str, folder: Path, line: int = 0) -> Block:
    """What a block asks for, with its parts of tables."""
    kind, *words = shlex.split(asks) or [""]
    known: tuple[str, ...] = OPTIONS
    one: tuple[str, ...] = ("overview",)
    if kind == "chart":
        kind, *words = words or [""]
        if kind not in charts.CHARTS:
            raise ValueError(unknown("chart", kind, charts.CHARTS))
        known, one = (*OPTIONS, *PICTURE), ("times", "grids")
    elif kind not in KINDS:
        raise ValueError(unknown("kind of block", kind, KINDS))
    options = dict(word.split("=", 1) for word in words if "=" in word)
    for name in options:
        if name not in known:
            raise ValueError(unknown(f"option of {kind}", name, known))
    for name in known[len(OPTIONS) :]:
        if not options.get(name):
            raise ValueError(f"a chart needs {name}=")
    tables = _named(",".join(word for word in words if "=" not in word))
    if not tables or (kind in one and len(tables) > 1):
        raise ValueError(f"{kind} shows another number of tables, got {', '.join(tables) or 0}")
    parts = [_part(name, title, options, folder) for name, title in tables.items()]
    return Block(line, kind, parts, options, asks)


def _part(name: str, title: str, options: dict[str, str], folder: Path) -> Part:
    file, _, metric = name.partition("/")
    index = _read(folder / INDEX)
    about = next((row for row in index if row["table"] == name), None)
    if about is None:
        raise ValueError(unknown("table", name, [row["table"] for row in index]))
    rows = [row for row in _read(folder / f"{file}.csv") if not metric or row["metric"] == metric]
    for option in ("datasets", "backbones"):
        if option in options:
            there = [row[option[:-1]] for row in rows]
            asked = _known(option[:-1], _named(options[option]), there)
            rows = [row for row in rows if row[option[:-1]] in asked]
    measured = [row for row in rows if row["mean"]]
    notes = {row["method"]: row["note"] for row in measured}
    titles = {method: f"{method} ({note})" if note else method for method, note in notes.items()}
    if "methods" in options:
        asked = _known("method", _named(options["methods"]), titles)
        titles = {method: called or titles[method] for method, called in asked.items()}
    if options.get("spread", "std") != "std":
        raise ValueError(unknown("spread", options["spread"], ["std"]))
    return Part(name, title or f"`{name}`", about, rows, titles, "spread" in options)


@functools.cache
def _read(path: Path) -> list[Row]:
    if not path.is_file():
        raise ValueError(f"there is no {path}; `simi-mailbox bench write` makes it")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _named(listed: str) -> dict[str, str]:
    """``"a, b as c"`` as {"a": "", "b": "c"}."""
    parts = [part.strip().partition(" as ") for part in listed.split(",") if part.strip()]
    names = [name for name, _, _ in parts]
    if len(set(names)) < len(names):
        raise ValueError(f"{listed!r} asks for something twice")
    return {name: called for name, _, called in parts}


def _known(what: str, asked: dict[str, str], there: object) -> dict[str, str]:
    """What is asked for; methods that were not measured in their present version are left out."""
    choices = list(dict.fromkeys(there))  # type: ignore[call-overload]
    for name in asked:
        measurable = what == "method" and re.split("[ /]", name)[0] in methods.names()
        if name not in choices and not measurable:
            raise ValueError(unknown(what, name, choices))
    return {name: called for name, called in asked.items() if name in choices}


def _where(row: Row) -> str:
    return f"{row['dataset']} {row['backbone'].upper()}"


def _runs(rows: Sequence[Row | None]) -> str:
    """How many runs, and of how many where the paper makes more for what is shown beside it."""
    there = [row for row in rows if row and row["mean"]]
    found = sorted({int(row["runs"]) for row in there})
    printed = [int(row["printed_runs"] or 0) for row in there if row["printed_mean"]]
    made = str(found[0]) if len(found) == 1 else f"{found[0]}–{found[-1]}"
    return f"{made} of {max(printed)}" if printed and max(printed) > found[0] else made


def overview(parts: list[Part]) -> list[str]:
    """Methods × settings of one table, measured means; bold is the lowest without test labels."""
    (part,) = parts
    columns = [["", *part.methods.values()]]
    for place in part.places():
        found = [part.row(place, method) for method in part.methods]
        fair = [
            float(part.mean(row))
            for row in found
            if row and row["mean"] and row["note"] != READS_TEST_LABELS
        ]
        lowest = f"{min(fair):.{part.digits}f}" if fair else ""
        several = len({row["backbone"] for row in part.shown()}) > 1
        cells = [f"{place[0]} {place[1].upper()}" if several else place[0]]
        for row in found:
            fair_row = row and row["note"] != READS_TEST_LABELS
            mean = part.mean(row)
            _, _, spread = part.spread(row, "").partition(" ± ") if row else ("", "", "")
            shown = f"**{mean}**" if fair_row and mean == lowest else mean
            cells.append(f"{shown} ± {spread}" if part.spreads and spread else shown)
        columns.append(cells)
    return grid([list(row) for row in zip(*columns, strict=True)], others="--:")


def means(parts: list[Part]) -> list[str]:
    """Methods × tables: the mean over settings."""

    def cell(part: Part, method: str) -> str:
        found = [float(row["mean"]) for row in part.shown(method)]
        return f"{pooled(found):.{part.digits}f}" if found else NOTHING

    return _by_method(parts, cell)


def reached(parts: list[Part]) -> list[str]:
    """Methods × tables: in how many settings the mean reaches its target."""

    def cell(part: Part, method: str) -> str:
        if not part.about["target"]:
            raise ValueError(f"table {part.name!r} has no target")
        found = [float(row["mean"]) for row in part.shown(method)]
        enough = sum(mean >= float(part.about["target"]) - SLACK for mean in found)
        return f"{enough} of {len(found)}" if found else NOTHING

    return _by_method(parts, cell)


def _by_method(parts: list[Part], cell: Callable[[Part, str], str]) -> list[str]:
    names = {name: title for part in parts for name, title in part.methods.items()}
    rows = [["", *(part.title for part in parts)]]
    rows += [[title, *(cell(part, name) for part in parts)] for name, title in names.items()]
    return grid(rows, others="--:")


def agreement(parts: list[Part]) -> list[str]:
    """Methods × tables: cells within one printed σ of runs / within two s.e. (largest σ)."""
    names = parts[0].methods
    groups = {title: [name] for name, title in names.items()}
    if len(names) > 1 and not any(name.startswith("simi-mailbox") for name in names):
        groups["together"] = list(names)  # forms of one method are no sample of methods

    def cell(part: Part, methods: list[str]) -> str:
        rows = [row for row in part.shown() if row["method"] in methods and row["deviation"]]
        if not rows:
            return NOTHING
        far, errors = ([abs(float(row[name])) for row in rows] for name in DISTANCES)
        near = sum(x <= 1 for x in far), sum(x <= SIGNIFICANT for x in errors)
        return f"{near[0]} / {near[1]} of {len(far)} ({max(far):.1f}σ)"

    rows = [["", *(part.title for part in parts)]]
    rows += [[title, *(cell(part, group) for part in parts)] for title, group in groups.items()]
    told = [[row for row in part.shown() if row["deviation"]] or part.shown() for part in parts]
    return grid([*rows, ["runs", *map(_runs, told)]])


def misses(parts: list[Part]) -> list[str]:
    """The cells that are further than one printed σ, or than two standard errors, from print."""
    rows = [["", "graph", "method", "measured", "runs", "printed", "Δ / σ", "Δ / s.e."]]
    for part in parts:
        for row in part.shown():
            if not row["deviation"]:
                continue
            far, errors = (float(row[name]) for name in DISTANCES)
            if abs(far) > 1 or abs(errors) > SIGNIFICANT:
                runs = f"{row['runs']} of {row['printed_runs']}"
                numbers = part.spread(row, ""), runs, part.spread(row, "printed_")
                told = f"{far:+.1f}", f"{errors:+.1f}"
                rows.append([part.title, _where(row), part.methods[row["method"]], *numbers, *told])
    return grid(rows) if len(rows) > 1 else ["None."]


def _pairs(part: Part, method: str) -> list[tuple[Row, float]]:
    """The method's rows, each with the baseline's mean over the same runs."""
    found = []
    for row in part.shown(method):
        base = part.row((row["dataset"], row["backbone"]), part.about["baseline"])
        if base and base["mean"] and row["difference"]:
            same = row["runs"] == base["runs"]
            mean = base["mean"] if same else float(row["mean"]) - float(row["difference"])
            found.append((row, float(mean)))
    return found


def verdict(parts: list[Part]) -> list[str]:
    """Each method against the table's baseline, over the settings and runs that both have."""
    baselines = " / ".join(dict.fromkeys(part.about["baseline"] for part in parts))
    head = ["", "method", "settings", "runs", "lower", "signif. lower", "signif. higher"]
    rows = [[*head, "mean", baselines, "change of the mean", "mean change"]]
    for part in parts:
        against = {m: name for m, name in part.methods.items() if m != part.about["baseline"]}
        for method, name in against.items():
            settings, *numbers = _verdict(part, method)
            pairs = [row for row, _ in _pairs(part, method)]
            rows.append([part.title, name, settings, _runs(pairs) if pairs else NOTHING, *numbers])
    return grid(rows)


def _verdict(part: Part, method: str) -> list[str]:
    pairs = _pairs(part, method)
    if not pairs:  # not measured with its present version
        return ["0", *["–"] * 7]
    ours, theirs = [float(row["mean"]) for row, _ in pairs], [base for _, base in pairs]
    mean, base = pooled(ours), pooled(theirs)
    each = pooled(a / b - 1 for a, b in zip(ours, theirs, strict=True))
    return [
        str(len(pairs)),
        str(sum(float(row["difference"]) < 0 for row, _ in pairs)),
        str(sum(float(row["difference_high"]) < 0 for row, _ in pairs)),
        str(sum(float(row["difference_low"]) > 0 for row, _ in pairs)),
        f"{mean:.{part.digits}f}",
        f"{base:.{part.digits}f}",
        f"{100 * (mean / base - 1):+.1f} %",
        f"{100 * each:+.1f} %",
    ]


def summary(parts: list[Part]) -> list[str]:
    """A sentence for each table: the first method against the baseline, the others' means."""
    lines = []
    for part in parts:
        (method, _), *others = part.methods.items()
        pairs = _pairs(part, method)
        if not pairs:
            lines.append(f"- **{part.title}**: not measured in the present version.")
            continue
        settings, lower, significant, worse, mean, base, change, _ = _verdict(part, method)
        rivals = [
            f"{name} {found[4]}, {found[6]}"
            for other, name in others
            if (found := _verdict(part, other))[0] == settings
        ]
        baseline = BASELINES.get(part.about["baseline"], part.about["baseline"])
        told = "; ".join([change, *rivals])
        text = (
            f"- **{part.title}**: lower than with {baseline} in {lower} of {settings} settings, "
            f"significantly in {significant}; mean {mean} against {base} ({told})."
        )
        lines.append(f"{text} {_higher(part, pairs, int(worse))}")
    return lines


def _higher(part: Part, pairs: list[tuple[Row, float]], significant: int) -> str:
    """Where the method is above the baseline, and by how much at most."""
    above = [row for row, _ in pairs if float(row["difference"]) > 0]
    if not above:
        return "Nowhere higher."
    names = [_where(row) for row in above]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    most = max(float(row["difference"]) for row in above)
    return (
        f"Higher on {listed}, by at most {most:.{part.digits}f}, "
        f"significantly in {significant or 'none'}."
    )


def losses(parts: list[Part]) -> list[str]:
    """Settings where a method is significantly above the baseline; p also after Holm."""
    rows = [["", "graph", "method", "measured", "baseline", "difference", "p", "p among all"]]
    for method in dict.fromkeys(name for part in parts for name in part.methods):
        cells = [(part, *pair) for part in parts for pair in _pairs(part, method)]
        together = holm([float(row["p_value"]) for _, row, _ in cells])
        for (part, row, base), p in zip(cells, together, strict=True):
            if float(row["difference_low"]) > 0:
                parted = (float(row[name]) for name in ("difference", "difference_error"))
                difference = "{:+.{d}f} ± {:.{d}f}".format(*parted, d=part.digits)
                tests = f"{float(row['p_value']):.2g}", f"{p:.2g}"
                both = part.mean(row), f"{base:.{part.digits}f}"
                name = part.methods[method]
                rows.append([part.title, _where(row), name, *both, difference, *tests])
    return grid(rows) if len(rows) > 1 else ["None."]


def standings(parts: list[Part]) -> list[str]:
    """How often each judged method is best, tied or behind, and behind whom."""
    rows = [["", "method", "best", "tied", "behind", "not judged", "behind whom"]]
    for part in parts:
        judged = [row for row in part.rows if row["verdict"] and row["method"] in part.methods]
        if not judged:
            raise ValueError(f"table {part.name!r} judges no method")
        for method in dict.fromkeys(row["method"] for row in judged):
            found = [row for row in judged if row["method"] == method]
            verdicts = [row["verdict"] for row in found]
            numbers = [str(verdicts.count(word)) for word in ("best", "tied", "behind")]
            whom: dict[str, list[str]] = {}
            for row in found:
                if row["verdict"] == "behind":
                    whom.setdefault(row["best_rival"], []).append(_where(row))
            told = "; ".join(f"{rival} on {', '.join(where)}" for rival, where in whom.items())
            none = str(verdicts.count("not judged"))
            rows.append([part.title, method, *numbers, none, told or NOTHING])
    return grid(rows)


def progress(parts: list[Part]) -> list[str]:
    """Tables, how many of their cells have all their runs, and the graphs that no table has."""
    here = tuple({f"{row['dataset']} " for part in parts for row in part.shown()})
    rows = [["table", "cells done", "no data for"]]
    for part in parts:
        graphs = list(dict.fromkeys(row["dataset"] for row in part.rows))
        absent = [graph for graph in graphs if not f"{graph} ".startswith(here)]
        asked = [row for row in part.rows if row["dataset"] not in absent]
        runs = [(int(row["runs"] or 0), int(row["runs_wanted"])) for row in asked]
        done = sum(made >= wanted for made, wanted in runs)
        begun = sum(0 < made < wanted for made, wanted in runs)
        cells = f"{done} of {len(runs)}" + (f", {begun} begun" if begun else "")
        rows.append([f"`{part.name}`", cells, ", ".join(absent) or NOTHING])
    return grid(rows)


KINDS: dict[str, Callable[[list[Part]], list[str]]] = {
    kind.__name__: kind
    for kind in (
        *(overview, means, reached, agreement, misses),
        *(verdict, summary, losses, standings, progress),
    )
}
