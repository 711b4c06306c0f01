"""What a block of a page can hold: parts of tables as Markdown. `page` finds and fills blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simi_mailbox.experiments import render
from simi_mailbox.experiments.compare import Paired, holm, pooled
from simi_mailbox.experiments.methods import NOTES
from simi_mailbox.experiments.oracle import ORACLE
from simi_mailbox.experiments.tables.result import Line, TableResult, counts


@dataclass(frozen=True)
class Shown:
    """A measured table as a block shows it.

    Attributes
    ----------
    name
        What the table is called in the block.
    result
        The table, restricted to the graphs and backbones that are shown.
    methods
        The methods that are shown, and what each is called.
    """

    name: str
    result: TableResult
    methods: Mapping[str, str]

    def lines(self) -> list[Line]:
        """Lines of the methods that are shown."""
        return [line for line in self.result.lines if line.method in self.methods]

    def places(self) -> list[tuple[str, str]]:
        """(dataset, backbone) of these lines."""
        return list(dict.fromkeys((line.dataset, line.backbone) for line in self.lines()))

    def row(self, dataset: str, backbone: str) -> list[Line | None]:
        """The cell of every method in one setting."""
        return [self.result.line(dataset, backbone, name) for name in self.methods]

    def if_several(self, backbone: str) -> list[str]:
        """A text that is needed only where there is more than one backbone."""
        return [backbone] if len({line.backbone for line in self.lines()}) > 1 else []


def matrix(tables: list[Shown]) -> list[str]:
    """Settings × methods of one table: measured mean, in brackets the printed one."""
    (table,) = tables
    rows = [["graph", *table.if_several("backbone"), "runs", *table.methods.values()]]
    for dataset, backbone in table.places():
        lines = table.row(dataset, backbone)
        runs = sorted({line.summary.runs for line in lines if line and line.summary})
        made = str(runs[0]) if len(runs) == 1 else f"{runs[0]}–{runs[-1]}"
        cells = [render.cell(line, table.result, spread=False) for line in lines]
        rows.append([dataset, *table.if_several(backbone.upper()), made, *cells])
    return render.grid(rows)


def overview(tables: list[Shown]) -> list[str]:
    """Methods × settings of one table, measured means; bold is the lowest without test labels."""
    (table,) = tables
    columns = [["", *table.methods.values()]]
    for dataset, backbone in table.places():
        lines = table.row(dataset, backbone)
        cells = [render.measured_text(line, table.result, spread=False) for line in lines]
        honest = [
            line is not None and line.summary is not None and line.note != NOTES[ORACLE]
            for line in lines
        ]
        candidates = [cell for cell, is_honest in zip(cells, honest, strict=True) if is_honest]
        lowest = min(candidates, key=float, default="")
        head = " ".join([dataset, *table.if_several(backbone.upper())])
        shown = [
            f"**{cell}**" if is_honest and cell == lowest else cell
            for cell, is_honest in zip(cells, honest, strict=True)
        ]
        columns.append([head, *shown])
    return render.grid([list(row) for row in zip(*columns, strict=True)], others="--:")


def beside(tables: list[Shown]) -> list[str]:
    """Settings × tables: the measured means of one method."""
    method, *others = tables[0].methods
    if others:
        raise ValueError(f"beside shows one method of several tables, got {len(others) + 1}")
    places = list(dict.fromkeys(place for table in tables for place in table.places()))
    rows = [["graph", "backbone", "runs", *(table.name for table in tables)]]
    for dataset, backbone in places:
        lines = [table.result.line(dataset, backbone, method) for table in tables]
        runs = sorted({line.summary.runs for line in lines if line and line.summary})
        cells = [
            render.measured_text(line, table.result, spread=False)
            for line, table in zip(lines, tables, strict=True)
        ]
        rows.append([dataset, backbone.upper(), "–".join(map(str, runs)), *cells])
    return render.grid(rows)


def means(tables: list[Shown]) -> list[str]:
    """Methods × tables: the mean over settings."""

    def cell(table: Shown, name: str) -> str:
        found = [x.summary.mean for x in table.lines() if x.method == name and x.summary]
        return f"{pooled(found):.{table.result.digits}f}" if found else render.NOTHING

    return _by_method(tables, cell)


def kept(tables: list[Shown]) -> list[str]:
    """Methods × tables: in how many settings the mean is what was promised."""

    def cell(table: Shown, name: str) -> str:
        if table.result.promised is None:
            raise ValueError(f"table {table.result.name!r} promises nothing")
        made, settings = table.result.kept(name)
        return f"{made} of {settings}" if settings else render.NOTHING

    return _by_method(tables, cell)


def _by_method(tables: list[Shown], cell: Callable[[Shown, str], str]) -> list[str]:
    names = {name: title for table in tables for name, title in table.methods.items()}
    rows = [["", *(table.name for table in tables)]]
    rows += [[title, *(cell(table, name) for table in tables)] for name, title in names.items()]
    return render.grid(rows, others="--:")


def agreement(tables: list[Shown]) -> list[str]:
    """Methods × tables: how many cells lie within one printed std, and the largest distance."""
    names = tables[0].methods
    groups: dict[str, tuple[str, ...]] = {title: (name,) for name, title in names.items()}
    if len(names) > 1:
        groups["together"] = tuple(names)
    rows = [["", *(table.name for table in tables)]]
    for title, group in groups.items():
        rows.append([title, *(_agreement(table.result, group) for table in tables)])
    return render.grid(rows)


def misses(tables: list[Shown]) -> list[str]:
    """The cells that are further than one printed std from print."""
    rows = [
        [
            table.name,
            f"{line.dataset} {line.backbone.upper()}",
            table.methods[line.method],
            render.measured_text(line, table.result),
            str(line.summary.runs),
            render.printed_text(line, table.result),
            render.deviation_text(line),
        ]
        for table in tables
        for line in table.lines()
        if line.within is False and line.summary
    ]
    head = ["", "graph", "method", "measured", "runs", "printed", "Δ"]
    return render.grid([head, *rows]) if rows else ["None."]


def verdict(tables: list[Shown]) -> list[str]:
    """Each method against the table's baseline, over the settings where both have equal runs."""
    baselines = " / ".join(dict.fromkeys(str(table.result.baseline) for table in tables))
    head = ["", "method", "settings", "lower", "clearly lower", "clearly higher"]
    rows = [[*head, "mean", baselines, "change of the mean", "mean change"]]
    for table in tables:
        rows += [_verdict(table, name) for name in table.methods if name != table.result.baseline]
    return render.grid(rows)


