"""The page: well-formed, complete, escaped; it names what is missing."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.report import write_report

EVIL = "<script>alert(1)</script>\"'&"
VOID = {"meta", "link", "input", "br", "wbr"}
PRIVATE = re.compile(
    r"\b(sure|unsure|said|says|promise[ds]?|strangers|no news|blind|by chance alone)\b"
)


class Page(HTMLParser):
    """Text, attributes and balance of tags of a page."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(html)
        self.close()

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).replace("\u202f", " ").split())

    def values(self, *names):
        return [value for name, value in self.attributes if name in names]


def page_of(tmp_path, given, **changes):
    path = write_report(tmp_path / "report.html", **{**given, **changes})
    html = path.read_text("utf-8")
    page = Page(html)
    assert page.open == []
    return page, html


def test_page_is_complete_and_loads_nothing(tmp_path, given):
    page, html = page_of(tmp_path, given, title="Cora")
    for value in page.values("src", "href", "srcset", "action", "data"):
        assert value.startswith(("data:", "#"))
    assert re.findall("https?://|@import", html) == []
    assert html.count("url(") == html.count("url(#hatch)") == 1
    policy = next(value for value in page.values("content") if "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    headings = ("Calibration error", "Reliability diagram", "Groups", "Classes", "Settings")
    for words in (*headings, "Decisions", "Neighbourhood", "Temperatures", "simi-mailbox 0"):
        assert words in page.text
    assert "Warnings" not in page.text


@pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        *({name: None} for name in ("y", "test", "graph")),
        {"calibration": [0, 1]},
        {"logits": "three"},
    ],
)
def test_the_page_uses_the_words_of_the_field_and_prints_no_nan(tmp_path, given, changes):
    if "logits" in changes:  # no node is ever given the last class
        changes = {"logits": np.where(np.arange(4) == 3, -50.0, given["logits"])}
    page, _ = page_of(tmp_path, given, **changes)
    told = " ".join([page.text, *page.values("data-tip", "aria-label")])
    assert PRIVATE.findall(told) == []
    assert "nan" not in told.lower().split()
    assert not any("nan" in v for v in page.values("data-value", "x", "y", "points", "r"))


def test_counts_and_accuracies_of_classes_are_those_of_the_method_shown(tmp_path, given):
    turned = np.roll(np.eye(4)[given["logits"].argmax(1)] * 0.6 + 0.1, 1, axis=1)
    _, html = page_of(tmp_path, given, methods={"turned": turned})
    part = html[html.index('id="h-classes"') : html.index('id="h-settings"')]
    tables = [re.findall(r'data-value="(\d+)"', table) for table in part.split("<table>")[1:]]
    first, second = ([int(n) for n in table if int(n) > 1][:4] for table in tables)
    test = given["test"]
    assert first == np.bincount(given["logits"][test].argmax(1), minlength=4).tolist()
    assert second == np.bincount(turned[test].argmax(1), minlength=4).tolist()
    assert first != second


def test_names_of_users_are_text_and_never_markup(tmp_path, given):
    methods = {EVIL: "simi-mailbox", "b" + EVIL: "temperature"}
    names = [EVIL, "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "plain"]
    page, html = page_of(tmp_path, given, title=EVIL, methods=methods, class_names=names)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert "alert(1)</script>" not in html.replace("&lt;", "")
    for name in names:
        assert name in page.text
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert any(EVIL in label for label in page.values("aria-label"))


def test_names_of_users_command_no_page(tmp_path, given):
    turned = "99\u202e%1 sure\u2066\x1b[31m\ud800"
    changes = {"title": turned, "class_names": [turned, "\u200f", "שלום", "مرحبا"]}
    page, html = page_of(tmp_path, given, methods={turned: "temperature"}, **changes)
    assert not set(turned) & set(html) - set("99%1 sure[31m")
    assert "\u200f" not in html
    shown = "99\ufffd%1 sure\ufffd\ufffd[31m\ufffd"
    assert page.text.count(shown) >= 4  # title twice, method, class
    assert "שלום" in page.text
    assert "مرحبا" in page.text


def test_every_picture_has_a_name_and_every_table_its_headings(tmp_path, given):
    page, html = page_of(tmp_path, given)
    charts = re.findall(r'<svg [^>]*class="chart[^>]*>', html)
    assert len(charts) > 10
    assert all('aria-label="' in chart and 'role="img"' in chart for chart in charts)
    assert set(page.values("scope")) == {"col", "row"}
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(page.values("aria-labelledby")) <= set(ids)


@pytest.mark.parametrize(
    ("changes", "there", "absent"),
    [
        ({"y": None}, ("Missing", "No labels were given", "Neighbourhood"), ("Calibration error",)),
        (
            dict.fromkeys(("y", "graph", "test", "calibration")),
            ("900 nodes", "No edges were given"),
            (),
        ),
        ({"test": [500], "methods": ["temperature"]}, ("1 test nodes",), ()),
    ],
)
def test_whatever_is_given_makes_a_report_that_names_what_is_missing(
    tmp_path, given, changes, there, absent
):
    page, _ = page_of(tmp_path, given, **changes)
    assert all(words in page.text for words in there)
    assert not any(words in page.text for words in absent)


def test_thousands_of_classes_are_cut_to_the_largest(tmp_path):
    logits = np.random.default_rng(0).normal(size=(300, 1000)).astype(np.float32)
    alone = {"logits": logits, "y": logits.argmax(1), "test": np.arange(300)}
    page, _ = page_of(tmp_path, alone, methods=[])
    assert "The 200 largest of 1,000 classes" in page.text


def test_nothing_half_written_is_left_behind(tmp_path, given, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(target, **given, methods=[])
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_methods_complain_of_stands_at_the_top(tmp_path, given):
    given["y"] = given["logits"].argmax(1)  # all calibration nodes right: certainty is likeliest
    told = "temperature: the temperature lies on its bound"
    with pytest.warns(CalibrationWarning, match=told):
        _, html = page_of(tmp_path, given, methods=["temperature"])
    top, _, _ = html.partition("</header>")
    assert "Warnings" in top
    assert told in top
