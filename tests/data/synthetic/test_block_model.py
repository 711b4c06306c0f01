"""Block models: degrees, homophily, and edges that come in blocks."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simi_mailbox.data.synthetic import BlockModel, csbm, stream_edges


@pytest.mark.parametrize("law", ["constant", "power"])
@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9, 1.0])
def test_degree_and_homophily_are_as_asked(law: Any, homophily: float) -> None:
    drawn = csbm(
        8000, 3, homophily=homophily, mean_degree=8, degree_law=law, prior=[0.5, 0.3, 0.2], seed=5
    ).dataset
    assert drawn.graph.num_entries / 8000 == pytest.approx(8, rel=0.05)
    # Class weights of a heavy-tailed graph vary, and homophily with them.
    assert drawn.homophily() == pytest.approx(homophily, abs=0.04)
    share = np.bincount(drawn.y) / 8000
    assert share == pytest.approx([0.5, 0.3, 0.2], abs=0.02)


def test_the_power_law_has_hubs_and_the_constant_law_has_none() -> None:
    degrees = {
        law: csbm(5000, 2, mean_degree=10, degree_law=law, seed=1).dataset.graph.degree.numpy()
        for law in ("constant", "power")
    }
    assert degrees["constant"].max() < 35
    assert degrees["power"].max() > 150
    # Poisson: variance equals mean when all classes have one rate.
    assert degrees["constant"].var() == pytest.approx(degrees["constant"].mean(), rel=0.1)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 5000),
    st.sampled_from(["constant", "power"]),
    st.integers(2, 5),
    st.integers(0, 2**31),
)
def test_edges_do_not_depend_on_the_block(block: int, law: Any, classes: int, seed: int) -> None:
    model = BlockModel(300, classes, mean_degree=6, degree_law=law, seed=seed)
    blocks = list(stream_edges(model, block=block))
    assert all(edges.shape[1] == block for edges in blocks[:-1])
    together = np.concatenate(blocks, axis=1)
    assert np.array_equal(together, np.concatenate(list(stream_edges(model)), axis=1))
    assert (together[0] != together[1]).all()
    assert together.min() >= 0
    assert together.max() < 300


def test_blocks_across_the_generators_chunks_agree() -> None:
    model = BlockModel(20_000, 2, mean_degree=60, homophily=0.95, seed=0)
    whole = np.concatenate(list(stream_edges(model, block=10_000_000)), axis=1)
    assert whole.shape[1] > 2 * (1 << 18)
    cut = np.concatenate(list(stream_edges(model, block=99_991)), axis=1)
    assert np.array_equal(whole, cut)


def test_memory_follows_the_block_and_not_the_edges() -> None:
    totals, peaks = [], []
    for degree in (800, 1600):
        model = BlockModel(4000, 2, mean_degree=degree, seed=0)
        labels = model.labels()
        tracemalloc.start()
        blocks = stream_edges(model, block=1 << 16, labels=labels)
        totals.append(sum(edges.shape[1] for edges in blocks))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert totals[1] > 1.9 * totals[0] > 2_900_000
    assert peaks[1] < 1.05 * peaks[0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 1}, "n ≥ 2"),
        ({"classes": 1}, "classes ≥ 2"),
        ({"homophily": 1.2}, "homophily is a share"),
        ({"mean_degree": 0}, "mean_degree must be above 0"),
        ({"mean_degree": 200}, "below n"),
        ({"degree_law": "pareto"}, "'constant' or 'power'"),
        ({"exponent": 2.0}, "exponent must be above 2"),
        ({"noise": 0.0}, "noise > 0"),
        ({"seed": -1}, "seed must not be negative"),
        ({"prior": [0.5, 0.6]}, "sum to 1"),
        ({"prior": [1.0, 0.0]}, "2 positive numbers"),
        ({"prior": [0.5, 0.3, 0.2]}, "2 positive numbers"),
    ],
)
def test_impossible_models_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        csbm(**{"n": 100, "classes": 2, **parameters})


def test_an_empty_block_is_refused() -> None:
    with pytest.raises(ValueError, match="block must be at least 1"):
        stream_edges(BlockModel(10, 2, mean_degree=2), block=0)
