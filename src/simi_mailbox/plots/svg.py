"""Pictures as SVG text. Every attribute and every text is escaped here, in one place."""

import html
from collections.abc import Callable

from simi_mailbox.plots.picture import LETTER, Picture, Shapes

Place = Callable[[float], float]
TOP, RIGHT, BELOW = 12.0, 16.0, 46.0


class Svg(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def tag(name: str, *children: str, **attributes: object) -> Svg:
    """One element; children that are not `Svg` are text, attributes that are None are left out."""
    words = [
        f' {key.rstrip("_").replace("_", "-")}="{attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    inside = [child if isinstance(child, Svg) else html.escape(child) for child in children]
    start = f"<{name}{''.join(words)}"
    return Svg(f"{start}>{''.join(inside)}</{name}>" if children else f"{start}/>")


def svg(picture: Picture) -> Svg:
    """A picture that a screen reader names; arrow keys walk through its marks (``data-tip``)."""
    width, height = picture.size
    letters = max((len(words) for _, words in picture.y.ticks), default=0)
    left = max(14.0, LETTER * letters + 12.0) + (22.0 if picture.y.label else 0.0)
    (x0, x1), (y0, y1) = picture.x.ends, picture.y.ends
    floor = TOP + height

    def x(value: float) -> float:
        return left + width * (value - x0) / (x1 - x0)

    def y(value: float) -> float:
        return TOP + height * (1 - (value - y0) / (y1 - y0))

    def text(words: str, x: float | None, y: float | None, **look: object) -> Svg:
        return tag("text", words, x=x, y=y, **{"class_": "tick", "text_anchor": "middle", **look})

    parts = []
    for value, words in picture.y.ticks:
        if picture.y.grid:
            parts.append(_stick(left, y(value), left + width, y(value), class_="grid"))
        parts.append(text(words, left - 8, y(value) + 4, text_anchor="end"))
    for value, words in picture.x.ticks:
        if picture.x.grid:
            parts.append(_stick(x(value), TOP, x(value), floor, class_="grid"))
        parts.append(text(words, x(value), floor + 18))
    parts.append(text(picture.x.label, left + width / 2, floor + 40, class_="axis"))
    if picture.y.label:
        turned = f"translate(13 {TOP + height / 2:.0f}) rotate(-90)"
        parts.append(text(picture.y.label, None, None, class_="axis", transform=turned))
    for shapes in picture.shapes:
        parts += _drawn(shapes, x, y)
    below = BELOW if picture.x.label else BELOW - 20
    box = f"0 0 {attribute(left + width + RIGHT)} {attribute(floor + below)}"
    look = {"class_": "chart", "role": "img", "aria_label": picture.name, "tabindex": "0"}
    return tag("svg", *parts, viewBox=box, **look)


def legend(picture: Picture) -> Svg:
    """What the shapes of a picture mean, as a list with a sample of each."""
    items = [tag("li", _sample(shapes), shapes.label) for shapes in picture.shapes if shapes.label]
    return tag("ul", *items, class_="legend") if items else Svg("")


def _sample(shapes: Shapes) -> Svg:
    style = {"class_": shapes.style, "fill_opacity": _opacity(shapes.strength)}
    if shapes.kind == "dots":
        inside = tag("circle", cx=11.0, cy=6.0, r=4.0, **style)
    elif shapes.kind in ("boxes", "area"):
        inside = tag("rect", x=3.0, y=1.0, width=16.0, height=10.0, **style)
    else:
        inside = _stick(2.0, 6.0, 20.0, 6.0, class_=shapes.style)
    return tag("svg", inside, viewBox="0 0 22 12", aria_hidden="true")


def _drawn(shapes: Shapes, x: Place, y: Place) -> list[Svg]:
    rows = list(zip(*(column.tolist() for column in shapes.columns()), strict=True))
    if shapes.kind in ("line", "area"):
        places = " ".join(f"{x(row[0]):.1f},{y(row[1]):.1f}" for row in rows)
        name = "polyline" if shapes.kind == "line" else "polygon"
        return [tag(name, points=places, class_=shapes.style)] if places else []
    parts, tips = [], shapes.tips or [""] * len(rows)
    for (x1, y1, x2, y2, radius, strength), tip in zip(rows, tips, strict=True):
        style = f"{shapes.style} mark" if tip else shapes.style
        look = {"class_": style, "fill_opacity": _opacity(strength), "data_tip": tip or None}
        a, b, c, d = x(x1), y(y1), x(x2), y(y2)
        if shapes.kind == "dots":
            parts.append(tag("circle", cx=a, cy=b, r=float(radius), **look))
        elif shapes.kind == "sticks":
            parts.append(_stick(a, b, c, d, class_=style, data_tip=tip or None))
        else:
            box = {"x": min(a, c), "y": min(b, d), "width": abs(c - a), "height": abs(d - b)}
            parts.append(tag("rect", **box, **look))
    return parts


def _stick(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> Svg:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def _opacity(strength: object) -> float | None:
    """A single strength, unless it is that of the style sheet."""
    return round(strength, 2) if isinstance(strength, float) and strength < 1 else None


def attribute(value: object) -> str:
    """A value between quotes: numbers with two digits at most, text escaped."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return html.escape(str(value), quote=True)
