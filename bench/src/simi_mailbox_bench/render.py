"""A table as text: for the terminal, and as Markdown and CSV. Nothing is computed here."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from simi_mailbox_bench.compare import Paired, Summary
from simi_mailbox_bench.paper_tables import Printed
from simi_mailbox_bench.tables.base import Line, TableResult

NOTHING = "–"
READS_TEST_LABELS = "reads test labels"
INDEX = "index.csv"
"""File that tells of every table beside its CSV file."""
WIDTH = 132
SPREAD = "mean ± population std over runs."
DEVIATION = (
    "Δ: (measured − printed) in printed standard deviations of runs (σ), and in standard errors "
    "of the difference of the two means (s.e.; runs taken as independent, so that it is too "
    "small). runs: measured of those that the paper makes."
)
FLOOR = "floor: the ECE that perfectly calibrated probabilities would show by chance."
STANDING = ("graph", "backbone", "lowest mean", "best rival", "difference to it", "verdict")
CSV_HEADER = (
    "metric", "dataset", "backbone", "method", "unit", "mean", "std", "runs", "splits",
    "runs_wanted", "printed_mean", "printed_std", "printed_runs", "deviation",
    "deviation_error", "noise_floor", "difference",
    "difference_low", "difference_high", "difference_error", "p_value", "splits_lower", "verdict",
    "best_rival", "note",
)  # fmt: skip


def caption(result: TableResult) -> list[str]:
    """Sentences below a table."""
    printed = f" {DEVIATION}" if _has_printed(result) else ""
    sentences = [f"Unit: {result.unit}; {SPREAD}{printed}"]
    if any(line.floor is not None for line in result.lines):
        sentences.append(FLOOR)
    if result.baseline and any(line.paired for line in result.lines):
        sentences.append(
            f"against {result.baseline}: mean difference over splits with its 95 % interval "
            "(Student's t; runs of one split are averaged first, because they share a test set), "
            "and in how many splits the method is lower; * marks intervals without zero."
        )
    marked = {line.note: line.method for line in result.lines if line.note}
    sentences += [f"{method}: {note}." for note, method in marked.items()]
    return [*sentences, *result.caption, *result.remarks]


def terminal(result: TableResult, width: int | None = None) -> str:
    """For reading in a terminal; narrower than `WIDTH`, cells are folded and nothing is lost."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    stream = io.StringIO()
    console = Console(file=stream, width=width or WIDTH, highlight=False)

    def show(title: str, header: Sequence[str], side: Any, rows: Iterable[list[str]]) -> None:
        made = Table(title=title, box=box.SIMPLE_HEAD)
        for name in header:
            made.add_column(name, justify="left" if name == "method" else side, overflow="fold")
        for row in rows:
            if len(row) == 1:
                made.add_section()
                made.add_row(f"[bold]{row[0]}[/bold]")
            else:
                made.add_row(*(cell.replace("[", "\\[") for cell in row))
        console.print(made)

    rows: list[list[str]] = []
    for dataset, backbone in result.groups():
        rows.append([f"{dataset} {backbone.upper()}"])
        inside = [x for x in result.lines if (x.dataset, x.backbone) == (dataset, backbone)]
        rows += [_cells(line, result) for line in inside]
    show(f"{result.name}: {result.title}", _header(result), "right", rows)
    for method in result.standings:
        show(f"Where {method} stands", STANDING, "left", _standing(result, method))
    for sentence in (*caption(result), *(_standing_told(result, m) for m in result.standings)):
        console.print(sentence, markup=False)
    return stream.getvalue()


def markdown(result: TableResult) -> str:
    """A matrix of measured (printed) means, then one line per cell with everything."""
    text = [f"# {result.name}: {result.title}", ""]
    brackets = ", in brackets the printed mean" if _has_printed(result) else ""
    text += [f"Measured mean ± std{brackets}.", ""]
    matrix = [
        [
            dataset,
            backbone.upper(),
            *(_both(result.line(dataset, backbone, name), result) for name in result.methods()),
        ]
        for dataset, backbone in result.groups()
    ]
    text += grid([["graph", "backbone", *_titles(result)], *matrix])
    for method in result.standings:
        text += ["", f"## Where {method} stands", ""]
        text += grid([list(STANDING), *_standing(result, method)])
        text += ["", f"* {_standing_told(result, method)}"]
    lines = [[line.dataset, line.backbone.upper(), *_cells(line, result)] for line in result.lines]
    text += ["", "## Cell by cell", ""]
    text += grid([["graph", "backbone", *_header(result)], *lines])
    return "\n".join([*text, "", *(f"* {sentence}" for sentence in caption(result)), ""])


