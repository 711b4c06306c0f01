"""SVG elements as text. Every attribute and every text is escaped here, in one place."""

from __future__ import annotations

import html


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


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return html.escape(str(value), quote=True)
