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

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).replace("\u202f", " ").split())


def page_of(tmp_path, given, **changes):
    path = write_report(tmp_path / "report.html", **{**given, **changes})
    html = path.read_text("utf-8")
    page = Page(html)
    assert page.open == []
    return page, html


def test_page_is_complete_and_loads_nothing(tmp_path, given):
    page, html = page_of(tmp_path, given, title="Cora")
    for _, name, value in page.attributes:
        if name in ("src", "href", "srcset", "action", "data"):
            assert value.startswith(("data:", "#"))
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert html.count("url(") == html.count("url(#hatch)") == 1
    policy = next(v for _, n, v in page.attributes if n == "content" and "default-src" in v)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for heading in ("Calibration error", "Reliability diagram", "Groups", "Classes", "Settings"):
        assert heading in page.text
    for heading in ("Decisions", "Neighbourhood", "Temperatures"):
        assert heading in page.text
    assert "simi-mailbox 0" in page.text


def test_the_page_uses_the_words_of_the_field(tmp_path, given):
    for changes in ({}, {"y": None}, {"graph": None}, {"calibration": [0, 1]}):
        page, _ = page_of(tmp_path, given, **changes)
        tips = [value for _, name, value in page.attributes if name in ("data-tip", "aria-label")]
        assert PRIVATE.findall(" ".join([page.text, *tips])) == []


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
    assert EVIL in page.text
    assert "<img src=x onerror=alert(1)>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    labels = [value for _, name, value in page.attributes if name == "aria-label"]
    assert any(EVIL in label for label in labels)


def test_names_of_users_command_no_page(tmp_path, given):
    turned = "99\u202e%1 sure\u2066\x1b[31m\ud800"
    changes = {"title": turned, "class_names": [turned, "\u200f", "שלום", "مرحبا"]}
    page, html = page_of(tmp_path, given, methods={turned: "temperature"}, **changes)
    assert not set(turned) & set(html) - set("99%1 sure[31m")
    assert "\u200f" not in html
    assert (
        page.text.count("99\ufffd%1 sure\ufffd\ufffd[31m\ufffd") >= 4
    )  # title twice, method, class
    assert "שלום" in page.text
    assert "مرحبا" in page.text


def test_every_picture_has_a_name_and_every_table_its_headings(tmp_path, given):
    page, html = page_of(tmp_path, given)
    charts = re.findall(r'<svg [^>]*class="chart[^>]*>', html)
    assert len(charts) > 10
    assert all('aria-label="' in chart and 'role="img"' in chart for chart in charts)
    assert "th" in page.tags
    assert all(value in ("col", "row") for tag, name, value in page.attributes if name == "scope")
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = [value for _, name, value in page.attributes if name == "aria-labelledby"]
    assert set(named) <= set(ids)


def test_no_number_is_printed_as_nan(tmp_path, given):
    empty = given["logits"].copy()
    empty[:, 3] = -50.0  # no node is ever given the last class
    for changes in ({}, {"logits": empty}, {"y": None}, {"test": None}, {"graph": None}):
        page, _ = page_of(tmp_path, given, **changes)
        assert "nan" not in page.text.lower().split()
        values = [v for _, n, v in page.attributes if n in ("data-value", "x", "y", "points", "r")]
        assert not any("nan" in value for value in values)


def test_without_labels_the_report_says_what_is_missing(tmp_path, given):
    page, _ = page_of(tmp_path, given, y=None)
    assert "Missing" in page.text
    assert "No labels were given" in page.text
    assert "Calibration error" not in page.text
    assert "Neighbourhood" in page.text


def test_with_only_logits_there_is_still_a_report(tmp_path, given):
    page, _ = page_of(tmp_path, {"logits": given["logits"]})
    assert "900 nodes" in page.text
    assert "No edges were given" in page.text


def test_a_single_judged_node_is_enough(tmp_path, given):
    page, _ = page_of(tmp_path, given, test=[500], methods=["temperature"])
    assert "1 test nodes" in page.text


def test_thousands_of_classes_are_cut_to_the_largest(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 1000)).astype(np.float32)
    page, _ = page_of(
        tmp_path, {"logits": logits, "y": logits.argmax(1), "test": np.arange(300)}, methods=[]
    )
    assert "The 200 largest of 1,000 classes" in page.text


def test_same_input_same_file(tmp_path, given):
    first = page_of(tmp_path, given)[1]
    second = page_of(tmp_path, given)[1]
    timeless = re.compile(r"fitted in [\d.]+ s")
    assert timeless.sub("", first) == timeless.sub("", second)


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


def test_a_missing_folder_is_named(tmp_path, given):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_report(tmp_path / "nowhere" / "report.html", **given, methods=[])


def test_what_methods_complain_of_stands_at_the_top(tmp_path, given):
    given["y"] = given["logits"].argmax(1)  # all calibration nodes right: certainty is likeliest
    with pytest.warns(CalibrationWarning, match="temperature: the temperature lies on its bound"):
        file = write_report(tmp_path / "r.html", **given, methods=["temperature"])
    text = file.read_text("utf-8")
    top = text[: text.index("</header>")]
    assert "Warnings" in top
    assert "temperature: the temperature lies on its bound" in top


def test_a_sound_report_says_nothing_is_wrong(tmp_path, given):
    text = write_report(tmp_path / "r.html", **given, methods=["temperature"]).read_text("utf-8")
    assert "Warnings" not in text


def test_training_nodes_do_not_calibrate(tmp_path, given):
    with pytest.raises(ValueError, match="50 nodes are both in calibration and in train"):
        write_report(tmp_path / "r.html", **{**given, "test": None}, train=range(150, 300))
