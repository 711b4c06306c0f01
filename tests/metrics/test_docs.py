"""The page on metrics: its examples run and every public name is on it."""

import re
from pathlib import Path

import pytest

from simi_mailbox import metrics

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_examples_run():
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(block, namespace)
    assert namespace["state"].num_nodes == len(namespace["y"])
    streamed, whole = namespace["state"].ece, metrics.ece(namespace["probs"], namespace["y"])
    assert streamed == pytest.approx(whole, abs=1e-12)


def test_every_public_function_is_described():
    # Results are described with the functions.
    results = {"GroupCoverage", "Interval", "NoiseFloor", "Reliability", "RiskCoverage"}
    for name in set(metrics.__all__) - results:
        assert re.search(rf"\b{name}\b", PAGE), name
