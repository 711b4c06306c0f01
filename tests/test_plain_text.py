"""Names of users are shown as they are, but for what would command a page or a terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.plain_text import UNSHOWN, plain, unknown


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_commands_and_all_else_stays(text):
    shown = plain(text)
    shown.encode()
    assert len(shown) == len(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert all(a == b for a, b in zip(text, shown, strict=True) if b not in (UNSHOWN, " "))
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not turning & {unicodedata.bidirectional(c) for c in shown}


def test_letters_of_all_scripts_stay():
    for text in ("שלום", "مرحبا", "नमस्ते", "می\u200cخواهم", "👩\u200d💻", "é e\u0301"):
        assert plain(text) == text
    # Lines become one.
    assert plain("a\nb\tc\rd") == "a b c d"


def test_an_unknown_name_is_told_the_nearest_and_all_choices():
    # Case and blanks do not hide it, and an alias counts.
    assert "did you mean 'CoraFull'?" in unknown("dataset", " corafulll ", ["Cora", "CoraFull"])
    said = unknown("dataset", "redit", ["Reddit2", "Cora"], {"reddit": "Reddit2"})
    assert said == "unknown dataset 'redit'; did you mean 'Reddit2'? choices: Reddit2, Cora"
    # Without a near one, the choices alone.
    assert unknown("table", 7, ["table1"]) == "unknown table 7; choices: table1"
