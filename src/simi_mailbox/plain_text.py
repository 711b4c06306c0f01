"""Names that users give, fit to be shown; and what to say to one that nobody knows."""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping

UNSHOWN = "\ufffd"
"""What stands where a character is not shown: the replacement character."""

_COMMANDS = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def plain(text: str) -> str:
    """``text`` with a mark in place of each character that commands instead of being shown.

    These are control characters, which move the cursor of a terminal or colour it, marks that turn
    the direction of writing, which make a page say something else than its source, and halves of
    characters, which no file can hold. Tabs and line ends become spaces. Letters of all scripts
    stay, those written from right to left too.
    """
    return "".join(
        " "
        if character in "\t\n\r"
        else UNSHOWN
        if character in _TURNS or unicodedata.category(character) in _COMMANDS
        else character
        for character in text
    )


def unknown(
    what: str, given: object, choices: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """The message for an unknown name: the nearest that there is, and all choices."""
    names = list(choices)
    by_lower = {name.lower(): name for name in names} | dict(aliases or {})
    close = difflib.get_close_matches(str(given).strip().lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[close[0]]!r}? " if close else ""
    return f"unknown {what} {given!r}; {hint}choices: {', '.join(names)}"
