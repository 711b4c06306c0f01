"""The report in a real browser: opened from disk, clicked, sorted, hovered, printed."""

import re
import shutil
import sys

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="jinja2 is an optional extra")
from simi_mailbox.report import write_report

if sys.platform == "win32":
    pytest.skip("the browser is driven over a POSIX pipe", allow_module_level=True)
from .browser import Browser, find_chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find_chromium() is None,
        reason="no Chromium on this machine; scripts/install-browser installs one",
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    profile = tmp_path_factory.mktemp("profile")
    with Browser(find_chromium(), profile) as browser:
        yield browser
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture(scope="module")
def address(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(path, **vars(model), title="<b>Cora</b>", class_names=["z", "y", "x", "w"])
    return path.as_uri()


@pytest.fixture
def opened(browser):
    """Open an address; whatever the test does must raise no error and load nothing else."""
    addresses = []

    def open_page(address, width=1280):
        browser.problems.clear()
        browser.requests.clear()
        addresses[:] = [address]
        browser.size(width)
        browser.open(address)
        return browser

    yield open_page
    assert browser.problems == []
    assert set(browser.requests) == set(addresses)


@pytest.fixture
def page(opened, address):
    return opened(address)


def shown(page, selector, value):
    """A value of every element that is visible."""
    return page.run(
        f"[...document.querySelectorAll({selector!r})].filter(e => e.offsetParent !== null)"
        f".map(e => {value})"
    )


def shown_views(page):
    """Views of the reliability diagram that are visible."""
    return shown(page, "section[aria-labelledby=h-reliability] .view", "e.dataset.view")


def column(page, section, number):
    cell = f"row.cells[{number}]"
    value = f"[...e.tBodies[0].rows].map(row => {cell}.dataset.value ?? {cell}.textContent)"
    return shown(page, f"section[aria-labelledby={section}] table", value)[0]


def numbers(page, section):
    return [float(value) for value in column(page, section, 1)]


def scroll_width(page):
    return page.run("document.documentElement.scrollWidth")


def test_the_last_method_is_shown_and_a_click_shows_another_everywhere(page):
    assert page.run("document.title") == "<b>Cora</b>"
    assert shown_views(page) == ["v2"]
    assert scroll_width(page) <= 1280
    page.click("input[value=v0]")
    assert shown_views(page) == ["v0"]
    assert all("v0" in keys.split() for keys in shown(page, ".view", "e.dataset.view"))
    assert page.run("document.querySelector('tr.current').dataset.view") == "v0"
    page.run("document.querySelector('input[value=v2]').focus()")
    page.click("input[value=v2]")
    page.press("ArrowLeft")
    assert shown_views(page) == ["v1"]
    page.size(390)  # a phone
    assert scroll_width(page) <= 390


def test_clicking_a_heading_sorts_and_again_turns_it_round(page):
    before = numbers(page, "h-groups")
    assert before != sorted(before, reverse=True)
    heading = "section[aria-labelledby=h-groups] th:nth-child(2) button"
    page.click(heading)
    assert numbers(page, "h-groups") == sorted(before, reverse=True)
    page.click(heading)
    assert numbers(page, "h-groups") == sorted(before)
    sort = "document.querySelector('section[aria-labelledby=h-groups] th:nth-child(2)').ariaSort"
    assert page.run(sort) == "ascending"


def test_names_sort_as_text_and_unknown_values_come_last(page):
    table = "section[aria-labelledby=h-classes] .view:not([hidden])"
    page.click(f"{table} th:nth-child(1) button")
    assert column(page, "h-classes", 0) == ["w", "x", "y", "z"]
    page.run(f"document.querySelector('{table} td').dataset.value = ''")
    for _ in range(2):
        page.click(f"{table} th:nth-child(2) button")
        assert column(page, "h-classes", 1)[-1] == ""


def test_pictures_tell_their_numbers_under_the_pointer_and_by_arrow_keys(page):
    tip, on = "document.getElementById('tip').textContent", "document.querySelector('#tip.on')"
    page.hover("section[aria-labelledby=h-heat] .view:not([hidden]) .mark")
    assert re.search("node.*confidence", page.run(tip))
    assert page.run(f"{on} !== null")
    page.run("document.querySelector('.view:not([hidden]) svg.chart').focus()")
    page.press("ArrowRight")
    first = page.run(tip)
    page.press("ArrowRight")
    assert first
    assert page.run(tip) != first
    page.press("Escape")
    assert page.run(f"{on} === null")


def test_many_methods_with_long_names_still_fit_a_phone(opened, tmp_path, model):
    flat = np.full((900, 4), 0.25)
    methods = {f"a method with a long name, number {k}": flat for k in range(6)}
    path = write_report(tmp_path / "many.html", **vars(model), methods=methods)
    page = opened(path.as_uri(), 390)
    assert scroll_width(page) <= 390
    assert page.run("document.querySelector('.switch').getBoundingClientRect().width") <= 390
    # One line: a list instead of buttons, and it switches.
    assert page.run("document.querySelector('.switch').getBoundingClientRect().height") < 80
    assert page.run("getComputedStyle(document.querySelector('.options')).display") == "none"
    page.run(
        "(() => { const list = document.querySelector('select[name=view]'); list.value = 'v0';"
        "list.dispatchEvent(new Event('change')); })()"
    )
    assert shown_views(page) == ["v0"]
    assert page.run("document.querySelector('input[name=view]:checked').value") == "v0"


def test_two_hundred_classes_make_no_endless_page(opened, tmp_path):
    rng = np.random.default_rng(0)
    logits = 4 * rng.normal(size=(2000, 200)).astype(np.float32)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    given = {"logits": logits, "y": y, "calibration": range(500), "test": range(500, 2000)}
    path = write_report(tmp_path / "wide.html", **given, methods=["temperature"])
    for width in (390, 1400):
        page = opened(path.as_uri(), width)
        assert page.run("document.documentElement.scrollHeight") < 6000


@pytest.mark.parametrize("dark", [False, True])
def test_colours_follow_the_scheme_and_have_enough_contrast(page, dark):
    page.size(1280, dark=dark)
    style = "getComputedStyle(document.body)"
    back, ink = (rgb(page.run(f"{style}.{name}")) for name in ("backgroundColor", "color"))
    assert sum(back) < 200 if dark else sum(back) > 700
    assert contrast(back, ink) > 7
    for name in ("--muted", "--accent", "--over", "--under"):
        ink = rgb(page.run(f"{style}.getPropertyValue('{name}')"))
        assert contrast(back, ink) > 4.5, name


def test_print_shows_every_view(page):
    page.size(1280, media="print")
    assert shown_views(page) == ["v0", "v1", "v2"]
    assert page.run("getComputedStyle(document.querySelector('.switch')).display") == "none"


def test_pages_own_policy_blocks_the_network(page):
    page.run(
        "window.blocked = 0; document.addEventListener('securitypolicyviolation',"
        " () => { window.blocked += 1; });"
        "new Image().src = 'https://example.invalid/x.png'; fetch('https://example.invalid/')"
        ".catch(() => {}); 0"
    )
    page.run("new Promise(r => setTimeout(r, 300))")
    for _ in range(50):
        if page.run("window.blocked") >= 2:
            break
    assert page.run("window.blocked") >= 2
    page.problems.clear()  # the browser reports what it blocked; nothing was sent
    page.requests[:] = [r for r in page.requests if "invalid" not in r]


def rgb(text):
    """Of ``rgb(1, 2, 3)`` or ``#010203``."""
    if text.startswith("rgb"):
        return [int(part) for part in re.findall(r"\d+", text)]
    return list(bytes.fromhex(text.strip().lstrip("#")))


def contrast(one, two):
    """Contrast ratio of WCAG 2."""

    def luminance(colour):
        parts = [c / 255 for c in colour]
        r, g, b = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_the_slider_tells_what_can_be_decided_in_every_view(page):
    words = "[...document.querySelectorAll('.decide .words')].map(e => e.textContent)"
    slide = "(k => {const s = document.querySelector('.view:not([hidden]) .slider input');"
    slide += "s.value = k; s.dispatchEvent(new Event('input'))})"
    page.run(f"{slide}(0)")
    before = page.run(words)
    page.run(f"{slide}(29)")
    after = page.run(words)
    told = page.run("[...document.querySelectorAll('tr.step:last-child')].map(e => e.dataset.told)")
    assert after == told
    assert any(a != b for a, b in zip(after, before, strict=True))
    outputs = page.run("[...document.querySelectorAll('.decide output')].map(e => e.textContent)")
    assert {text.replace("\u202f", " ") for text in outputs} == {"30 %"}
    place = "Number(document.querySelector('.decide .here').getAttribute('cx'))"
    right = page.run(place)
    page.run(f"{slide}(0)")
    assert page.run(place) < right
