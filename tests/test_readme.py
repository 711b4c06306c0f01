"""The README's code runs, its links lead somewhere, its sentences say what the tables say."""

import re
from pathlib import Path

import numpy as np
import pytest

from simi_mailbox.synthetic import calibration_problem

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_three_lines_of_code_do_what_they_say():
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    problem = calibration_problem(400, 3, temperature=2.0, seed=0)
    names = {
        "logits": problem.logits,
        "y": problem.y,
        "edge_index": problem.graph.edge_index(),
        "val_mask": np.arange(400) < 200,
    }
    exec(code, names)
    np.testing.assert_allclose(names["probs"].sum(1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(names["probs"].argmax(1), problem.logits.argmax(1))


@pytest.mark.parametrize("page", [*sorted(p.name for p in ROOT.glob("docs/*.md")), "README.md"])
def test_links_and_pictures_are_there(page):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert not missing


def test_make_targets_of_the_readme_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^    make (\w+)", README, flags=re.MULTILINE)) <= targets


def table(page, block):
    """Lines of a block that is made from rows (and tested to be fresh), cell by cell."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (made,) = re.findall(rf"<!-- begin: {block}.*?-->\n(.*?)<!-- end -->", text, flags=re.DOTALL)
    lines = [line.strip("| ").split(" | ") for line in made.strip().splitlines()]
    return [dict(zip(["", *lines[0]][-len(line) :], line, strict=True)) for line in lines[2:]]


def said(sentence):
    """Numbers that stand in the place of every # of a sentence of the README."""
    found = re.search(re.escape(sentence).replace(r"\#", r"(\d+)"), " ".join(README.split()))
    assert found, f"the README does not say: {sentence}"
    return [int(number) for number in found.groups()]


def test_standings_are_those_of_the_table():
    wins = {
        (line[""], line["method"]): int(line["best"]) + int(line["tied"])
        for line in table("docs/reproduction.md", "standings")
    }
    assert said(
        "Brier score is the best or tied in # of 14 settings with classes kept and in all # with "
        "classes free, likelihood in # and #, ECE in # and #"
    ) == [
        wins[metric, method]
        for metric in ("Brier", "NLL", "ECE")
        for method in ("simi-mailbox", "simi-mailbox-free")
    ]


def test_graphs_from_elsewhere_are_as_in_the_tables():
    mean = {
        line["method"]: (float(line["mean"]), float(line["temperature"]))
        for line in table("docs/prior.md", 'verdict "unseen')
        if line[""] == "ECE"
    }
    ours, temperature = mean["kept"]
    assert said("ECE is # % below temperature scaling's and # % below that of GATS") == [
        round(100 * (1 - ours / temperature)),
        round(100 * (1 - ours / mean["GATS"][0])),
    ]
    lines = table("docs/prior.md", "matrix unseen/nll")
    better = [
        float(line["kept"]) < min(float(line["temperature"]), float(line["GATS"])) for line in lines
    ]
    assert said("the likelihood is better than both in all #") == [sum(better)] == [len(lines)]


def test_the_text_of_the_paper_loses_where_the_readme_says():
    lines = {line[""]: list(line.values())[1:] for line in table("README.md", "overview")}
    paper, one = lines["`simi-mailbox-paper`: as the text says"], lines["temperature scaling"]
    number = [float(cell.strip("*")) for cell in (*paper, *one)]
    worse = sum(a > b for a, b in zip(number[: len(paper)], number[len(paper) :], strict=True))
    assert (worse, len(paper)) == (6, 7)
    said("worse than one temperature on six of these seven")