def losses(tables: list[Shown]) -> list[str]:
    """Settings where a method is clearly above the baseline: by itself, and among all (Holm)."""
    rows = [["", "graph", "method", "measured", "baseline", "difference", "p", "p among all"]]
    for method in dict.fromkeys(name for table in tables for name in table.methods):
        cells = [(table, *both) for table in tables for both in _pairs(table, method)]
        together = holm([pair.p_value for *_, pair in cells])
        for (table, line, base, pair), p in zip(cells, together, strict=True):
            if pair.low > 0:
                digits = table.result.digits
                means = (
                    render.measured_text(one, table.result, spread=False) for one in (line, base)
                )
                difference = f"{pair.difference:+.{digits}f} ± {pair.error:.{digits}f}"
                where = f"{line.dataset} {line.backbone.upper()}"
                tests = f"{pair.p_value:.2g}", f"{p:.2g}"
                rows.append([table.name, where, table.methods[method], *means, difference, *tests])
    return render.grid(rows) if len(rows) > 1 else ["None."]


def standings(tables: list[Shown]) -> list[str]:
    """How often each judged method is best, tied or behind, and behind whom."""
    rows = [["", "method", "best", "tied", "behind", "not judged", "behind whom"]]
    judged = [(table, method) for table in tables for method in table.result.standings]
    for table in tables:
        if not table.result.standings:
            raise ValueError(f"table {table.result.name!r} judges no method")
    for table, method in judged:
        places = set(table.places())
        standings = table.result.standings[method]
        found = {at: one for at, one in standings.items() if at in places}
        verdicts = [one.verdict for one in found.values()]
        numbers = [str(verdicts.count(word)) for word in ("best", "tied", "behind", "")]
        whom: dict[str, list[str]] = {}
        for (dataset, backbone), one in found.items():
            if one.verdict == "behind":
                whom.setdefault(one.rival, []).append(f"{dataset} {backbone.upper()}")
        told = "; ".join(f"{rival} on {', '.join(where)}" for rival, where in whom.items())
        rows.append([table.name, method, *numbers, told or render.NOTHING])
    return render.grid(rows)


