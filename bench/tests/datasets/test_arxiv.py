import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from simi_mailbox.files import cache_folder
from simi_mailbox_bench import datasets
from simi_mailbox_bench.datasets import catalogue, downloads, loading
from simi_mailbox_bench.datasets.catalogue import Entry

CONTENT = {
    "raw/edge.csv.gz": "0,1\n2,1\n1,2\n3,0\n",
    "raw/node-feat.csv.gz": "0.5,-1.25\n1,0\n0,2e-3\n3,4\n",
    "raw/node-label.csv.gz": "1\n0\n2\n0\n",
    "split/time/train.csv.gz": "0\n3\n",
    "split/time/valid.csv.gz": "2\n",
    "split/time/test.csv.gz": "1\n",
}
SMALL = Entry("Arxiv", 4, 6, 3, 2, (), "official", origin="ogb")


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, with Arxiv's catalogue entry cut to the size of the invented files."""
    monkeypatch.setitem(catalogue.ENTRIES, "Arxiv", SMALL)
    return folder


def unpack(folder: Path, name: str = "arxiv") -> Path:
    for path, text in CONTENT.items():
        target = folder / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(text.encode()))
    return folder / name


def pack(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "arxiv.zip", "w") as archive:
        for path, text in CONTENT.items():
            archive.writestr(f"arxiv/{path}", gzip.compress(text.encode()))
    return folder / "arxiv.zip"


@pytest.mark.parametrize("form", ["arxiv", "ogbn_arxiv", "zip"])
def test_reads_ogbs_files_and_symmetrises(small: Path, form: str) -> None:
    if form == "zip":
        pack(small)
    else:
        unpack(small, form)
    assert "Arxiv" in datasets.available()
    dataset = datasets.load("ogbn-arxiv", download=False)
    assert dataset.graph.edge_index().tolist() == [[1, 3, 0, 2, 1, 0], [0, 0, 1, 1, 2, 3]]
    assert dataset.y.tolist() == [1, 0, 2, 0]
    assert np.array_equal(dataset.x, np.float32([[0.5, -1.25], [1, 0], [0, 2e-3], [3, 4]]))
    assert dataset.official == (datasets.Split([0, 3], [2], [1]),)
    assert loading.locate(SMALL) is not None


def test_directed_keeps_citations(small: Path) -> None:
    unpack(small)
    graph = datasets.load("Arxiv", directed=True, download=False).graph
    assert graph.edge_index().tolist() == [[3, 0, 2, 1], [0, 1, 1, 2]]


def test_missing_archive_says_where_to_get_it(small: Path) -> None:
    with pytest.raises(FileNotFoundError, match="OGB's archive") as caught:
        datasets.load("Arxiv", download=False)
    assert downloads.ARXIV_URL in str(caught.value)


def test_a_download_goes_into_the_cache(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pack(small).rename(small / "elsewhere.zip")
    monkeypatch.setattr(downloads, "ARXIV_URL", source.as_uri())
    assert datasets.load("Arxiv").num_nodes == 4
    kept = {path.name for path in cache_folder("data").iterdir()}
    assert kept == {"arxiv.zip", "Arxiv.converted.npz", "Arxiv.converted.npz.sha256"}


def test_a_broken_download_leaves_nothing(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "ARXIV_URL", (small / "nothing.zip").as_uri())
    with pytest.raises(FileNotFoundError, match="did not provide it"):
        datasets.load("Arxiv")
    assert list(cache_folder("data").iterdir()) == []


@pytest.mark.parametrize("damage", ["truncate", "words", "remove"])
def test_a_damaged_file_is_named(small: Path, damage: str) -> None:
    path = unpack(small) / "raw" / "node-feat.csv.gz"
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:20])
    elif damage == "words":
        path.write_bytes(gzip.compress(b"a,b\n"))
    else:
        path.unlink()
    with pytest.raises(ValueError, match=r"cannot read raw/node-feat\.csv\.gz of ogbn-arxiv"):
        datasets.load("Arxiv", download=False)


def test_other_counts_than_ogbs_are_refused(folder: Path) -> None:
    unpack(folder)
    with pytest.raises(ValueError, match=r"is not usable: it has 4 nodes, expected 169343"):
        datasets.load("Arxiv", download=False)
