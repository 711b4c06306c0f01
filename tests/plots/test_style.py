"""Colours that the plots share."""

from simi_mailbox.plots import style


def test_zero_is_the_middle_and_signs_have_the_papers_colours():
    chart = style.diverging("red-green")
    red, green, middle = chart(1.0), chart(0.0), chart(0.5)
    assert red[0] > 0.6 > red[1]
    assert green[1] > 0.3 > green[0]
    assert min(middle[:3]) > 0.9
    blue, orange = style.diverging("blue-orange")(1.0), style.diverging("blue-orange")(0.0)
    assert blue[2] > blue[0]
    assert orange[0] > orange[2]
