"""Numbers as people write them."""

from __future__ import annotations

import math

THIN = "\u202f"  # narrow no-break space: "90 %" never falls apart at a line's end
MINUS = "\u2212"


def percent(value: float, digits: int = 1) -> str:
    """Share as a percentage.

    Examples
    --------
    >>> percent(0.9012).replace(THIN, " "), percent(float("nan"))
    ('90.1 %', '–')
    """
    if math.isnan(value):
        return "–"
    return f"{100 * value:.{digits}f}{THIN}%"


def points(value: float, digits: int = 1) -> str:
    """Difference of two shares, in percentage points, with its sign.

    Examples
    --------
    >>> points(0.031), points(-0.031) == MINUS + "3.1"
    ('+3.1', True)
    """
    if math.isnan(value):
        return "–"
    text = f"{abs(100 * value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def count(value: int) -> str:
    """Whole number with separators.

    Examples
    --------
    >>> count(169343)
    '169,343'
    """
    return f"{int(value):,}"


def nodes(value: int) -> str:
    """Number of nodes.

    Examples
    --------
    >>> nodes(1), nodes(2000)
    ('1 node', '2,000 nodes')
    """
    return f"{count(value)} node{'' if value == 1 else 's'}"


def number(value: float, digits: int = 3) -> str:
    """Plain number.

    Examples
    --------
    >>> number(0.95234), number(float("nan"))
    ('0.952', '–')
    """
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
