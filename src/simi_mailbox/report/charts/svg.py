"""SVG elements as text. Every attribute and every text is escaped here, in one place."""

from __future__ import annotations

import html
import math


class Svg(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def tag(name: str, *children: str, **attributes: object) -> Svg:
    """One element. ``class_`` and ``stroke_width`` become ``class`` and ``stroke-width``.

    Children that are not `Svg` are text. Attributes that are None are left out.

    Examples
    --------
    >>> tag("text", "a < b", x=1.5, class_="tick")
    '<text x="1.5" class="tick">a &lt; b</text>'
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"')
    if not children:
        parts.append("/>")
        return Svg("".join(parts))
    parts.append(">")
    parts.extend(child if isinstance(child, Svg) else html.escape(child) for child in children)
    parts.append(f"</{name}>")
    return Svg("".join(parts))


def join(parts: list[Svg]) -> Svg:
    """Elements one after the other."""
    return Svg("".join(parts))


def picture(width: float, height: float, label: str, *children: Svg, class_: str) -> Svg:
    """A picture that scales to its column and that a screen reader names.

    It can be focused; arrow keys then walk through its marks (elements with ``data-tip``).
    """
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        class_=f"chart {class_}",
        role="img",
        aria_label=label,
        tabindex="0",
    )


def text(words: str, x: float, y: float, anchor: str = "middle", *, class_: str = "tick") -> Svg:
    """A word at a place: the number at a tick, unless ``class_`` says what else it is."""
    return tag("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def rect(x: float, y: float, width: float, height: float, /, **attributes: object) -> Svg:
    """A rectangle by its upper left corner; with ``data_tip`` it is what the pointer hits."""
    return tag("rect", x=x, y=y, width=width, height=height, **attributes)


def upright(words: str, middle: float) -> Svg:
    """The name of the vertical axis, written upwards around ``middle``."""
    turned = f"translate(13 {middle:.0f}) rotate(-90)"
    return tag("text", words, transform=turned, class_="axis", text_anchor="middle")


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` multiples of 1, 2 or 5 times a power of ten between ``low`` and ``high``.

    Examples
    --------
    >>> ticks(0.21, 1.0)
    [0.4, 0.6, 0.8, 1.0]
    >>> ticks(0.93, 0.97)
    [0.93, 0.94, 0.95, 0.96, 0.97]
    """
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = power
    for factor in (1, 2, 5, 10):
        step = factor * power
        if (high - low) / step + 1 <= most + 1e-9:
            break
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return html.escape(str(value), quote=True)
