"""Names that users give, fit to be shown; and what to say to one that nobody knows."""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping

UNSHOWN = "\ufffd"
"""What stands where a character is not shown: the replacement character."""

_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def plain(text: str) -> str:
    """``text`` on one line, with a mark for each character that commands a terminal or page."""
    text = text.translate(dict.fromkeys(map(ord, "\t\n\r"), " "))
    return "".join(UNSHOWN if _commands(character) else character for character in text)


def _commands(character: str) -> bool:
    return character in _TURNS or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def unknown(
    what: str, given: object, choices: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """The message for an unknown name: the nearest that there is, and all choices."""
    names = list(choices)
    by_lower = {name.lower(): name for name in names} | dict(aliases or {})
    close = difflib.get_close_matches(str(given).strip().lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[close[0]]!r}? " if close else ""
    return f"unknown {what} {given!r}; {hint}choices: {', '.join(names)}"
