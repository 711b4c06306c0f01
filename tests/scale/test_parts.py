"""Plans, tiles and medians against their plain counterparts."""

import math
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.scale import inputs, tiles
from simi_mailbox.scale.engines import Engine, Journal
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store, alone_in
from simi_mailbox.scale.tiles import Plan, read_size


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


@pytest.mark.parametrize("look", ["get", "view"])
def test_damage_of_a_work_file_is_noticed_also_after_it_was_looked_at(
    look: str, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    store.put("part/0", np.arange(50.0))
    read = getattr(store, look)
    for _ in range(2):
        np.testing.assert_array_equal(read("part/0"), np.arange(50.0))
    content = bytearray(store.path("part/0").read_bytes())
    content[-30] ^= 1
    store.path("part/0").write_bytes(content)
    os.utime(store.path("part/0"), ns=(1, 1))
    with pytest.raises(FileFormatError, match="damaged"):
        read("part/0")
    store.put("part/1", np.arange(3.0))
    path = store.path("part/1")
    path.write_bytes(path.read_bytes()[:-12] + bytes(12))  # never looked at before
    with pytest.raises(FileFormatError, match="damaged"):
        read("part/1")


def test_a_parquet_shard_of_lists_may_have_one_row(tmp_path: Path) -> None:
    lists = pa.array([[1.0, 2.5, 3.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"logits": lists}), tmp_path / "0.parquet")
    found = Shards.open(tmp_path)
    assert (found.rows, found.columns) == (1, 3)
    np.testing.assert_array_equal(found.read(0, 1), [[1.0, 2.5, 3.0]])


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
