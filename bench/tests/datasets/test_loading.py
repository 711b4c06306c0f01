import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simi_mailbox._arrays import Arrays
from simi_mailbox.files import cache_folder
from simi_mailbox_bench import datasets
from simi_mailbox_bench.datasets import catalogue, downloads, loading
from simi_mailbox_bench.datasets.catalogue import Entry

WITH_FILE = [name for name, entry in catalogue.ENTRIES.items() if entry.sha256]


def put(folder: Path, name: str, arrays: Arrays) -> Path:
    path = folder / f"{name}.npz"
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("name", WITH_FILE)
def test_real_graphs_have_the_published_counts(name: str, real: Any) -> None:
    dataset, entry = real(name), catalogue.find(name)
    assert dataset.num_nodes == entry.nodes
    assert dataset.graph.num_entries == 2 * entry.edges
    assert dataset.y.max() + 1 == dataset.num_classes == entry.classes
    assert dataset.num_features == entry.features
    assert dataset.homophily() == pytest.approx(entry.homophily, abs=5.1e-4)
    assert (dataset.folds is not None) == entry.folds
    assert (dataset.public is not None) == (entry.splits == "public")
    assert len(dataset.official) == (10 if entry.splits == "official" else 0)


@pytest.mark.parametrize("name", ["Photo", "Computers", "CS", "Physics", "CoraML"])
def test_features_are_binary_as_pyg_delivers_them(name: str, real: Any) -> None:
    x = real(name).x
    assert x.nnz > 0
    assert set(np.unique(x.data)) == {1.0}


def test_pubmed_keeps_its_tf_idf_values(real: Any) -> None:
    assert np.unique(real("Pubmed").x.data).size > 1000


def test_citeseers_unlabelled_nodes_are_marked(real: Any) -> None:
    dataset = real("Citeseer")
    assert dataset.unlabelled is not None
    assert dataset.unlabelled.sum() == 15
    assert set(dataset.y[dataset.unlabelled]) == {0}
    assert dataset.x[np.flatnonzero(dataset.unlabelled)].nnz == 0
    assert not np.isin(np.flatnonzero(dataset.unlabelled), dataset.public.test).any()


@pytest.mark.parametrize(
    ("name", "entries"), [("Chameleon", 36101), ("Texas", 325), ("Actor", 30019)]
)
def test_directed_gives_pygs_edges_without_self_loops(name: str, entries: int, real: Any) -> None:
    real(name)
    graph = datasets.load(name, directed=True).graph
    assert graph.is_directed
    assert graph.num_entries == entries - catalogue.find(name).self_loops


def test_a_wrong_checksum_is_refused(folder: Path) -> None:
    arrays = {"y": np.zeros(3)}
    put(folder, "Cora", arrays)
    with pytest.raises(ValueError, match="wrong checksum and is refused") as caught:
        datasets.load("Cora")
    assert catalogue.find("Cora").sha256 in str(caught.value)


