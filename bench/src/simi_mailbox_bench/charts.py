"""Charts of measured tables, for the pages: SVG that follows a light or a dark screen.

Colours are those of Okabe and Ito; every method has a marker of its own.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from simi_mailbox._extras import require
from simi_mailbox.plots.draw import COLORS
from simi_mailbox_bench.tables.calibration import GRIDS, GROUPS, WEIGHTS, grid_label

if TYPE_CHECKING:
    from simi_mailbox_bench.pages import Part

# What is drawn in these becomes a variable of the SVG's style, one value for each kind of screen.
INK, PAPER, RULE, FAINT = "#010101", "#fefefe", "#010102", "#010103"
BLUE, SKY = "#010104", "#010105"
NAMES = {INK: "ink", PAPER: "paper", RULE: "rule", FAINT: "faint", BLUE: "blue", SKY: "sky"}
SCREENS = {
    "light": ("#1c2126", "#ffffff", "#d9dde2", "#6a737d", "#0072b2", "#56b4e9"),
    "dark": ("#e6e9ec", "#15181b", "#3a4148", "#9aa3ab", "#3d9be0", "#a6dcff"),
}

LOOKS = {
    "uncalibrated": (FAINT, "x"),
    "temperature": (FAINT, "o"),
    "ensemble-temperature": (FAINT, "^"),
    "gats": ("#e69f00", "s"),
    "cagcn": ("#cc79a7", "P"),
    "simcalib": ("#009e73", "v"),
    "sms": ("#009e73", "^"),
    "platt": ("#009e73", "v"),
    "beta": ("#cc79a7", "P"),
    "simi-mailbox": (BLUE, "D"),
    "simi-mailbox-free": (SKY, "d"),
    "simi-mailbox-paper": ("#d55e00", "p"),
    "simi-mailbox-oracle": (INK, "*"),
}
OTHER = ("#cc79a7", "h")
BETTER = ("#0072b2", "#8ec5e8", "#f3c9a3", "#d55e00")
"""Significantly lower, lower, higher, significantly higher."""
LOOK = 3
"""Raised when charts look different, so that all are drawn anew."""
INCH = 100
WIDTH = 7.2
SMALL, TEXT = 8.5, 9.5


def dots(parts: Sequence[Part]) -> Any:
    """Means by setting on a logarithmic axis, ± one standard error; a tick is the noise floor."""
    places = list(dict.fromkeys(place for part in parts for place in part.places()))
    crowd = max(len(part.methods) for part in parts)
    figure, axes = _axes(len(parts), (0.09 * crowd + 0.06) * len(places) + 1.3)
    for ax, part in zip(axes, parts, strict=True):
        for at, (color, marker), found in _drawn(part, part.methods, places, "mean"):
            mean, std, runs = (float(found[name]) for name in ("mean", "std", "runs"))
            error = std / np.sqrt(max(runs - 1, 1))
            ends = [max(mean - error, mean / 3), mean + error]
            ax.plot(ends, [at, at], color=color, linewidth=1.2)
            ax.plot([mean], [at], marker, color=color, markersize=5.5)
        for row, place in enumerate(places):
            base = part.row(place, part.about["baseline"])
            if base and base["noise_floor"]:
                floor = float(base["noise_floor"])
                ax.plot([floor] * 2, [row - 0.42, row + 0.42], color=RULE, linewidth=2.5, zorder=0)
            if row % 2:
                ax.axhspan(row - 0.5, row + 0.5, color=RULE, alpha=0.25, linewidth=0, zorder=-1)
        _logarithmic(ax)
        _settings(ax, places, f"{part.title}{_unit(part)}, lower is better")
    _legend(figure, parts)
    return figure


def changes(parts: Sequence[Part]) -> Any:
    """Change against the baseline on the same runs, with its 95 % interval, by setting."""
    places = list(dict.fromkeys(place for part in parts for place in part.places()))
    figure, axes = _axes(len(parts), 0.36 * len(places) + 1.3)
    for ax, part in zip(axes, parts, strict=True):
        shown = [method for method in part.methods if method != part.about["baseline"]]
        reach = 10.0
        for at, (color, marker), found in _drawn(part, shown, places, "difference"):
            base = float(found["mean"]) - float(found["difference"])
            names = ("difference", "difference_low", "difference_high")
            centre, low, high = (100 * float(found[name]) / base for name in names)
            ax.plot([low, high], [at, at], color=color, linewidth=1.2)
            ax.plot([centre], [at], marker, color=color, markersize=4.5)
            reach = max(reach, abs(centre) + 5)
        ax.axvline(0, color=FAINT, linewidth=1)
        ax.set_xlim(-1.25 * reach, 1.25 * reach)
        _settings(ax, places, f"{part.title}: change against {part.about['baseline']} in %")
    _legend(figure, parts, without=[part.about["baseline"] for part in parts])
    return figure


def counts(parts: Sequence[Part]) -> Any:
    """Settings in which a method is lower or higher than the baseline, and its mean change."""
    bars = []
    for part in parts:
        for method, name in part.methods.items():
            rows = [row for row in part.shown(method) if row["difference"]]
            if method == part.about["baseline"] or not rows:
                continue
            low, high, centre = (
                np.array([float(row[name]) for row in rows])
                for name in ("difference_low", "difference_high", "difference")
            )
            kinds = [
                int((high < 0).sum()),
                int(((centre < 0) & (high >= 0)).sum()),
                int(((centre >= 0) & (low <= 0)).sum()),
                int((low > 0).sum()),
            ]
            means = np.array([float(row["mean"]) for row in rows])
            change = 100 * float((means / (means - centre) - 1).mean())
            bars.append((part.title, name, kinds, change))
    titles = [bar[0] for bar in bars]
    gaps = np.cumsum([0, *(0.5 * (a != b) for a, b in pairwise(titles))])
    places = np.arange(len(bars)) + gaps
    figure, (ax,) = _axes(1, 0.27 * (places[-1] + 1) + 1.1)
    for place, (_, _, kinds, change) in zip(places, bars, strict=True):
        left = 0
        for kind, color in zip(kinds, BETTER, strict=True):
            ax.barh(place, kind, left=left, color=color, height=0.82, linewidth=0)
            if kind:
                dark = color in (BETTER[0], BETTER[3])
                shade = "#ffffff" if dark else "#1c2126"
                style = {"ha": "center", "va": "center", "fontsize": SMALL}
                ax.text(left + kind / 2, place, str(kind), color=shade, **style)
            left += kind
        ax.text(left + 0.15, place, f"{change:+.0f} %", color=INK, va="center", fontsize=SMALL)
    _bare(ax)
    ax.set_xlim(right=max(sum(kinds) for _, _, kinds, _ in bars) * 1.12)
    names = [f"{title.strip('`')}: {name}" for title, name, _, _ in bars]
    ax.set_yticks(places, labels=names, fontsize=SMALL)
    ax.set_ylim(places[-1] + 0.6, -0.6)
    baseline = " / ".join(dict.fromkeys(part.about["baseline"] for part in parts))
    told = f"settings, against {baseline} on the same runs; mean change"
    ax.set_xlabel(told, fontsize=TEXT, color=INK)
    patches = require("matplotlib.patches", extra="plot")
    handles = [patches.Patch(color=color) for color in BETTER]
    names = ["significantly lower", "lower", "higher", "significantly higher"]
    _below(figure, handles, names)
    return figure


def coverage(parts: Sequence[Part]) -> Any:
    """A dot for every setting: its mean coverage; a short bar is their mean, a line the target."""
    methods = {name: title for part in parts for name, title in part.methods.items()}
    figure, axes = _axes(len(methods), 0.42 * len(parts) + 0.9)
    means = [float(row["mean"]) for part in parts for row in part.shown()]
    for ax, (method, title) in zip(axes, methods.items(), strict=True):
        for row, part in enumerate(parts):
            found = np.array([float(one["mean"]) for one in part.shown(method)])
            if not found.size:
                continue
            shaken = row + 0.22 * np.sin(2.4 * np.arange(found.size))
            color = look(method.split("/")[0])[0]
            ax.plot(found, shaken, "o", color=color, markersize=4, alpha=0.75)
            ax.plot([found.mean()] * 2, [row - 0.38, row + 0.38], color=INK, linewidth=2)
        for target in {part.about["target"] for part in parts if part.about["target"]}:
            ax.axvline(float(target), color=FAINT, linewidth=1, linestyle="dashed", zorder=0)
        ax.set_yticks(range(len(parts)), labels=[part.title for part in parts], fontsize=SMALL)
        ax.set_ylim(len(parts) - 0.5, -0.5)
        ax.set_xlim(min(means) - 0.5, max(means) + 0.5)
        ax.set_title(title, fontsize=TEXT, color=INK)
        ax.set_xlabel("coverage in %", fontsize=TEXT, color=INK)
        _bare(ax)
    return figure


def times(parts: Sequence[Part]) -> Any:
    """Mean seconds of every method, on a logarithmic axis."""
    (part,) = parts
    asked = [(place, m) for place in part.places() for m in part.methods]
    found = ((place[0], m, part.row(place, m)) for place, m in asked)
    bars = [(name, m, row) for name, m, row in found if row and row["mean"]]
    figure, (ax,) = _axes(1, 0.3 * len(bars) + 0.8)
    for at, (_, method, row) in enumerate(bars):
        seconds = float(row["mean"])
        ax.barh(at, seconds, color=look(method)[0], height=0.7, linewidth=0)
        style = {"va": "center", "fontsize": SMALL, "color": INK}
        ax.text(seconds * 1.05, at, f"{seconds:.{part.digits}f}", **style)
    _logarithmic(ax)
    ax.set_xlim(right=2 * max(float(row["mean"]) for _, _, row in bars))
    names = [f"{place}: {part.methods[method]}" for place, method, _ in bars]
    ax.set_yticks(range(len(bars)), labels=names, fontsize=SMALL)
    ax.set_ylim(len(bars) - 0.5, -0.5)
    ax.set_xlabel(f"{part.title}{_unit(part)}", fontsize=TEXT, color=INK)
    _bare(ax)
    return figure


def grids(parts: Sequence[Part]) -> Any:
    """Heat maps over N and λ, a row for each setting: blue is lower than temperature scaling."""
    (part,) = parts
    panels: dict[tuple[str, str], list[tuple[str, Any, Any]]] = {}
    for place in part.places():
        base = part.row(place, part.about["baseline"])
        for name in GRIDS:
            found = [[part.row(place, grid_label(name, n, w)) for w in WEIGHTS] for n in GROUPS]
            there = [row for line in found for row in line if row and row["mean"]]
            if base is None or len(there) < len(GROUPS) * len(WEIGHTS) // 2:
                continue
            mean, difference = (
                np.array([[_number(row, key) for row in line] for line in found])
                for key in ("mean", "difference")
            )
            runs = sorted({int(row["runs"]) for row in there})
            told = f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else f"{runs[0]}"
            note = f" ({there[0]['note']})" if there[0]["note"] else ""
            reference = float(base["mean"])
            title = f"{name}{note}\ntemperature {reference:.2f}, {told} runs"
            # A single run has no paired difference: it is held against the mean of all runs.
            beside = np.where(np.isnan(difference), reference, mean - difference)
            panels.setdefault(place, []).append((title, mean, np.log2(mean / beside)))
    across = max(map(len, panels.values()))
    figures = require("matplotlib.figure", extra="plot")
    size = (4.6 * across, 3.0 * len(panels) + 0.6)
    figure = figures.Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(panels), across, squeeze=False)
    for row, (place, drawn) in zip(axes, panels.items(), strict=True):
        for ax in row[len(drawn) :]:
            ax.set_axis_off()
        for ax, (title, mean, change) in zip(row, drawn, strict=False):
            _heat(ax, mean, change)
            ax.set_title(f"{place[0]} {place[1].upper()}: {title}", fontsize=9, color=INK)
    return figure


def _heat(ax: Any, mean: Any, change: Any) -> None:
    colors = require("matplotlib.colors", extra="plot")
    ends = [COLORS["under"], "#ffffff", COLORS["over"]]
    shades = colors.LinearSegmentedColormap.from_list("change", ends)
    ax.imshow(change, cmap=shades, vmin=-2, vmax=2, aspect="auto")
    for row, column in zip(*np.nonzero(np.isfinite(mean)), strict=True):
        style = {"ha": "center", "va": "center", "fontsize": 8}
        color = "white" if abs(change[row, column]) > 1 else COLORS["ink"]
        ax.text(column, row, f"{mean[row, column]:.2f}", color=color, **style)
    ax.set_xticks(range(len(WEIGHTS)), labels=map(str, WEIGHTS))
    ax.set_yticks(range(len(GROUPS)), labels=map(str, GROUPS))
    ax.set_xlabel("weight λ", color=INK)
    ax.set_ylabel("number of groups N", color=INK)
    ax.tick_params(colors=INK)


CHARTS: dict[str, Callable[[Sequence[Part]], Any]] = {
    chart.__name__: chart for chart in (dots, changes, counts, coverage, times, grids)
}


def look(method: str) -> tuple[str, str]:
    """Colour and marker of a method; forms of one method share them."""
    return LOOKS.get(method) or LOOKS.get(method.split()[0].split("+")[0], OTHER)


def told(kind: str, parts: Sequence[Part]) -> str:
    """What a chart tells of its numbers: the same for the same numbers."""
    shown = [[p.title, p.about, p.methods, p.shown()] for p in parts]
    bases = [[p.row(place, p.about["baseline"]) for place in p.places()] for p in parts]
    text = json.dumps([LOOK, kind, shown, bases], sort_keys=True)
    return f"<desc>{hashlib.sha256(text.encode()).hexdigest()[:16]}</desc>"


def svg(kind: str, parts: Sequence[Part], title: str) -> str:
    """The chart as text, with its title and the digest of its numbers."""
    matplotlib = require("matplotlib", extra="plot")
    figure = CHARTS[kind](parts)
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(out, format="svg", facecolor=PAPER, metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    for color, name in NAMES.items():
        text = text.replace(color, f"var(--{name})")
    rules = {
        screen: ";".join(
            f"--{name}:{color}" for name, color in zip(NAMES.values(), colors, strict=True)
        )
        for screen, colors in SCREENS.items()
    }
    style = (
        f"<style>svg{{{rules['light']};font-family:system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{{rules['dark']}}}}}</style>"
    )
    name = title.replace("&", "&amp;").replace("<", "&lt;")
    head = f"<title>{name}</title>{told(kind, parts)}{style}"
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"font: ([0-9.]+px) [^;\"]*", r"font-size: \1", text)
    return re.sub(r"(<svg[^>]*>)", lambda m: m[1] + head, text, count=1)


def _axes(count: int, height: float) -> tuple[Any, list[Any]]:
    figures = require("matplotlib.figure", extra="plot")
    figure = figures.Figure(figsize=(WIDTH, height), dpi=INCH, layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, sharey=count > 1)[0])


def _logarithmic(ax: Any) -> None:
    ticks = require("matplotlib.ticker", extra="plot")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticks.LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(ticks.FormatStrFormatter("%g"))
    ax.xaxis.set_minor_formatter(ticks.NullFormatter())


def _bare(ax: Any) -> None:
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(RULE)
    ax.tick_params(which="both", colors=INK, labelsize=SMALL, left=False)
    ax.set_facecolor(PAPER)
    ax.grid(axis="x", color=RULE, linewidth=0.5)
    ax.set_axisbelow(True)


def _settings(ax: Any, places: Sequence[tuple[str, str]], title: str) -> None:
    several = len({backbone for _, backbone in places}) > 1
    names = [f"{a} {b.upper()}" if several else a for a, b in places]
    ax.set_yticks(range(len(places)), labels=names, fontsize=SMALL)
    ax.set_ylim(len(places) - 0.5, -0.5)
    ax.set_xlabel(title, fontsize=TEXT, color=INK)
    _bare(ax)


def _drawn(
    part: Part, methods: Iterable[str], places: Sequence[tuple[str, str]], number: str
) -> Iterator[tuple[float, tuple[str, str], dict[str, str]]]:
    """Height, look and row of every method that has a number, around the centre of its setting."""
    names = list(methods)
    step = min(0.2, 0.8 / max(len(names), 1))
    for (row, place), (k, name) in product(enumerate(places), enumerate(names)):
        found = part.row(place, name)
        if found and found[number]:
            yield row + step * (k - (len(names) - 1) / 2), look(name), found


def _number(row: Any, key: str) -> float:
    return float(row[key]) if row and row[key] else np.nan


def _unit(part: Part) -> str:
    return {"percent": " in %", "nats": " in nats", "seconds": " in seconds"}.get(
        part.about["unit"], ""
    )


def _legend(figure: Any, parts: Sequence[Part], without: Sequence[str] = ()) -> None:
    lines = require("matplotlib.lines", extra="plot")
    names = {m: t for part in parts for m, t in part.methods.items() if m not in without}
    handles = []
    for method in names:
        color, marker = look(method)
        handles.append(lines.Line2D([], [], color=color, marker=marker, linewidth=1.2))
    _below(figure, handles, [title.replace("*", "").replace("`", "") for title in names.values()])


def _below(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    widest = max(map(len, names), default=1)
    columns = max(1, min(len(names), 110 // (widest + 7)))
    place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend(handles, names, fontsize=SMALL, labelcolor=INK, **place)
