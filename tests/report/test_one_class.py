"""A report on one class: what is caught and missed comes first; nothing rare is hidden."""

import re

import numpy as np
import pytest

from simi_mailbox import report
from simi_mailbox.report import sentences
from simi_mailbox.report.content import OneClass
from simi_mailbox.report.render import precision_recall
from simi_mailbox.report.sentences import platt_is_as_good
from tests.cli.fraud_files import accounts

NAMES = ("legit", "fraud")


@pytest.fixture(scope="module")
def desk():
    """3 % fraud, and a model trained with class weights."""
    y, score, ends, _ = accounts(3000, 0.03, 3)
    logits = np.stack([np.zeros_like(score), score], axis=1)
    sets = {"calibration": np.arange(1500), "test": np.arange(1500, 3000)}
    return report.read_inputs(logits, ends, y, **sets, class_names=NAMES), y


def gathered(desk, **more):
    return report.gather(desk[0], ["temperature", "platt"], title="Fraud", **more)


def test_the_first_sentence_is_about_the_class(desk):
    content = gathered(desk, positive="fraud", costs=(20.0, 1.0))
    told = "".join(text for text, _ in sentences.verdict(content))
    frauds = int(desk[1][1500:].sum())
    assert told.startswith(f"Of {frauds} fraud among 1,500 nodes, ")
    before, after = content.of_class[0], content.of_class[-1]
    for view in (before, after):
        assert f"{view.at.hits:.0f} are caught by" in told
        assert f"{view.missed} missed" in told
        assert view.missed + view.at.hits == frauds
    assert "Misses and reviews cost" in told
    assert "accuracy" not in told.lower()


def test_no_acceptance_hides_the_frauds(desk):
    """Every step that accepts nearly everybody names the frauds among the accepted."""
    content = gathered(desk)
    after = content.after.decisions
    assert after is not None
    steps = [step for step in after.acceptances if step.share > 0.9 and step.allowed > 0.05]
    assert steps
    for step in steps:
        told = sentences.accepted(step)
        assert re.search(r"Of \d+ nodes of fraud, \d+ are accepted as another class", told)


def test_the_page_has_curve_table_and_names(desk, tmp_path):
    names = [f"account {k}" for k in range(3000)]
    given = {"logits": desk[0].logits, "y": desk[1], "class_names": NAMES, "node_names": names}
    given |= {"calibration": range(1500), "test": range(1500, 3000), "positive": 1}
    path = report.write_report(tmp_path / "report.html", **given, methods=["platt"])
    page = path.read_text("utf-8")
    assert "Precision and recall of fraud" in page
    assert re.search(r'<th scope="row">account \d+</th>', page)
    assert "Caught, fraud" in page.split("</header>")[0]


def test_curve_and_counts_by_hand():
    p = np.array([0.9, 0.8, 0.4, 0.1])
    view = OneClass("m", p, np.array([True, False, True, False]), range(4), (10.0, 1.0))
    assert view.threshold == 0.1
    assert (view.at.alerts, view.at.hits, view.missed, view.cost) == (4, 2, 0, 4.0)
    assert np.allclose(view.curve[0], [0.5, 0.5, 1, 1])
    assert np.allclose(view.curve[1], [1, 0.5, 2 / 3, 0.5])
    assert precision_recall(view, "x").shapes[0].points == 4


def test_platt_is_said_to_be_as_good_where_it_is():
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    y = rng.random(2000) < p
    good, bad = (OneClass(n, q, y, range(2000)) for n, q in (("platt", p), ("x", p**3)))
    other = OneClass("x", p, y, range(2000))
    worse = OneClass("platt", p**3, y, range(2000))
    assert "as good here as x" in platt_is_as_good((good, bad))
    assert "as good" in platt_is_as_good((good, other))
    assert platt_is_as_good((worse, other)) == ""


@pytest.mark.parametrize("positive", ["froud", 7, 1.5])
def test_a_class_that_is_not_there(desk, positive):
    with pytest.raises((ValueError, TypeError), match="positive"):
        gathered(desk, positive=positive)


def test_costs_are_two_positive_numbers(desk, tmp_path):
    with pytest.raises(ValueError, match="two positive numbers"):
        report.write_report(
            tmp_path / "r.html", logits=desk[0].logits, y=desk[1], positive=1, costs=(1.0, -1.0)
        )
    assert not list(tmp_path.iterdir())
