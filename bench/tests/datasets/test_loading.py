"""`load`: the catalogue, real graphs, downloads and converted copies, the built-in digits."""

import shutil
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from simi_mailbox.calibrators.simi_mailbox.families import FAMILIES
from simi_mailbox.files import cache_folder
from simi_mailbox_bench import datasets
from simi_mailbox_bench.datasets import catalogue, downloads, loading
from simi_mailbox_bench.datasets.catalogue import Entry

WITH_FILE = [name for name, entry in catalogue.ENTRIES.items() if entry.sha256]


def put(folder, name, arrays):
    path = folder / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("name", WITH_FILE)
def test_real_graphs_have_the_published_counts(name, real):
    dataset, entry = real(name), catalogue.find(name)
    assert dataset.num_nodes == entry.nodes
    assert dataset.graph.num_entries == 2 * entry.edges
    assert dataset.y.max() + 1 == dataset.num_classes == entry.classes
    assert dataset.num_features == entry.features
    assert dataset.homophily() == pytest.approx(entry.homophily, abs=5.1e-4)
    assert (dataset.folds is not None) == entry.folds
    assert (dataset.public is not None) == (entry.splits == "public")
    assert len(dataset.official) == (10 if entry.splits == "official" else 0)


def test_citeseers_unlabelled_nodes_are_marked(real):
    dataset = real("Citeseer")
    assert dataset.unlabelled.sum() == 15
    assert set(dataset.y[dataset.unlabelled]) == {0}
    assert dataset.x[np.flatnonzero(dataset.unlabelled)].nnz == 0
    assert not np.isin(np.flatnonzero(dataset.unlabelled), dataset.public.test).any()


def test_one_changed_bit_of_a_real_file_is_refused(real, tmp_path, monkeypatch):
    real("Texas")
    found = loading.locate(catalogue.find("Texas"))
    copy = tmp_path / "Texas.npz"
    shutil.copyfile(found.path, copy)
    monkeypatch.setenv("SIMI_MAILBOX_DATA", str(tmp_path))
    assert datasets.load("Texas").num_nodes == 183
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    with pytest.raises(ValueError, match="wrong checksum and is refused") as caught:
        datasets.load("Texas")
    assert catalogue.find("Texas").sha256 in str(caught.value)


def test_missing_data_and_a_failed_download_say_why_and_what_to_do(folder, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load("Cora", download=False)
    told = (f"no Cora.npz in {folder}", str(cache_folder("data")), catalogue.find("Cora").sha256)
    for words in (*told, "SIMI_MAILBOX_DATA", "simi-mailbox[pyg]"):
        assert words in str(caught.value)
    for module in ("torch_geometric", "torch_geometric.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'simi-mailbox\[pyg\]'"):
        datasets.load("Questions")

    def offline(entry, root):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(downloads, "from_pyg", offline)
    with pytest.raises(FileNotFoundError, match="PyG's loader did not provide it: no route"):
        datasets.load("Questions")
    assert not list(folder.iterdir())


def test_the_data_folder_comes_before_the_cache(folder, tiny, tiny_arrays):
    loading.write_archive(cache_folder("data") / "Tiny.npz", tiny_arrays)
    assert datasets.load("tiny").x[0, 0] == 2
    tiny_arrays["x_data"] = np.array([9.0, 3.0, 0.5], dtype=np.float32)
    put(folder, "Tiny", tiny_arrays)
    assert datasets.load("tiny").x[0, 0] == 9
    assert "Tiny" in datasets.available()


def test_a_download_is_kept_and_checked_the_next_time(folder, tiny, tiny_arrays, monkeypatch):
    calls = []

    def provide(entry, root):
        calls.append(entry.name)
        return tiny_arrays

    monkeypatch.setattr(downloads, "from_pyg", provide)
    first, second = datasets.load("Tiny"), datasets.load("Tiny")
    assert calls == ["Tiny"]
    assert (first.source, second.source) == ("pyg", "converted")
    assert first.graph == second.graph
    assert not list(folder.iterdir())
    kept = cache_folder("data") / "Tiny.converted.npz"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match="cannot read"):
        datasets.load("Tiny")


def test_labels_that_do_not_belong_to_the_edges_are_refused_and_not_kept(
    folder, tiny, tiny_arrays, monkeypatch
):
    # The case of geom-gcn's Cornell: right counts, another graph's labels.
    wrong = Entry(**{**tiny.__dict__, "homophily": 0.25})
    monkeypatch.setitem(catalogue.ENTRIES, "Tiny", wrong)
    monkeypatch.setattr(downloads, "from_pyg", lambda entry, root: tiny_arrays)
    with pytest.raises(ValueError, match=r"1\.000 of its edges join one class, expected 0\.250"):
        datasets.load("Tiny")
    assert not cache_folder("data").exists()


def test_a_copy_without_the_published_folds_says_so(folder, tiny, tiny_arrays, monkeypatch):
    monkeypatch.setitem(catalogue.ENTRIES, "Tiny", Entry(**{**tiny.__dict__, "folds": True}))
    put(folder, "Tiny", tiny_arrays)
    with pytest.warns(UserWarning, match="lacks the published 3-fold splits"):
        datasets.load("Tiny")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *((name, "Cora") for name in ("Cora", "cora", " CORA ", "cOrA")),
        *(("reddit", "Reddit2"), ("ogbn-arxiv", "Arxiv"), ("Cora_ML", "CoraML")),
    ],
)
def test_names_ignore_case_and_other_libraries_names_are_known(given, name):
    assert catalogue.find(given).name == name


def test_every_dataset_of_the_experiments_is_listed_and_has_one_family():
    wanted = (
        "Cora Citeseer Pubmed CoraFull Computers Photo CS Physics CoraML Arxiv Reddit2 Chameleon "
        "Squirrel Actor Texas Wisconsin Cornell Roman-empire Amazon-ratings Minesweeper Tolokers "
        "Questions Tolokers-weighted FDCompCN FDCompCN-weighted RedditBans German Digits TwitchDE "
        "TwitchENGB TwitchES TwitchFR TwitchPTBR TwitchRU TwitchZHTW"
    )
    assert datasets.names() == wanted.split()
    assert sorted(name for members in FAMILIES.values() for name in members) == sorted(
        datasets.names()
    )


@pytest.fixture(scope="module")
def digits():
    return datasets.load("Digits", download=False)


def test_digits_are_as_in_the_catalogue_each_joined_to_its_eight_nearest(digits):
    x = load_digits().data
    distance, _ = NearestNeighbors(n_neighbors=9).fit(x).kneighbors(x)
    assert int(digits.graph.degree.min()) >= 8
    for node in range(0, 1797, 97):
        neighbours = digits.graph.neighbours(node).numpy()
        to_neighbours = np.sort(np.linalg.norm(x[neighbours] - x[node], axis=1))
        # Ties may fall either way, distances may not.
        assert np.allclose(to_neighbours[:8], distance[node, 1:])
    entry, again = catalogue.find("digits"), datasets.load("digits")
    assert digits.graph.num_entries == 2 * entry.edges
    assert digits.x.shape == (entry.nodes, entry.features)
    assert digits.homophily() == pytest.approx(entry.homophily, abs=5e-4)
    assert (again.graph, again.official) == (digits.graph, digits.official)


def test_ten_different_splits_with_twenty_labels_per_class(digits):
    splits = [datasets.make_split(digits, "official", split=s) for s in range(10)]
    for split in splits:
        assert np.bincount(digits.y[split.train]).tolist() == [20] * 10
        assert (split.val.size, sum(split.sizes)) == (500, 1797)
    assert len({tuple(split.val) for split in splits}) == 10
