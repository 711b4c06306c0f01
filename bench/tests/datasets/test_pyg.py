import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.datasets
from torch_geometric.data import Data

from simi_mailbox_bench.datasets import catalogue, downloads, loading
from simi_mailbox_bench.datasets.catalogue import Entry


def as_pyg(dataset):
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
def test_conversion_of_a_real_graph_gives_the_same_dataset(name, real):
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


EYE = torch.eye(3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("entry", "given", "edges", "parts"),
    [
        (
            Entry("Tiny", 3, 5, 2, 2, ("WebKB", "Tiny")),
            [[0, 1, 2], [1, 2, 2]],
            [[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]],
            (EYE[:, [0, 0]], EYE[:, [1, 2]], EYE[:, [2, 1]]),
        ),
        (Entry("Tiny", 3, 2, 2, 2, ("Reddit2",)), [[0, 1], [1, 0]], [[0, 1], [1, 0]], EYE),
    ],
    ids=["directed: the reverse edges are added", "single masks are one official split"],
)
def test_what_loaders_deliver_is_converted(entry, given, edges, parts):
    masks = dict(zip(("train_mask", "val_mask", "test_mask"), parts, strict=True))
    y, ends = torch.tensor([0, 1, 1]), torch.tensor(given)
    arrays = downloads.to_arrays(Data(torch.ones(3, 2), ends, y=y, **masks), entry)
    assert arrays["edge_index"].tolist() == edges
    dataset = loading.from_arrays(arrays, entry)
    assert dataset.public is None
    assert [split.val.tolist() for split in dataset.official] == [[1], [2]][: parts[0].ndim]


def test_pygs_own_loader_makes_features_binary(tmp_path):
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
def test_every_loader_exists_in_pyg(entry):
    assert hasattr(torch_geometric.datasets, entry.loader[0])
