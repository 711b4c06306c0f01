"""What to say to a name that nobody knows."""

import difflib
from collections.abc import Iterable, Mapping


def unknown(
    what: str, given: object, choices: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """The message for an unknown name: the nearest that there is, and all choices."""
    names = list(choices)
    by_lower = {name.lower(): name for name in names} | dict(aliases or {})
    close = difflib.get_close_matches(str(given).strip().lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[close[0]]!r}? " if close else ""
    return f"unknown {what} {given!r}; {hint}choices: {', '.join(names)}"
