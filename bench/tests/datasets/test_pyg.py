from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from simi_mailbox_bench.datasets import catalogue, downloads, loading
from simi_mailbox_bench.datasets.catalogue import Entry

torch = pytest.importorskip("torch")
torch_geometric = pytest.importorskip("torch_geometric", reason="PyG is an optional dependency")

from torch_geometric.data import Data  # noqa: E402


def as_pyg(dataset: Any) -> Data:
    """What PyG's loader delivers for this dataset."""
    graph = dataset.graph.edge_index()
    x = dataset.x.toarray() if sp.issparse(dataset.x) else np.array(dataset.x)
    result = Data(x=torch.from_numpy(x), edge_index=graph, y=torch.from_numpy(np.array(dataset.y)))
    splits = [dataset.public] if dataset.public else list(dataset.official)
    if splits:
        masks = np.array([split.masks(dataset.num_nodes) for split in splits])
        for part, mask in zip(("train", "val", "test"), np.moveaxis(masks, 1, 0), strict=True):
            two_axes = torch.from_numpy(mask.T.copy())
            result[f"{part}_mask"] = two_axes[:, 0] if dataset.public else two_axes
    return result


@pytest.mark.parametrize("name", ["Cora", "Citeseer", "Photo", "Minesweeper"])
def test_conversion_of_a_real_graph_gives_the_same_dataset(name: str, real: Any) -> None:
    dataset, entry = real(name), catalogue.find(name)
    arrays = downloads.to_arrays(as_pyg(dataset), entry)
    again = loading.from_arrays(arrays, entry)
    assert again.graph == dataset.graph
    assert sp.issparse(again.x) == sp.issparse(dataset.x)
    assert abs(again.x - dataset.x).max() == 0
    assert np.array_equal(again.y, dataset.y)
    assert again.public == dataset.public
    assert again.official == dataset.official
    assert np.array_equal(again.labelled, dataset.labelled)
    assert "edge_index_pyg" not in arrays


def test_directed_loaders_get_the_reverse_edges_added() -> None:
    entry = Entry("Tiny", 3, 5, 2, 2, ("WebKB", "Tiny"))
    given = Data(
        x=torch.ones(3, 2),
        y=torch.tensor([0, 1, 1]),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 2]]),
        train_mask=torch.eye(3, dtype=torch.bool)[:, [0, 0]],
        val_mask=torch.eye(3, dtype=torch.bool)[:, [1, 2]],
        test_mask=torch.eye(3, dtype=torch.bool)[:, [2, 1]],
    )
    arrays = downloads.to_arrays(given, entry)
    assert arrays["edge_index_pyg"].tolist() == [[0, 1, 2], [1, 2, 2]]
    assert arrays["edge_index"].tolist() == [[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]]
    dataset = loading.from_arrays(arrays, entry)
    assert [split.val.tolist() for split in dataset.official] == [[1], [2]]


def test_single_masks_of_other_loaders_are_one_official_split() -> None:
    entry = Entry("Tiny", 3, 2, 2, 2, ("Reddit2",))
    eye = torch.eye(3, dtype=torch.bool)
    given = Data(
        x=torch.ones(3, 2),
        y=torch.tensor([0, 1, 1]),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        train_mask=eye[0],
        val_mask=eye[1],
        test_mask=eye[2],
    )
    dataset = loading.from_arrays(downloads.to_arrays(given, entry), entry)
    assert dataset.public is None
    assert len(dataset.official) == 1


def test_pygs_own_loader_reads_a_small_raw_file(tmp_path: Path) -> None:
    """The real loader on an invented file of Questions' layout, so nothing is downloaded."""
    raw = tmp_path / "questions" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    n = 12
    part = np.arange(n) % 3
    np.savez(
        raw / "questions.npz",
        node_features=rng.random((n, 4), dtype=np.float32),
        node_labels=np.arange(n) % 2,
        edges=np.stack([np.arange(n - 1), np.arange(1, n)], axis=1),
        train_masks=np.array([part == 0] * 10),
        val_masks=np.array([part == 1] * 10),
        test_masks=np.array([part == 2] * 10),
    )
    loader = ("HeterophilousGraphDataset", "Questions")
    entry = Entry("Questions", n, 2 * (n - 1), 2, 4, loader, "official")
    dataset = loading.from_arrays(downloads.from_pyg(entry, tmp_path), entry)
    assert dataset.graph.degree.tolist() == [1] + [2] * (n - 2) + [1]
    assert len(dataset.official) == 10
    assert dataset.official[3].test.tolist() == [2, 5, 8, 11]


def test_pygs_own_directed_loader_reads_small_raw_files(tmp_path: Path) -> None:
    """An invented Texas: four pages, three links and a self-loop."""
    raw = tmp_path / "texas" / "raw"
    raw.mkdir(parents=True)
    rows = ["0\t1,0\t0", "1\t0,1\t1", "2\t1,1\t1", "3\t0,0\t0"]
    (raw / "out1_node_feature_label.txt").write_text("\n".join(["header", *rows, ""]))
    edges = ["0\t1", "1\t2", "3\t2", "3\t3"]
    (raw / "out1_graph_edges.txt").write_text("\n".join(["header", *edges, ""]))
    for k in range(10):
        masks = np.roll(np.eye(4, dtype=np.int64), k, axis=0)
        np.savez(
            raw / f"texas_split_0.6_0.2_{k}.npz",
            train_mask=masks[0],
            val_mask=masks[1],
            test_mask=masks[2],
        )
    entry = Entry("Texas", 4, 7, 2, 2, ("WebKB", "Texas"), "official", self_loops=1)
    arrays = downloads.from_pyg(entry, tmp_path)
    undirected, directed = (loading.from_arrays(arrays, entry, directed=d) for d in (False, True))
    assert undirected.graph.degree.tolist() == [1, 2, 2, 1]
    assert directed.graph.edge_index().tolist() == [[0, 1, 3], [1, 2, 2]]
    assert [int(split.train[0]) for split in undirected.official[:3]] == [0, 3, 2]


def test_pygs_own_loader_makes_features_binary(tmp_path: Path) -> None:
    """An invented CoraFull: PyG sets counts to 1, so the stored file needs no mark for it."""
    raw = tmp_path / "CoraFull" / "cora" / "raw"
    raw.mkdir(parents=True)
    counts = sp.csr_matrix(np.eye(5, 80) * 7)
    links = sp.csr_matrix(np.eye(5, k=1))
    parts = {
        f"{name}_{part}": getattr(matrix, part)
        for name, matrix in (("attr", counts), ("adj", links))
        for part in ("data", "indices", "indptr", "shape")
    }
    np.savez(raw / "cora.npz", labels=np.array([0, 1, 2, 1, 0]), **parts)
    entry = Entry("CoraFull", 5, 8, 3, 80, ("CoraFull",))
    dataset = loading.from_arrays(downloads.from_pyg(entry, tmp_path), entry)
    assert sp.issparse(dataset.x)
    assert dataset.x.data.tolist() == [1, 1, 1, 1, 1]
    assert dataset.graph.degree.tolist() == [1, 2, 2, 2, 1]


@pytest.mark.parametrize(
    "entry", [e for e in catalogue.ENTRIES.values() if e.origin == "pyg"], ids=lambda e: e.name
)
def test_every_loader_exists_in_pyg(entry: Entry) -> None:
    assert hasattr(torch_geometric.datasets, entry.loader[0])
