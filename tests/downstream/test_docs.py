"""The Python blocks of our pages run, in the order in which a reader meets them."""

import re
import warnings
from pathlib import Path

import pytest
import torch

from simi_mailbox import ood

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_page(name: str) -> dict[str, object]:
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) >= 2, f"{name} shows no code"
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(blocks, start=1):
            exec(compile(block, f"{name}, block {number}", "exec"), names)  # our own page
    return names


def test_self_training_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_page("self-training.md")
    assert names["result"].predictions.shape == (1797,)
    assert (names["result"].pseudo_labels >= 0).sum() > 50
    assert names["mine"].stages[0].added.size > 0
    assert "stage" in capsys.readouterr().out


def test_ood_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_page("ood.md")
    assert "Detection(auroc=" in capsys.readouterr().out
    assert ood.evaluate(names["known"], names["unknown"]).auroc > 0.95
    assert names["score"].shape == (1797,)


def test_gpn_page() -> None:
    names = run_page("gpn.md")
    probabilities = names["probabilities"]
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(1797))
    assert bool((names["prediction"].evidence > 0).any())
