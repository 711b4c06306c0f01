"""A table as text: for the terminal, and as Markdown, CSV and LaTeX. Nothing is computed here."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simi_mailbox._extras import require
from simi_mailbox.experiments import ranking
from simi_mailbox.experiments.tables.result import Line, TableResult, runs_per_cell
from simi_mailbox.files import whole_file

SPREAD = "mean ± population std over runs."
DEVIATION = (
    "Δ: (measured − printed) in printed standard deviations; within ±1 the difference is noise."
)
FLOOR = "floor: the ECE that perfectly calibrated probabilities would show by chance."
NOTHING = ranking.NOTHING
WIDTH = 132
_LATEX = str.maketrans(
    {
        **{special: f"\\{special}" for special in "#$%&_{}"},
        "\\": "\\textbackslash{}",
        "^": "\\textasciicircum{}",
        "~": "\\textasciitilde{}",
        "±": "$\\pm$",
        "λ": "$\\lambda$",
        "Δ": "$\\Delta$",
        "σ": "$\\sigma$",
        "×": "$\\times$",
        "−": "$-$",
        "–": "--",
        "…": "\\ldots{}",
        "→": "$\\to$",
    }
)
CSV_HEADER = (
    "dataset", "backbone", "method", "unit", "mean", "std", "runs", "splits", "printed_mean",
    "printed_std", "deviation", "within_one_std", "noise_floor", "difference", "difference_low",
    "difference_high", "p_value", "splits_lower", "note",
)  # fmt: skip


def caption(result: TableResult) -> list[str]:
    """Sentences below a table."""
    sentences = [f"Unit: {result.unit}; {SPREAD}"]
    if _has_printed(result):
        sentences[0] += f" {DEVIATION}"
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
    console_module = require("rich.console", extra="cli")
    table_module = require("rich.table", extra="cli")
    box = require("rich.box", extra="cli")
    stream = io.StringIO()
    console = console_module.Console(file=stream, width=width or WIDTH, highlight=False)

    def table(title: str, header: Sequence[str], side: str) -> Any:
        made = table_module.Table(title=title, box=box.SIMPLE_HEAD)
        for name in header:
            made.add_column(name, justify="left" if name == "method" else side, overflow="fold")
        return made

    def add(made: Any, cells: list[str]) -> None:
        made.add_row(*(cell.replace("[", "\\[") for cell in cells))

    shown = table(f"{result.name}: {result.title}", _header(result), "right")
    for group in result.groups():
        shown.add_section()
        shown.add_row(f"[bold]{group[0]} {group[1].upper()}[/bold]")
        for line in result.lines:
            if (line.dataset, line.backbone) == group:
                add(shown, _cells(line, result))
    console.print(shown)
    told = caption(result)
    for method in result.standings:
        judged = table(ranking.title(method), ranking.HEADER, "left")
        for row in ranking.cells(result, method):
            add(judged, row)
        console.print(judged)
        told = [*told, *ranking.sentences(result, method)]
    for sentence in told:
        console.print(sentence, markup=False)
    return stream.getvalue()


def markdown(result: TableResult) -> str:
    """A matrix of measured (printed) means, then one line per cell with everything."""
    text = [f"# {result.name}: {result.title}", ""]
    brackets = ", in brackets the printed mean" if _has_printed(result) else ""
    text += [f"Measured mean ± std{brackets}.", ""]
    text += grid([["graph", "backbone", *titles(result).values()], *_matrix(result)])
    for method in result.standings:
        text += ["", f"## {ranking.title(method)}", ""]
        text += grid([list(ranking.HEADER), *ranking.cells(result, method)])
        text += ["", *(f"* {sentence}" for sentence in ranking.sentences(result, method))]
    text += ["", "## Cell by cell", ""]
    lines = [[line.dataset, line.backbone.upper(), *_cells(line, result)] for line in result.lines]
    text += grid([["graph", "backbone", *_header(result)], *lines])
    text += ["", *(f"* {sentence}" for sentence in caption(result)), ""]
    return "\n".join(text)


def csv_text(result: TableResult) -> str:
    """One line per cell, numbers unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for line in result.lines:
        parts = (
            (line.summary, ("mean", "std", "runs", "splits")),
            (line.printed, ("mean", "std")),
            (line, ("deviation", "within", "floor")),
            (line.paired, ("difference", "low", "high", "p_value", "lower")),
        )
        numbers = [getattr(part, name, None) for part, names in parts for name in names]
        told = ("" if number is None else number for number in numbers)
        place = line.dataset, line.backbone, line.method, result.unit
        writer.writerow([*place, *told, line.note])
    return out.getvalue()


