"""Plans, tiles and medians against their plain counterparts."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from simi_mailbox import Graph
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.grouping import stacked
from simi_mailbox.scale import inputs, tiles
from simi_mailbox.scale.engines import Engine, Journal
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store, Written, alone_in
from simi_mailbox.scale.tiles import Plan, read_size
from simi_mailbox.softmax import LogitRange


def test_blocks_cover_all_nodes_and_fit_into_the_memory() -> None:
    plan = Plan.of(1_000_003, 40, read_size("1.5GB"))
    assert [plan.span(block)[0] for block in plan.blocks[1:]] == [
        plan.span(block)[1] for block in plan.blocks[:-1]
    ]
    assert plan.span(plan.blocks[-1])[1] == plan.nodes
    assert len(Plan.of(1_000_003, 40, read_size("4GB")).blocks) < len(plan.blocks)
    with pytest.raises(ValueError, match="not enough"):
        Plan.of(10, 3, read_size("500MB"))
    with pytest.raises(ValueError, match="no size"):
        read_size("two")


def test_sums_over_tiles_are_a_sparse_product() -> None:
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((50, 60), density=0.2, rng=rng).tocsr()
    matrix.data[:] = 1
    coo = matrix.tocoo()
    entries = np.stack([coo.row, coo.col], axis=1).astype(np.uint32)
    right = rng.normal(size=(60, 3)).astype(np.float32)
    onto = np.ones((50, 3))
    tiles.add_sums(entries, right, None, onto)
    np.testing.assert_allclose(onto, 1 + matrix @ right.astype(np.float64), rtol=1e-12)
    few = rng.choice(60, 7, replace=False)
    onto, place = np.ones((50, 3)), np.full(60, -1, dtype=np.int32)
    place[few] = np.arange(7)
    tiles.add_sums(entries, right[few], place, onto)
    some = np.where(place[:, None] >= 0, right, 0.0)
    np.testing.assert_allclose(onto, 1 + matrix @ some, rtol=1e-12)


def test_bands_are_runs_of_blocks_that_fit_and_keep_all_workers_busy() -> None:
    plan = Plan.of(40_000_000, 16, read_size("2GB"))
    bands = plan.bands(17, 8 * 17)
    assert [block for band in bands for block in band] == list(plan.blocks)
    assert 1 < len(bands) < len(plan.blocks) / 4
    assert all(8 * 17 * plan.rows * (len(band) + 1) <= plan.space for band in bands)
    busy = Plan.of(40_000_000, 16, read_size("2GB"), slots=20)
    assert len(busy.bands(17, 8 * 17)) >= 40


@pytest.mark.parametrize("nodes", [1, 2, 10, 1001])
def test_the_median_of_blocks_is_the_median(
    nodes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "FEW", 5)
    monkeypatch.setattr(inputs, "CELLS", 4)
    plan, store = Plan(nodes, 2, 100, 100), Store(tmp_path)
    numbers = np.random.default_rng(nodes).lognormal(sigma=3, size=nodes).round(2)
    for block in plan.blocks:
        store.put(tiles.name("x", block), numbers[slice(*plan.span(block))])
    assert inputs.median(Engine(store), plan, "x") == np.median(numbers)


@pytest.mark.parametrize("damage", ["a bit", "the end", "gone", None])
def test_a_journal_believes_only_files_that_are_as_they_were_written(
    damage: str | None, tmp_path: Path
) -> None:
    store, path = Store(tmp_path), tmp_path / "journal"
    files = [store.put(f"part/{k}", np.arange(5.0) + k) for k in range(2)]
    Journal(path).add("step", 3, files)
    content = store.path("part/1").read_bytes()
    if damage == "a bit":
        store.path("part/1").write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    elif damage == "the end":
        store.path("part/1").write_bytes(content[:-8])
    elif damage == "gone":
        store.path("part/1").unlink()
    with path.open("a") as file:
        file.write('{"step": "cut by a ki')
    assert Journal(path).done == ({} if damage else {("step", 3): files})


@pytest.mark.parametrize("edge", [(0, 9), (9, 0), (0, 10), (10, 3), (-1, 0), (4, -1)])
def test_edges_join_nodes_that_are_there(edge: tuple[int, int]) -> None:
    edges, shard = np.array([(1, 2), edge]), SimpleNamespace(path="edges/0.npy")
    if min(edge) >= 0 and max(edge) < 10:
        tiles.check_ids(edges, 10, shard, 100)  # type: ignore[arg-type]
        return
    message = rf"row 101: the edge joins nodes {edge[0]} and {edge[1]}, but .* nodes 0\.\.9"
    with pytest.raises(ValueError, match=message):
        tiles.check_ids(edges, 10, shard, 100)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (7, 7), ("7", 7), ("12B", 12), ("1.5kb", 1500), ("2 MB", 2 * 10**6), ("3GB", 3 * 10**9),
        ("4T", 4 * 10**12), ("1KiB", 1024), ("1.5 GiB", 3 << 29), ("2tib", 2 << 40),
    ],
)  # fmt: skip
def test_sizes_are_read_in_all_units(size: str | int, expected: int) -> None:
    assert read_size(size) == expected


@pytest.mark.parametrize(("tasks", "slots"), [(1, 1), (4, 1), (1, 8), (3, 5)])
def test_a_plan_follows_from_the_memory(tasks: int, slots: int) -> None:
    """The formula a second time: rows of a block, edges of a chunk, the room of a pass."""
    nodes, classes, memory = 3_000_000, 10, 2_100_000_000
    plan = Plan.of(nodes, classes, memory, item=4, tasks=tasks, slots=slots)
    space = 0.9 * (memory - 1_100_000_000) / tasks
    most = space / (12 * classes * 4 + 128)
    most = most if slots == 1 else min(most, nodes / (2 * slots))
    assert plan.space == int(space)
    assert len(plan.blocks) == math.ceil(nodes / math.floor(most) if slots == 1 else nodes / most)
    assert plan.rows == math.ceil(nodes / len(plan.blocks))
    assert plan.chunk == min(int(space / 96), 1 << 22)


def test_a_folder_is_held_by_one_and_let_go(tmp_path: Path) -> None:
    place = tmp_path / "new" / "folder"
    with alone_in(place):
        assert (place / ".lock").exists()
        with pytest.raises(BlockingIOError, match="another run works in"), alone_in(place):
            pass
        assert (place / ".lock").exists()
    assert not (place / ".lock").exists()
    with alone_in(place):
        pass


# --- blocks against arrays in memory --------------------------------------------------------------


def cut_into_tiles(
    folder: Path, edges: np.ndarray, plan: Plan, shape: str = "pairs"
) -> tuple[Engine, Plan]:
    """Edges in two shards, sorted and cut as a run does it."""
    (folder / "edges").mkdir(parents=True)
    for number, part in enumerate(np.array_split(edges, 2, axis=1)):
        np.save(folder / "edges" / f"{number}.npy", part.T if shape == "pairs" else part)
    pieces = Shards.open(folder / "edges", "edges").chunks(plan.chunk)
    engine = Engine(Store(folder / "work"))
    engine.write("sorting", tiles.sort_chunk, range(len(pieces)), plan, pieces)
    engine.write("cutting", tiles.merge_row, plan.blocks, plan, len(pieces))
    return engine, plan


@pytest.mark.parametrize("chunk", [3, 40, 1000])
@pytest.mark.parametrize("rows", [1, 7, 8, 30, 64])
def test_tiles_are_the_graph(
    rows: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of blocks and chunks: neighbours, degrees, sums and fingerprint."""
    monkeypatch.setattr(tiles, "PART", 5)
    rng = np.random.default_rng(rows * chunk)
    nodes = 30
    edges = rng.integers(0, 27, size=(2, 120))  # loops, duplicates, and three nodes without any
    graph = Graph.from_edges(edges, nodes)
    engine, plan = cut_into_tiles(tmp_path, edges, Plan(nodes, 2, rows, chunk))
    store = engine.store
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
    assert tiles.fingerprint(store, plan) == graph.fingerprint()
    right = rng.normal(size=(nodes, 3))
    for blocks in ([block] for block in plan.blocks):
        sums = tiles.neighbour_sums(
            store, blocks, plan, 3, lambda column: (right[slice(*plan.span(column))], None)
        )
        for block, found in sums.items():
            expected = [
                right[graph.neighbours(i).numpy()].sum(axis=0) for i in range(*plan.span(block))
            ]
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_graph_without_edges_has_no_tiles(tmp_path: Path) -> None:
    engine, plan = cut_into_tiles(tmp_path, np.array([[3, 5], [3, 5]]), Plan(10, 2, 4, 4))
    assert not any(engine.store.get(tiles.name("parts", block)).any() for block in plan.blocks)
    assert tiles.fingerprint(engine.store, plan) == Graph.empty(10).fingerprint()


