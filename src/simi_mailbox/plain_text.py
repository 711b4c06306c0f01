"""Names that users give, fit to be shown."""

import unicodedata

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
