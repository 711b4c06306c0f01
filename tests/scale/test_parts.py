"""Plans, tiles and medians against their plain counterparts."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import Graph
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.grouping import stacked
from simi_mailbox.scale import inputs, tiles
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store
from simi_mailbox.scale.tiles import Plan, read_size
from simi_mailbox.softmax import LogitRange


@given(
    st.integers(1, 10**8), st.integers(2, 200), st.integers(1_200_000_000, 10**11),
    st.integers(1, 8), st.integers(1, 64),
)  # fmt: skip
def test_blocks_cover_all_nodes_and_fit_into_the_memory(nodes, classes, memory, tasks, slots):
    plan = Plan.of(nodes, classes, memory, tasks=tasks, slots=slots)
    assert (plan.span(0)[0], plan.span(plan.blocks[-1])[1]) == (0, nodes)
    assert 0 < plan.size(plan.blocks[-1]) <= plan.rows
    assert tasks * plan.space <= 0.9 * (memory - 1_100_000_000)
    assert plan.rows * (12 * 4 * classes + 128) <= plan.space
    assert plan.chunk * 96 <= plan.space
    assert slots == 1 or plan.rows <= -(-nodes // (2 * slots))
    more = Plan.of(nodes, classes, 2 * memory, tasks=tasks, slots=slots)
    assert len(more.blocks) <= len(plan.blocks)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (7, 7), ("7", 7), ("12B", 12), ("1.5kb", 1500), ("2 MB", 2 * 10**6), ("3GB", 3 * 10**9),
        ("4T", 4 * 10**12), ("1KiB", 1024), ("1.5 GiB", 3 << 29), ("2tib", 2 << 40),
    ],
)  # fmt: skip
def test_sizes_are_read_in_all_units(size, expected):
    assert read_size(size) == expected


def test_sizes_that_are_none_or_too_small_are_refused():
    for wrong in ("two", "1.2.3GB", "", "-1GB"):
        with pytest.raises(ValueError, match="no size"):
            read_size(wrong)
    with pytest.raises(ValueError, match="not enough"):
        Plan.of(10, 3, read_size("500MB"))


def test_bands_are_runs_of_blocks_that_fit_and_keep_all_workers_busy():
    plan = Plan.of(40_000_000, 16, read_size("2GB"))
    bands = plan.bands(17, 8 * 17)
    assert [block for band in bands for block in band] == list(plan.blocks)
    assert 1 < len(bands) < len(plan.blocks) / 4
    assert all(8 * 17 * plan.rows * (len(band) + 1) <= plan.space for band in bands)
    busy = Plan.of(40_000_000, 16, read_size("2GB"), slots=20)
    assert len(busy.bands(17, 8 * 17)) >= 40


@pytest.mark.parametrize("nodes", [1, 2, 10, 1001])
def test_the_median_of_blocks_is_the_median(nodes, tmp_path):
    plan, store, rng = Plan(nodes, 2, 100, 100), Store(tmp_path), np.random.default_rng(nodes)
    many = [rng.lognormal(sigma=3, size=nodes).round(2), rng.random(nodes), -np.zeros(nodes)]
    for numbers in many:
        for block in plan.blocks:
            store.put(tiles.name("x", block), numbers[slice(*plan.span(block))])
        assert inputs.median(Engine(store), plan, "x") == np.median(numbers)


def cut_into_tiles(folder, edges, plan):
    """Edges in two shards, sorted and cut as a run does it."""
    (folder / "edges").mkdir(parents=True)
    for number, part in enumerate(np.array_split(edges, 2, axis=1)):
        np.save(folder / "edges" / f"{number}.npy", part.T)
    engine = Engine(Store(folder / "work"))
    tiles.cut(engine, plan, Shards.open(folder / "edges", "edges"))
    return engine.store


@pytest.mark.parametrize("chunk", [3, 40, 1000])
@pytest.mark.parametrize("rows", [1, 7, 8, 30, 64])
@pytest.mark.parametrize("pairs", [120, 0])
def test_tiles_are_the_graph(pairs, rows, chunk, tmp_path, monkeypatch):
    """Whatever the size of blocks and chunks: neighbours, degrees, sums and fingerprint."""
    monkeypatch.setattr(tiles, "PART", 5)
    rng = np.random.default_rng(rows * chunk)
    nodes = 30
    edges = rng.integers(0, 27, size=(2, pairs))  # loops, duplicates, and three nodes without any
    edges = np.concatenate([edges, [[3], [3]]], axis=1)
    graph = Graph.from_edges(edges, nodes)
    plan = Plan(nodes, 2, rows, chunk)
    store = cut_into_tiles(tmp_path, edges, plan)
    degree = np.concatenate([store.get(tiles.name("degree", b)) for b in plan.blocks])
    np.testing.assert_array_equal(degree, graph.degree.numpy())
    entries = []
    for block in plan.blocks:
        parts = store.get(tiles.name("parts", block))
        for column, count in enumerate(parts.tolist()):
            for part in range(count):
                found = store.get(tiles.name("tile", block, column, part)).astype(int)
                assert 0 < len(found) <= 5
                entries += (found + np.array([block, column]) * rows).tolist()
    assert sorted(entries) == sorted(graph.edge_index().numpy().T.tolist())
    assert bool(entries) == bool(pairs)
    assert tiles.fingerprint(store, plan) == graph.fingerprint()
    right = rng.normal(size=(nodes, 3))
    for blocks in ([block] for block in plan.blocks):
        for block, found in tiles.neighbour_sums(
            store, blocks, plan, 3, lambda column: (right[slice(*plan.span(column))], None)
        ):
            each = range(*plan.span(block))
            expected = [right[graph.neighbours(i).numpy()].sum(axis=0) for i in each]
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_limits_of_blocks_are_those_of_memory(seed, tmp_path):
    """With classes that are masked, doubtful or named by a label."""
    rng = np.random.default_rng(seed)
    nodes, classes = 37, 5
    z = rng.normal(size=(nodes, classes)) * [0.1, 1.0, 4.0][seed % 3]
    z[:, 1] -= [0.0, 15.0, 19.0, 21.0, 60.0, 1e9][seed % 6]
    if seed % 4 == 3:
        z[:, 3] = -np.inf
    named = np.array([0, 1, 2]) if seed in (5, 9) else np.array([0, 2])
    np.save(tmp_path / "0.npy", z[:20])
    np.save(tmp_path / "1.npy", z[20:])
    engine, plan = Engine(Store(tmp_path / "work")), Plan(nodes, classes, 8, 8)
    engine.write("reading", inputs.read_block, plan.blocks, plan, Shards.open(tmp_path), "logits")
    found = inputs.find_limits(engine, plan, named)
    expected = LogitRange.of(torch.from_numpy(z), torch.from_numpy(named))
    assert found.classes.tolist() == expected.classes.tolist()
    assert (found.num_classes, found.widest) == (classes, pytest.approx(expected.widest))
    some = np.array([0, 7, 8, 20, 36])
    gathered = engine.total("some", inputs.gather, stacked, plan.blocks, plan, "logits", some)
    np.testing.assert_array_equal(gathered, z[some])


@pytest.mark.parametrize(
    ("row", "fine"),
    [
        ([0.5, 0.5009], True), ([0.5, 0.5015], False), ([0.5, 0.4985], False),
        ([1 + 5e-7, 1e-9], True), ([1 + 2e-6, 1e-9], False), ([0.5, np.nan], False),
    ],
)  # fmt: skip
def test_rows_that_no_model_gives_are_named(row, fine, tmp_path):
    probs = np.full((7, 2), 0.5)
    probs[4] = row
    np.save(tmp_path / "0.npy", probs[:2])
    np.save(tmp_path / "1.npy", probs[2:])
    shards = Shards.open(tmp_path)
    for kind, raw in (("probabilities", probs), ("log-probabilities", np.log(probs))):
        with (
            nullcontext() if fine else pytest.raises(ValueError, match=rf"1\.npy, row 2: .*{kind}")
        ):
            inputs.check_numbers(raw[3:], kind, shards, 3)
    z = np.tile([1e308, -np.inf, 0.0], (7, 1))  # masked, and finite, whatever their sum
    inputs.check_numbers(z, "logits", shards, 0)
    for value in (np.nan, np.inf, -np.inf):
        z[5, 2] = value
        with pytest.raises(ValueError, match=r"1\.npy, row 3: it has logits that are NaN or"):
            inputs.check_numbers(z, "logits", shards, 0)


@pytest.mark.parametrize("form", ["vector", "pairs", "table"])
def test_labels_are_looked_up_by_node(form, tmp_path):
    y = np.array([2, -1, 0, 7, 1, 0])
    some = [4, 0, 2]
    if form == "vector":
        np.save(tmp_path / "labels.npy", y)
    elif form == "pairs":
        np.save(tmp_path / "labels.npy", np.stack([some, y[some]], axis=1))
    else:
        (tmp_path / "labels.csv").write_text("id,label\n" + "".join(f"{n},{y[n]}\n" for n in some))
    path = inputs.file_of(tmp_path, "labels")
    assert path is not None
    labels = inputs.Labels.open(path, 6, 3)
    assert labels.of(np.array([0, 4])).tolist() == [2, 1]
    assert labels.of(np.array([0, 1, 4]), unknown=True).tolist() == [2, -1, 1]
    with pytest.raises(ValueError, match=r"node 1 of .*labels\.\w+ has label -1"):
        labels.of(np.array([0, 1]))
    if form == "vector":
        with pytest.raises(
            ValueError, match=r"node 3 of .* has label 7, but the classes are 0\.\.2"
        ):
            labels.of(np.array([3]), unknown=True)
        with pytest.raises(ValueError, match=r"shape \[6\]; expected one label per node, \[7\]"):
            inputs.Labels.open(path, 7, 3)
    np.save(tmp_path / "none.npy", np.zeros((6, 3)))
    with pytest.raises(
        FileFormatError, match=r"shape \[6, 3\]; expected one label per node, \[6\], or"
    ):
        inputs.Labels.open(tmp_path / "none.npy", 6, 3)
    (tmp_path / "labels.txt").touch()
    with pytest.raises(ValueError, match=r"holds both labels\.\w+ and labels\.txt: keep one"):
        inputs.file_of(tmp_path, "labels")


def test_finished_blocks_are_not_made_again_unless_something_before_them_differs(tmp_path):
    made = []
    told = []

    def make(store, block, value):
        made.append(block)
        return [store.put(tiles.name("x", block), np.full(2, value + block))]

    def run(*values):
        made.clear()
        told.clear()
        engine = Engine(Store(tmp_path), lambda *step: told.append(step))
        engine.journal.resume(tmp_path / "journal")
        return [f for v in values for f in engine.write("making", make, range(3), v)]

    first = run(1.0)
    assert (made, told) == ([0, 1, 2], [("making", k, 3) for k in range(4)])
    assert run(1.0) == first
    assert (made, told) == ([], [("making", 3, 3)])
    with (tmp_path / "journal").open("a") as file:
        file.write('{"step": "cut by a ki')
    path = Store(tmp_path).path(tiles.name("x", 1))
    for content in (None, b"", path.read_bytes()[:-8], path.read_bytes()[:-9] + bytes(9)):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        run(1.0)
        assert (made, told) == ([1], [("making", 2, 3), ("making", 3, 3)])
    run(2.0, 1.0)  # the second pass reads what the first has written anew
    assert made == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("blocks", "sizes"), [(1, [1]), (8, [8]), (9, [8, 1, 2]), (19, [8, 8, 3, 3]), (65, None)]
)
def test_totals_are_combined_in_eights_in_order_and_told(blocks, sizes, tmp_path):
    told = []
    seen = []

    def combine(parts):
        seen.append(len(parts))
        return [block for part in parts for block in part]

    engine, name = Engine(Store(tmp_path), lambda *step: told.append(step)), "adding"
    found = engine.total(name, lambda _, block, more: [block + more], combine, range(blocks), 5)
    assert found == list(range(5, 5 + blocks))
    assert told == [(name, 0, blocks), (name, blocks, blocks)]
    assert sizes is None or seen == sizes
