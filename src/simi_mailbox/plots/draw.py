"""Pictures on matplotlib axes. Nothing here touches matplotlib's global settings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from simi_mailbox._extras import require
from simi_mailbox.plots.picture import Picture, Shapes

COLORS = {
    "accent": "#0f766e",
    "over": "#b54c05",
    "under": "#2468b2",
    "muted": "#5a646e",
    "ghost": "#9aa3ab",
    "rule": "#d9dde2",
    "ink": "#1c2126",
}
"""Those of the report's light page: apart under every common kind of colour blindness."""
INCH = 92.0
"""Pixels of the report in an inch of a new figure."""


class Style(NamedTuple):
    """Colour of a style, width of its lines (points), opacity, dash, and whether dots are full."""

    color: str
    width: float = 1.6
    alpha: float = 1.0
    dash: Any = "solid"
    full: bool = True
    hatch: str = ""


DASHED = (0, (4, 4))
STYLES = {
    "curve": Style("accent", 1.8),
    "before": Style("ghost", 1.4),
    "diagonal": Style("ghost", 1.0, dash=DASHED),
    "band": Style("accent", 5.0, 0.28),
    "whisker": Style("accent", 2.0),
    "bar": Style("accent", 0.0, 0.45),
    "amount": Style("accent", 0.0),
    "over": Style("over", 1.8),
    "under": Style("under", 1.8),
    "over group": Style("over", 0.6),
    "under group": Style("under", 0.6),
    "amount group": Style("accent", 0.6),
    "empty": Style("rule", 0.0, 0.5, hatch="////"),
    "dot": Style("accent"),
    "dot here": Style("accent"),
    "dot few": Style("accent", 1.0, 0.7, full=False),
    "dot confidence": Style("muted", 1.4, full=False),
}
UNSEEN = "column"
"""The style of what only the pointer finds."""


def draw(picture: Picture, ax: Any, colors: Mapping[str, str], legend: bool) -> Any:
    """Draw a picture on ``ax``, or on the axes of a new figure; returns the axes."""
    unknown = sorted(set(colors) - set(COLORS))
    if unknown:
        raise ValueError(f"colors has {unknown}; expected some of {', '.join(COLORS)}")
    if ax is None:
        pyplot = require("matplotlib.pyplot", extra="plot")
        inches = (picture.size[0] / INCH + 1.0, picture.size[1] / INCH + 1.2)
        _, ax = pyplot.subplots(figsize=inches, layout="constrained")
    palette = {**COLORS, **colors}
    for shapes in picture.shapes:
        if shapes.style != UNSEEN and shapes.points:
            _add(ax, shapes, STYLES[shapes.style], palette)
    _frame(ax, picture, palette)
    # Above the axes, where it covers no data; pictures that were drawn there before stay in it.
    handles = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    if legend and handles:
        look = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
        look |= {"fontsize": 8, "labelcolor": palette["ink"], "frameon": False, "handlelength": 1.5}
        look |= {"ncols": 1 if len(handles) < 3 else 2, "columnspacing": 1.0, "handletextpad": 0.6}
        ax.legend(handles.values(), handles.keys(), **look)
    return ax


def _add(ax: Any, shapes: Shapes, look: Style, palette: Mapping[str, str]) -> None:
    color, (x, y, x2, y2, radius, strength) = palette[look.color], shapes.columns()
    # Over white, a colour of half the strength is the colour with half the opacity.
    shades = [(color, float(value)) for value in strength * look.alpha]
    if shapes.kind in ("line", "sticks"):
        ends = (x, y) if shapes.kind == "line" else ([x, x2], [y, y2])
        style = {"color": color, "linewidth": look.width, "linestyle": look.dash}
        made = ax.plot(*ends, **style, alpha=look.alpha, solid_capstyle="butt")
    elif shapes.kind == "area":
        made = ax.fill(x, y, color=color, alpha=0.15, linewidth=0)
    elif shapes.kind == "dots":
        edge = palette["ink"] if shapes.style.endswith("group") else color
        style = {"edgecolors": edge, "linewidths": look.width / 2, "zorder": 3, "clip_on": False}
        faces = shades if look.full else ["white"]
        ax.scatter(x, y, s=(1.5 * radius) ** 2, facecolors=faces, **style)
        made = [ax.scatter([], [], s=25.0, facecolors=faces[:1], **style)]  # for the legend
    else:
        patches, made = require("matplotlib.patches", extra="plot"), []
        for left, low, right, high, shade in zip(x, y, x2, y2, shades, strict=True):
            # A hatched box has no face; its lines have the colour of its edge.
            face, edge = ("none", color) if look.hatch else (shade, "none")
            style = {"facecolor": face, "edgecolor": edge, "hatch": look.hatch, "linewidth": 0}
            box = (left, low), right - left, high - low
            made.append(ax.add_patch(patches.Rectangle(*box, **style)))
    made[0].set_label(shapes.label or "_nolegend_")


def _frame(ax: Any, picture: Picture, palette: Mapping[str, str]) -> None:
    for name, axis in (("x", picture.x), ("y", picture.y)):
        values, words = [value for value, _ in axis.ticks], [word for _, word in axis.ticks]
        ax.set(**{f"{name}ticks": values, f"{name}ticklabels": words, f"{name}lim": axis.ends})
        getattr(ax, f"set_{name}label")(axis.label, color=palette["ink"])
        if axis.grid:
            ax.grid(axis=name, color=palette["rule"], linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color(palette["rule"])
    ax.tick_params(colors=palette["muted"], labelsize=9, length=3)
    ax.set_axisbelow(True)
    if picture.square:
        ax.set_aspect("equal")
