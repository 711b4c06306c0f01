"""The report in a real browser: opened from disk, clicked, sorted, hovered, printed."""

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

VISIBLE = "getComputedStyle(document.querySelector({!r})).display !== 'none'"


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
def page(browser, address):
    """The report, just opened; whatever the test does must raise no error and load nothing."""
    browser.problems.clear()
    browser.requests.clear()
    browser.size(1280)
    browser.open(address)
    yield browser
    assert browser.problems == []
    assert set(browser.requests) == {address}


def shown_views(page):
    """Views of the reliability diagram that are visible."""
    return page.run(
        "[...document.querySelectorAll('section[aria-labelledby=h-reliability] .view')]"
        ".filter(e => e.offsetParent !== null).map(e => e.dataset.view)"
    )


def column(page, section, number):
    return page.run(
        f"[...document.querySelectorAll('section[aria-labelledby={section}] table')]"
        ".filter(e => e.offsetParent !== null)[0].tBodies[0].rows.length && "
        f"[...[...document.querySelectorAll('section[aria-labelledby={section}] table')]"
        ".filter(e => e.offsetParent !== null)[0].tBodies[0].rows]"
        f".map(row => row.cells[{number}].dataset.value ?? row.cells[{number}].textContent)"
    )


def test_opens_from_disk_with_the_last_method_shown(page):
    assert page.run("document.title") == "<b>Cora</b>"
    assert shown_views(page) == ["v2"]
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_the_demos_own_report_opens_switches_and_sorts(browser, tmp_path):
    from click.testing import CliRunner

    from simi_mailbox.cli.demo import demo

    result = CliRunner().invoke(demo, ["--out", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    address = (tmp_path / "report.html").as_uri()
    browser.problems.clear()
    browser.requests.clear()
    browser.size(1280)
    browser.open(address)
    browser.click("input[value=v0]")
    assert shown_views(browser) == ["v0"]
    browser.click("section[aria-labelledby=h-classes] th:nth-child(2) button")
    sizes = [float(value) for value in column(browser, "h-classes", 1)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 3
    assert browser.problems == []
    assert set(browser.requests) == {address}


def test_clicking_the_switch_shows_another_view_everywhere(page):
    page.click("input[value=v0]")
    assert shown_views(page) == ["v0"]
    visible = page.run(
        "[...document.querySelectorAll('.view')].filter(e => e.offsetParent !== null)"
        ".every(e => e.dataset.view.split(' ').includes('v0'))"
    )
    assert visible
    assert page.run("document.querySelector('tr.current').dataset.view") == "v0"
    page.click("input[value=v1]")
    assert shown_views(page) == ["v1"]


def test_the_switch_works_with_the_keyboard(page):
    page.run("document.querySelector('input[value=v2]').focus()")
    page.press("ArrowLeft")
    assert shown_views(page) == ["v1"]


def test_clicking_a_heading_sorts_and_again_turns_it_round(page):
    before = [float(v) for v in column(page, "h-groups", 1)]
    assert before != sorted(before, reverse=True)
    heading = "section[aria-labelledby=h-groups] th:nth-child(2) button"
    page.click(heading)
    sizes = [float(v) for v in column(page, "h-groups", 1)]
    assert sizes == sorted(before, reverse=True)
    page.click(heading)
    assert [float(v) for v in column(page, "h-groups", 1)] == sorted(before)
    sort = "document.querySelector('section[aria-labelledby=h-groups] th:nth-child(2)').ariaSort"
    assert page.run(sort) == "ascending"


def test_names_sort_as_text_and_unknown_values_come_last(page):
    page.click("section[aria-labelledby=h-classes] .view:not([hidden]) th:nth-child(1) button")
    assert column(page, "h-classes", 0) == ["w", "x", "y", "z"]
    page.run(
        "document.querySelector('section[aria-labelledby=h-classes] .view:not([hidden]) td')"
        ".dataset.value = ''"
    )
    for _ in range(2):
        page.click("section[aria-labelledby=h-classes] .view:not([hidden]) th:nth-child(2) button")
        assert column(page, "h-classes", 1)[-1] == ""


def test_hovering_tells_the_counts(page):
    page.hover("section[aria-labelledby=h-heat] .view:not([hidden]) .mark")
    text = page.run("document.getElementById('tip').textContent")
    assert "node" in text
    assert "confidence" in text
    assert page.run("document.getElementById('tip').classList.contains('on')")


def test_arrow_keys_walk_through_a_picture(page):
    page.run("document.querySelector('.view:not([hidden]) svg.chart').focus()")
    page.press("ArrowRight")
    first = page.run("document.getElementById('tip').textContent")
    page.press("ArrowRight")
    assert first
    assert page.run("document.getElementById('tip').textContent") != first
    page.press("Escape")
    assert not page.run("document.getElementById('tip').classList.contains('on')")


def test_nothing_is_wider_than_a_phone(page):
    page.size(390)
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert page.run("document.querySelector('.switch').getBoundingClientRect().width") <= 390


def test_many_methods_with_long_names_still_fit_a_phone(browser, tmp_path, model):
    flat = np.full((900, 4), 0.25)
    methods = {f"a method with a long name, number {k}": flat for k in range(6)}
    path = write_report(tmp_path / "many.html", **vars(model), methods=methods)
    browser.size(390)
    browser.open(path.as_uri())
    assert browser.run("document.documentElement.scrollWidth") <= 390
    # One line: a list instead of buttons, and it switches.
    assert browser.run("document.querySelector('.switch').getBoundingClientRect().height") < 80
    assert browser.run("getComputedStyle(document.querySelector('.options')).display") == "none"
    browser.run(
        "(() => { const list = document.querySelector('select[name=view]'); list.value = 'v0';"
        "list.dispatchEvent(new Event('change')); })()"
    )
    assert shown_views(browser) == ["v0"]
    assert browser.run("document.querySelector('input[name=view]:checked').value") == "v0"


@pytest.mark.parametrize("width", [390, 1400])
def test_two_hundred_classes_make_no_endless_page(browser, tmp_path, width):
    rng = np.random.default_rng(0)
    logits = 4 * rng.normal(size=(2000, 200)).astype(np.float32)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    given = {"logits": logits, "y": y, "calibration": range(500), "test": range(500, 2000)}
    path = write_report(tmp_path / "wide.html", **given, methods=["temperature"])
    browser.size(width)
    browser.open(path.as_uri())
    assert browser.run("document.documentElement.scrollHeight") < 6000


def test_dark_mode_is_dark_and_readable(page):
    def colours():
        return [
            [int(c) for c in page.run(f"getComputedStyle(document.body).{name}")[4:-1].split(",")]
            for name in ("backgroundColor", "color")
        ]

    light, dark = colours(), (page.size(1280, dark=True), colours())[1]
    assert sum(light[0]) > 700 > 200 > sum(dark[0])
    for background, ink in (light, dark):
        assert contrast(background, ink) > 7


@pytest.mark.parametrize("dark", [False, True])
def test_small_print_has_enough_contrast(page, dark):
    page.size(1280, dark=dark)
    back = "getComputedStyle(document.body).getPropertyValue('--bg')"
    for name in ("--muted", "--accent", "--over", "--under"):
        ink = f"getComputedStyle(document.body).getPropertyValue('{name}')"
        assert contrast(rgb(page.run(back)), rgb(page.run(ink))) > 4.5, name


def test_print_shows_every_view(page):
    page.size(1280, media="print")
    assert shown_views(page) == ["v0", "v1", "v2"]
    assert not page.run(VISIBLE.format(".switch"))


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
    text = text.strip().lstrip("#")
    return [int(text[i : i + 2], 16) for i in (0, 2, 4)]


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
