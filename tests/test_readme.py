"""The README's code runs and its links lead somewhere; its numbers are made from rows."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.pages import compare

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_quickstart_prints_what_it_shows(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names = {}
    exec(code, names)
    shown = "".join(line[2:] for line in code.splitlines(keepends=True) if line[:2] == "# ")
    compare(capsys.readouterr().out, shown, "README.md")
    np.testing.assert_array_equal(names["probs"].argmax(1), names["logits"].argmax(1))


def test_it_can_be_read_in_a_minute():
    assert len(README.splitlines()) <= 90


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_the_errors_of_the_table(theme):
    image = pytest.importorskip("PIL.Image")
    drawn = image.open(ROOT / "docs" / "images" / f"readme-{theme}.png").text["ece"].split()
    rows = ("uncalibrated", "temperature scaling", "**`simi-mailbox`**")
    cora = [
        re.search(rf"^\| {re.escape(row)} \| \**([\d.]+)", README, re.MULTILINE) for row in rows
    ]
    table = [found[1] for found in cora if found]
    assert drawn == table, "python scripts/docs-figures draws them again"


def test_temperature_scaling_is_below_one_percent_where_the_readme_says_so():
    (head,) = re.findall(r"^\|  \| (Cora .*) \|$", README, re.MULTILINE)
    (row,) = re.findall(r"^\| temperature scaling \| (.*) \|$", README, re.MULTILINE)
    means = [float(cell.strip("* ").split()[0].strip("*")) for cell in row.split("|")]
    found = dict(zip(head.split(" | "), means, strict=True))
    (told,) = re.findall(r"leaves an ECE below 1 %, as a GCN on (.*?) and (.*?),", README)
    assert {name for name, mean in found.items() if mean < 1} == set(told)


def anchors(path):
    """What a link into a page may name: its headings, as GitHub and MyST write them."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*sorted(p.name for p in ROOT.glob("docs/*.md")), "README.md"])
def test_links_and_pictures_lead_somewhere(page):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    links += re.findall(r"^```\{(?:image|figure)\} (\S+)", text, flags=re.MULTILINE)
    links += re.findall(r'(?:src|srcset)="([^"]+)"', text)
    missing = []
    for link in (link for link in links if "://" not in link):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        headed = not anchor or target.suffix != ".md"
        if not target.exists() or not (headed or anchor in anchors(target)):
            missing.append(link)
    assert not missing


def test_make_targets_of_the_readme_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^    make (\w+)", README, flags=re.MULTILINE)) <= targets
