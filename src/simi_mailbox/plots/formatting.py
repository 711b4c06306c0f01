"""Numbers as people write them."""

from __future__ import annotations

import math

THIN = "\u202f"  # narrow no-break space: "90 %" never falls apart at a line's end
MINUS = "\u2212"


def percent(value: float, digits: int = 1) -> str:
    """Share as a percentage: 90.1 %."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}{THIN}%"


def points(value: float, digits: int = 1) -> str:
    """Difference of two shares, in percentage points, with its sign: +3.1."""
    if math.isnan(value):
        return "–"
    text = f"{abs(100 * value):.{digits}f}"
    sign = "+" if value > 0 else MINUS
    return text if float(text) == 0 else f"{sign}{text}"


def count(value: int) -> str:
    """Whole number with separators: 169,343."""
    return f"{int(value):,}"


def nodes(value: int) -> str:
    """Number of nodes: 1 node, 2,000 nodes."""
    return f"{count(value)} node{'' if value == 1 else 's'}"


def number(value: float, digits: int = 3) -> str:
    """Plain number."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