def test_one_changed_bit_of_a_real_file_is_refused(
    real: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real("Texas")
    found = loading.locate(catalogue.find("Texas"))
    assert found is not None
    copy = tmp_path / "Texas.npz"
    shutil.copyfile(found.path, copy)
    monkeypatch.setenv("SIMI_MAILBOX_DATA", str(tmp_path))
    assert datasets.load("Texas").num_nodes == 183
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    with pytest.raises(ValueError, match="wrong checksum"):
        datasets.load("Texas")


def test_missing_data_say_what_to_do(folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load("Cora", download=False)
    message = str(caught.value)
    assert f"no Cora.npz in {folder}" in message
    assert str(cache_folder("data")) in message
    assert catalogue.find("Cora").sha256 in message
    assert "SIMI_MAILBOX_DATA" in message
    assert "simi-mailbox[pyg]" in message


def test_a_failed_download_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(entry: Entry, root: Path) -> Arrays:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(downloads, "from_pyg", offline)
    with pytest.raises(FileNotFoundError, match="PyG's loader did not provide it: no route"):
        datasets.load("Questions")
    assert not list(folder.iterdir())


def test_without_pyg_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.datasets", None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'simi-mailbox\[pyg\]'"):
        datasets.load("Questions")


def test_the_data_folder_comes_before_the_cache(
    folder: Path, tiny: Entry, tiny_arrays: Arrays
) -> None:
    loading.write_archive(cache_folder("data") / "Tiny.npz", tiny_arrays)
    assert datasets.load("tiny").x[0, 0] == 2
    tiny_arrays["x_data"] = np.array([9.0, 3.0, 0.5], dtype=np.float32)
    put(folder, "Tiny", tiny_arrays)
    assert datasets.load("tiny").x[0, 0] == 9
    assert "Tiny" in datasets.available()


def test_a_download_is_kept_and_checked_the_next_time(
    folder: Path, tiny: Entry, tiny_arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def provide(entry: Entry, root: Path) -> Arrays:
        calls.append(entry.name)
        return tiny_arrays

    monkeypatch.setattr(downloads, "from_pyg", provide)
    first, second = datasets.load("Tiny"), datasets.load("Tiny")
    assert calls == ["Tiny"]
    assert (first.source, second.source) == ("pyg", "converted")
    assert first.graph == second.graph
    assert not list(folder.iterdir())
    kept = cache_folder("data") / "Tiny.converted.npz"
    tiny_arrays["y"] = tiny_arrays["y"][::-1]
    np.savez_compressed(kept, **tiny_arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wrong checksum"):
        datasets.load("Tiny")


def test_an_unwritable_cache_does_not_lose_the_download(
    folder: Path, tiny: Entry, tiny_arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "from_pyg", lambda entry, root: tiny_arrays)
    (folder / "blocked").write_text("a file where the cache folder should be")
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(folder / "blocked"))
    with pytest.warns(UserWarning, match="could not keep Tiny"):
        assert datasets.load("Tiny").num_nodes == 6


def test_labels_that_do_not_belong_to_the_edges_are_refused_and_not_kept(
    folder: Path, tiny: Entry, tiny_arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The case of geom-gcn's Cornell: right counts, another graph's labels.
    wrong = Entry(**{**tiny.__dict__, "homophily": 0.25})
    monkeypatch.setitem(catalogue.ENTRIES, "Tiny", wrong)
    monkeypatch.setattr(downloads, "from_pyg", lambda entry, root: tiny_arrays)
    with pytest.raises(ValueError, match=r"1\.000 of its edges join one class, expected 0\.250"):
        datasets.load("Tiny")
    assert not cache_folder("data").exists()


def test_a_copy_without_the_published_folds_says_so(
    folder: Path, tiny: Entry, tiny_arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue.ENTRIES, "Tiny", Entry(**{**tiny.__dict__, "folds": True}))
    put(folder, "Tiny", tiny_arrays)
    with pytest.warns(UserWarning, match="lacks the published 3-fold splits"):
        datasets.load("Tiny")


def test_the_default_folder_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMI_MAILBOX_DATA", raising=False)
    monkeypatch.delenv("SIMI_MAILBOX_CACHE", raising=False)
    assert loading.folders() == [Path.home() / ".cache" / "simi-mailbox" / "data"]


def test_geom_gcns_corrupt_cornell_is_refused(
    real: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the real files first, the empty folder of the fixture afterwards
    cornell, texas = real("Cornell"), real("Texas")
    monkeypatch.setenv("SIMI_MAILBOX_DATA", str(folder))
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(folder / "cache"))
    found = np.zeros((183, 183), dtype=bool)
    found[tuple(cornell.graph.edge_index().numpy())] = True
    found[range(3), range(3)] = True  # stand for the three self-loops of the source
    arrays = {
        "edge_index": np.argwhere(found).T,
        "y": texas.y,
        **downloads.feature_arrays(texas.x.toarray()),
    }
    monkeypatch.setattr(downloads, "from_pyg", lambda entry, root: arrays)
    with pytest.raises(ValueError, match=r"0\.256 of its edges join one class, expected 0\.123"):
        datasets.load("Cornell")
