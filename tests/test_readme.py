"""The README's code runs and its links lead somewhere; its numbers are made from rows."""

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
