"""What is said to a name that nobody knows."""

from simi_mailbox.plain_text import unknown


def test_case_and_blanks_do_not_hide_the_nearest_name():
    assert "did you mean 'CoraFull'?" in unknown("dataset", " corafulll ", ["Cora", "CoraFull"])


def test_an_alias_counts_and_what_it_stands_for_is_named():
    said = unknown("dataset", "redit", ["Reddit2", "Cora"], {"reddit": "Reddit2"})
    assert said == "unknown dataset 'redit'; did you mean 'Reddit2'? choices: Reddit2, Cora"


def test_what_is_near_to_nothing_gets_the_choices_alone():
    assert unknown("table", 7, ["table1"]) == "unknown table 7; choices: table1"