def csv_text(*results: TableResult) -> str:
    """One line per cell, numbers unrounded; metrics of one table one after the other."""
    rows: list[Sequence[object]] = [CSV_HEADER]
    for result in results:
        for line in result.lines:
            judged = result.standings.get(line.method, {}).get((line.dataset, line.backbone))
            parts: tuple[tuple[object, tuple[str, ...]], ...] = (
                (line.summary, ("mean", "std", "runs", "splits")),
                (line, ("wanted",)),
                (line.printed, ("mean", "std")),
                (line, ("printed_runs", "deviation", "deviation_error", "floor")),
                (line.paired, ("difference", "low", "high", "error", "p_value", "lower")),
            )
            told = [getattr(part, name, None) for part, names in parts for name in names]
            standing = (judged.verdict or "not judged", judged.rival) if judged else ("", "")
            place = result.metric, line.dataset, line.backbone, line.method, result.unit
            rows.append([*place, *told, *standing, line.note])
    return _csv(rows)


def index_text(results: Iterable[TableResult]) -> str:
    """One line per table, or per metric of a table with several: what the pages ask about it."""
    rows: list[Sequence[object]] = [("table", "shows", "unit", "digits", "baseline", "target")]
    rows += [(x.name, x.title, x.unit, x.digits, x.baseline, x.target) for x in results]
    return _csv(rows)


def _csv(rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)  # None is written as nothing
    return out.getvalue()


FORMATS: dict[str, Callable[[TableResult], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "csv": csv_text,
}


def grid(rows: list[list[str]], others: str = "---") -> list[str]:
    """A Markdown table, its first row the head; ``others`` aligns all columns but the first."""
    # A pipe in a cell would end it, unless it is escaped already.
    told = [[re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in rows]
    text = ["| " + " | ".join(row) + " |" for row in told]
    return [text[0], "|---|" + f"{others}|" * (len(rows[0]) - 1), *text[1:]]


def _spread(part: Summary | Printed | None, digits: int) -> str:
    """Mean ± std, as far as there are any."""
    numbers = (part.mean, part.std) if part else ()
    return " ± ".join(f"{x:.{digits}f}" for x in numbers if x is not None) or NOTHING


def _both(line: Line | None, result: TableResult) -> str:
    printed = f" ({line.printed.mean:.{result.digits}f})" if line and line.printed else ""
    return _spread(line.summary if line else None, result.digits) + printed


def _titles(result: TableResult) -> list[str]:
    """Methods, each with the note that it must not be shown without."""
    notes = {line.method: line.note for line in result.lines}
    return [f"{name} ({note})" if note else name for name, note in notes.items()]


def _has_printed(result: TableResult) -> bool:
    return any(line.printed for line in result.lines)


def _header(result: TableResult) -> list[str]:
    names = ["method", "measured", "runs"]
    names += ["printed", "Δ"] if _has_printed(result) else []
    names += ["floor"] if any(line.floor is not None for line in result.lines) else []
    against = any(line.paired for line in result.lines)
    return [*names, f"against {result.baseline}"] if against else names


def _cells(line: Line, result: TableResult) -> list[str]:
    method = f"{line.method} ({line.note})" if line.note else line.method
    made = str(line.summary.runs if line.summary else 0)
    if line.printed and line.summary and line.printed_runs not in (0, line.summary.runs):
        made += f" of {line.printed_runs}"
    cells = [method, _spread(line.summary, result.digits), made]
    header = _header(result)
    if "printed" in header:
        far, errors = line.deviation, line.deviation_error
        told = "" if errors is None else f", {errors:+.1f} s.e."
        printed = _spread(line.printed, result.digits)
        cells += [printed, NOTHING if far is None else f"{far:+.1f}σ{told}"]
    if "floor" in header:
        cells.append(NOTHING if line.floor is None else f"{line.floor:.{result.digits}f}")
    if header[-1].startswith("against"):
        pair = line.paired
        told = f"{_difference(pair, result.digits, '*')} {pair.lower}/{pair.splits}" if pair else ""
        cells.append(told or NOTHING)
    return cells


def _difference(pair: Paired, digits: int, star: str = "") -> str:
    mark = star if pair.clear else ""
    return f"{pair.difference:+.{digits}f}{mark} [{pair.low:+.{digits}f}, {pair.high:+.{digits}f}]"


def _standing(result: TableResult, method: str) -> list[list[str]]:
    rows = []
    for (dataset, backbone), found in result.standings[method].items():
        rival = f"{found.rival} {found.rival_mean:.{result.digits}f}" if found.rival else NOTHING
        told = [NOTHING, rival, NOTHING, "not judged"]
        if found.paired is not None:
            gap = _difference(found.paired, result.digits)
            told = [found.best, rival, gap, found.verdict]
        rows.append([dataset, backbone.upper(), *told])
    return rows


def _standing_told(result: TableResult, method: str) -> str:
    verdicts = [found.verdict for found in result.standings[method].values()]
    best, tied, behind, unknown = (verdicts.count(v) for v in ("best", "tied", "behind", ""))
    others = [name for name in result.standings if name != method]
    without = f", without {', '.join(others)}" if others else ""
    return (
        f"{method} is best or tied in {best + tied} of {best + tied + behind} settings: {best} "
        f"best, {tied} tied (a rival's mean is lower, but the 95 % interval of the difference "
        f"paired by split holds zero), {behind} behind; {unknown} not judged. Rivals are the "
        f"methods shown that have as many runs of the setting{without}."
    )