def progress(tables: list[Shown]) -> list[str]:
    """Tables, how many of their cells have all their runs, and the graphs that no table has."""
    lines = [line for table in tables for line in table.result.lines]
    measured = tuple({f"{line.dataset} " for line in lines if line.summary})
    rows = [["table", "shows", "cells done", "no data for"]]
    for table in tables:
        graphs = [line.dataset for line in table.result.lines]
        made = table.result.progress(x for x in graphs if not f"{x} ".startswith(measured))
        lacking = ", ".join(made.absent) or render.NOTHING
        rows.append([f"`{table.result.name}`", table.result.title, str(made), lacking])
    return render.grid(rows)


KINDS: dict[str, Callable[[list[Shown]], list[str]]] = {
    "matrix": matrix,
    "overview": overview,
    "beside": beside,
    "means": means,
    "kept": kept,
    "agreement": agreement,
    "misses": misses,
    "verdict": verdict,
    "losses": losses,
    "standings": standings,
    "progress": progress,
}


def _agreement(result: TableResult, methods: tuple[str, ...]) -> str:
    near, known = counts(result, methods)
    found = (line.deviation for line in result.lines if line.method in methods)
    farthest = max((abs(deviation) for deviation in found if deviation is not None), default=0.0)
    return f"{near} of {known} ({farthest:.1f}σ)" if known else render.NOTHING


def _pairs(table: Shown, method: str) -> list[tuple[Line, Line, Paired]]:
    """The method's cells, the baseline's, and both held together, where they have equal runs."""
    result, found = table.result, []
    for line in result.lines:
        base = result.line(line.dataset, line.backbone, result.baseline or "")
        if line.method != method or not (line.summary and line.paired and base and base.summary):
            continue
        if line.summary.runs == base.summary.runs:  # else the means would be of different logits
            found.append((line, base, line.paired))
    return found


def _verdict(table: Shown, method: str) -> list[str]:
    digits, both = table.result.digits, _pairs(table, method)
    if not both:
        raise ValueError(
            f"{method!r} and the baseline share no setting of table {table.result.name!r}"
        )
    ours = [line.summary.mean for line, _, _ in both if line.summary]
    theirs = [base.summary.mean for _, base, _ in both if base.summary]
    pairs = [pair for *_, pair in both]
    mean, base_mean = pooled(ours), pooled(theirs)
    each = pooled(a / b - 1 for a, b in zip(ours, theirs, strict=True))
    return [
        table.name,
        table.methods[method],
        str(len(pairs)),
        str(sum(pair.difference < 0 for pair in pairs)),
        str(sum(pair.high < 0 for pair in pairs)),
        str(sum(pair.low > 0 for pair in pairs)),
        f"{mean:.{digits}f}",
        f"{base_mean:.{digits}f}",
        f"{100 * (mean / base_mean - 1):+.1f} %",
        f"{100 * each:+.1f} %",
    ]
