"""Numbers as people write them."""

from simi_mailbox.plots.picture import MINUS, THIN, count, nodes, number, percent, points


def test_numbers_are_written_as_people_write_them():
    unknown = float("nan")
    assert (percent(0.9012), percent(0.5, 0), percent(unknown)) == (
        f"90.1{THIN}%",
        f"50{THIN}%",
        "–",
    )
    assert (points(0.031), points(-0.031), points(-0.0001)) == ("+3.1", f"{MINUS}3.1", "0.0")
    assert (count(169343), nodes(1), nodes(2000)) == ("169,343", "1 node", "2,000 nodes")
    assert (number(0.95234), number(unknown), points(unknown)) == ("0.952", "–", "–")