def latex(result: TableResult) -> str:
    """A booktabs table: measured above printed, as the paper lays its tables out."""
    names = result.methods()
    body = []
    for dataset, backbone in result.groups():
        lines = [result.line(dataset, backbone, name) for name in names]
        marks = cell_marks(lines, result.best)
        measured = [
            _latex_marked(measured_text(line, result), mark)
            for line, mark in zip(lines, marks, strict=True)
        ]
        printed = [_latex_number(printed_text(line, result)) for line in lines]
        place = f"{latex_text(dataset)} & {latex_text(backbone.upper())}"
        body.append(f"{place} & {' & '.join(measured)} \\\\")
        if _has_printed(result):
            body.append(f" & \\emph{{printed}} & {' & '.join(printed)} \\\\")
    head = " & ".join(["graph", "backbone", *map(latex_text, titles(result).values())])
    return "\n".join(
        [
            "\\begin{table}",
            f"\\begin{{tabular}}{{ll{'r' * len(names)}}}",
            "\\toprule",
            f"{head} \\\\",
            "\\midrule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            f"\\caption{{{latex_text(' '.join(_latex_caption(result)))}}}",
            f"\\label{{tab:{result.name}}}",
            "\\end{table}",
            "",
        ]
    )


FORMATS: dict[str, Callable[[TableResult], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "csv": csv_text,
    "latex": latex,
}


def grid(rows: list[list[str]], others: str = "---") -> list[str]:
    """A Markdown table, its first row the head; ``others`` aligns all columns but the first.

    Examples
    --------
    >>> grid([["graph", "ECE"], ["Cora", "3.79"]], others="--:")
    ['| graph | ECE |', '|---|--:|', '| Cora | 3.79 |']
    """
    # A pipe in a cell would end it, unless it is escaped already.
    told = [[re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in rows]
    text = ["| " + " | ".join(row) + " |" for row in told]
    return [text[0], "|---|" + f"{others}|" * (len(rows[0]) - 1), *text[1:]]


def latex_text(text: str) -> str:
    r"""Text as LaTeX takes it: special characters escaped, symbols as commands.

    Examples
    --------
    >>> latex_text("50 % of {a_b} ± 1")
    '50 \\% of \\{a\\_b\\} $\\pm$ 1'
    """
    return text.translate(_LATEX)


@dataclass(frozen=True)
class Mark:
    """How a cell stands in its line: "best", "tied" or nothing; its runs, if others have more."""

    standing: str = ""
    fewer: int = 0


def cell_marks(lines: Sequence[Line | None], best: str) -> list[Mark]:
    """Marks of the cells of one graph and backbone.

    Only cells with the most runs are compared, and none that carries a note, such as one that reads
    test labels. Standard errors count splits, because runs of a split share their test nodes.

    Examples
    --------
    >>> from simi_mailbox.experiments.compare import Summary
    >>> runs = [Summary(3.0, 0.5, 15, 5), Summary(3.2, 0.5, 15, 5), Summary(2.0, 0.5, 3, 3)]
    >>> cells = [Line("Cora", "gcn", name, run) for name, run in zip("abc", runs, strict=True)]
    >>> for mark in cell_marks(cells, "lowest"):
    ...     mark
    Mark(standing='best', fewer=0)
    Mark(standing='tied', fewer=0)
    Mark(standing='', fewer=3)
    """
    made = [line.summary if line is not None else None for line in lines]
    most = max((run.runs for run in made if run), default=0)
    sign = {"lowest": 1.0, "highest": -1.0}.get(best, 0.0)
    fair = [
        run if run and run.runs == most and line is not None and not line.note else None
        for run, line in zip(made, lines, strict=True)
    ]
    first = min((run for run in fair if run), key=lambda run: sign * run.mean, default=None)
    marks = []
    for run, rival in zip(made, fair, strict=True):
        standing = ""
        if sign and rival and first and sum(run is not None for run in fair) > 1:
            spread = (first.std**2 / first.splits + rival.std**2 / rival.splits) ** 0.5
            behind = sign * (rival.mean - first.mean)
            standing = "best" if behind == 0 else "tied" if behind <= 2 * spread else ""
        marks.append(Mark(standing, run.runs if run and run.runs < most else 0))
    return marks


def titles(result: TableResult) -> dict[str, str]:
    """Each method of a table, and its name with the note that it must not be shown without."""
    notes = {line.method: line.note for line in result.lines}
    return {name: f"{name} ({note})" if note else name for name, note in notes.items()}


def cell(line: Line | None, result: TableResult, *, spread: bool = True) -> str:
    """Measured mean, with its std unless ``spread`` is off, and in brackets the printed mean."""
    shown = measured_text(line, result, spread=spread)
    if line is None or line.printed is None:
        return shown
    return f"{shown} ({line.printed.mean:.{result.digits}f})"


def measured_text(line: Line | None, result: TableResult, *, spread: bool = True) -> str:
    """Measured mean ± std."""
    if line is None or line.summary is None:
        return NOTHING
    mean, std = line.summary.mean, line.summary.std
    return f"{mean:.{result.digits}f}" + (f" ± {std:.{result.digits}f}" if spread else "")


def printed_text(line: Line | None, result: TableResult) -> str:
    """Printed mean ± std, as far as there is one."""
    if line is None or line.printed is None:
        return NOTHING
    mean, std = line.printed.mean, line.printed.std
    return f"{mean:.{result.digits}f}" + (f" ± {std:.{result.digits}f}" if std is not None else "")


def deviation_text(line: Line) -> str:
    """How far measured and printed are apart, and whether that is noise."""
    if line.deviation is None:
        return NOTHING
    return f"{line.deviation:+.1f}σ{' noise' if line.within else ''}"


def _has_printed(result: TableResult) -> bool:
    return any(line.printed for line in result.lines)


def _header(result: TableResult) -> list[str]:
    names = ["method", "measured", "runs"]
    if _has_printed(result):
        names += ["printed", "Δ"]
    if any(line.floor is not None for line in result.lines):
        names.append("floor")
    if any(line.paired for line in result.lines):
        names.append(f"against {result.baseline}")
    return names


def _cells(line: Line, result: TableResult) -> list[str]:
    method = f"{line.method} ({line.note})" if line.note else line.method
    runs = str(line.summary.runs) if line.summary else "0"
    cells = [method, measured_text(line, result), runs]
    header = _header(result)
    if "printed" in header:
        cells += [printed_text(line, result), deviation_text(line)]
    if "floor" in header:
        cells.append(_number(line.floor, result.digits))
    if header[-1].startswith("against"):
        cells.append(_against(line, result.digits))
    return cells


def _matrix(result: TableResult) -> list[list[str]]:
    return [
        [dataset, backbone.upper()]
        + [cell(result.line(dataset, backbone, name), result) for name in result.methods()]
        for dataset, backbone in result.groups()
    ]


def _against(line: Line, digits: int) -> str:
    if line.paired is None:
        return NOTHING
    found = line.paired
    return f"{ranking.difference(found, digits, star=True)} {found.lower}/{found.splits}"


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _latex_number(text: str) -> str:
    return "--" if text == NOTHING else "$" + text.replace("±", "\\pm") + "$"


def _latex_marked(text: str, mark: Mark) -> str:
    number = _latex_number(text)
    if mark.fewer:
        number = f"{number[:-1]}^{{({mark.fewer})}}$"
    command = {"best": "\\mathbf", "tied": "\\underline"}.get(mark.standing)
    return f"${command}{{{number[1:-1]}}}$" if command else number


def _latex_caption(result: TableResult) -> list[str]:
    """Sentences on what the LaTeX table shows, which is less than the others do."""
    sentences = [f"{result.title}.", f"Unit: {result.unit}; {SPREAD}"]
    if _has_printed(result):
        sentences.append("Below each line, the numbers printed in the paper.")
    marks = [
        mark
        for place in result.groups()
        for mark in cell_marks([result.line(*place, m) for m in result.methods()], result.best)
    ]
    if any(mark.standing for mark in marks):
        sentences.append(
            f"Bold: the {result.best} mean among methods that read no test label and have all runs "
            "of the line; underlined: within two standard errors of it, runs unpaired."
        )
    if any(mark.fewer for mark in marks):
        sentences.append("(n): a mean of only n runs, not to be compared with the others.")
    made = runs_per_cell(result.lines)
    if made and not any(sentence.startswith(made) for sentence in result.caption):
        sentences.append(f"{made}.")
    return [*sentences, *result.caption]


def write(result: TableResult, form: str, out: Any = None) -> str:
    """A table in one of `FORMATS`; written to the path ``out`` as well, if given."""
    text = FORMATS[form](result)
    if out is not None:
        from pathlib import Path

        path = Path(out)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return text