@pytest.mark.parametrize("seed", range(12))
def test_limits_of_blocks_are_those_of_memory(seed: int, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("kind", ["probabilities", "log-probabilities"])
@pytest.mark.parametrize(
    ("row", "fine"),
    [
        ([0.5, 0.5009], True), ([0.5, 0.5015], False), ([0.5, 0.4985], False),
        ([1 + 5e-7, 1e-9], True), ([1 + 2e-6, 1e-9], False), ([0.5, np.nan], False),
    ],
)  # fmt: skip
def test_rows_that_are_no_probabilities_are_named(
    kind: Any, row: list[float], fine: bool, tmp_path: Path
) -> None:
    probs = np.full((7, 2), 0.5)
    probs[4] = row
    raw = probs if kind == "probabilities" else np.log(probs)
    np.save(tmp_path / "0.npy", raw[:2])
    np.save(tmp_path / "1.npy", raw[2:])
    shards = Shards.open(tmp_path)
    if fine:
        inputs.check_numbers(raw[3:], kind, shards, 3)
    else:
        with pytest.raises(ValueError, match=rf"1\.npy, row 2: these are no {kind}"):
            inputs.check_numbers(raw[3:], kind, shards, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_named(value: float, tmp_path: Path) -> None:
    z = np.zeros((7, 3))
    z[:, 1] = -np.inf
    np.save(tmp_path / "0.npy", z)
    shards = Shards.open(tmp_path)
    inputs.check_numbers(z, "logits", shards, 0)
    inputs.check_numbers(np.full((3, 2), 1e308), "logits", shards, 0)  # whose sum is infinite
    z[5, 2] = value
    with pytest.raises(ValueError, match=r"0\.npy, row 5: a logit is NaN or infinite"):
        inputs.check_numbers(z, "logits", shards, 0)


@pytest.mark.parametrize("form", ["vector", "pairs", "table"])
def test_labels_are_looked_up_by_node(form: str, tmp_path: Path) -> None:
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
    message = "node 1 has label -1" if form == "vector" else "node 1 has no label"
    with pytest.raises(ValueError, match=message):
        labels.of(np.array([0, 1]))
    if form == "vector":
        with pytest.raises(ValueError, match=r"node 3 has label 7, but the classes are 0\.\.2"):
            labels.of(np.array([3]), unknown=True)
        with pytest.raises(ValueError, match="6 labels for 7 nodes"):
            inputs.Labels.open(path, 7, 3)
    nobody = np.empty((0, 2), dtype=int)
    np.save(tmp_path / "none.npy", nobody)
    none = inputs.Labels.open(tmp_path / "none.npy", 6, 3)
    assert none.of(np.array([0, 5]), unknown=True).tolist() == [-1, -1]
    np.save(tmp_path / "none.npy", np.zeros((6, 3)))
    with pytest.raises(FileFormatError, match=r"shape \[6, 3\]; expected one label per node, or"):
        inputs.Labels.open(tmp_path / "none.npy", 6, 3)


def test_one_file_of_a_part_is_enough(tmp_path: Path) -> None:
    assert inputs.file_of(tmp_path, "labels") is None
    (tmp_path / "labels.d").mkdir()
    (tmp_path / "labels.npy").touch()
    assert inputs.file_of(tmp_path, "labels") == tmp_path / "labels.npy"
    (tmp_path / "labels.csv").touch()
    with pytest.raises(ValueError, match=r"holds both labels\.csv and labels\.npy: keep one"):
        inputs.file_of(tmp_path, "labels")


# --- engines --------------------------------------------------------------------------------------


def test_finished_blocks_are_not_made_again_unless_something_before_them_differs(
    tmp_path: Path,
) -> None:
    made: list[int] = []
    told: list[tuple[str, int, int]] = []

    def make(store: Store, block: int, value: float) -> list[Written]:
        made.append(block)
        return [store.put(tiles.name("x", block), np.full(2, value + block))]

    def run(*values: float) -> list[Written]:
        made.clear()
        told.clear()
        engine = Engine(Store(tmp_path), tmp_path / "journal", lambda *step: told.append(step))
        return [f for v in values for f in engine.write("making", make, range(3), v)]

    first = run(1.0)
    assert (made, told) == ([0, 1, 2], [("making", k, 3) for k in range(4)])
    assert run(1.0) == first
    assert (made, told) == ([], [("making", 3, 3)])
    Store(tmp_path).path(tiles.name("x", 1)).unlink()
    run(1.0)
    assert (made, told) == ([1], [("making", 2, 3), ("making", 3, 3)])
    run(2.0, 1.0)  # the second pass reads what the first has written anew
    assert made == [0, 1, 2, 0, 1, 2]


def test_totals_are_combined_in_eights_and_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    sizes: list[int] = []

    def combine(parts: list[list[int]]) -> list[int]:
        sizes.append(len(parts))
        return [block for part in parts for block in part]

    engine = Engine(Store(tmp_path), None, lambda *step: told.append(step))
    found = engine.total(
        "adding", lambda _store, block, more: [block + more], combine, range(19), 5
    )
    assert found == list(range(5, 24))
    assert told == [("adding", k, 19) for k in range(20)]
    assert sizes == [8, 8, 3, 3]
