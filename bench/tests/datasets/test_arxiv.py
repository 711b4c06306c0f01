import gzip
import zipfile

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
def small(folder, monkeypatch):
    """The data folder, with Arxiv's catalogue entry cut to the size of the invented files."""
    monkeypatch.setitem(catalogue.ENTRIES, "Arxiv", SMALL)
    return folder


def unpack(folder, name="arxiv"):
    for path, text in CONTENT.items():
        target = folder / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(text.encode()))
    return folder / name


@pytest.mark.parametrize("form", ["arxiv", "ogbn_arxiv"])
def test_reads_ogbs_files_and_symmetrises(small, form):
    unpack(small, form)
    assert "Arxiv" in datasets.available()
    dataset = datasets.load("ogbn-arxiv", download=False)
    assert dataset.graph.edge_index().tolist() == [[1, 3, 0, 2, 1, 0], [0, 0, 1, 1, 2, 3]]
    assert dataset.y.tolist() == [1, 0, 2, 0]
    assert np.array_equal(dataset.x, np.float32([[0.5, -1.25], [1, 0], [0, 2e-3], [3, 4]]))
    assert dataset.official == (datasets.Split([0, 3], [2], [1]),)
    assert loading.locate(SMALL) is not None


def test_a_download_goes_into_the_cache(small, monkeypatch):
    source = small / "elsewhere.zip"
    with zipfile.ZipFile(source, "w") as archive:
        for path, text in CONTENT.items():
            archive.writestr(f"arxiv/{path}", gzip.compress(text.encode()))
    monkeypatch.setattr(downloads, "ARXIV_URL", source.as_uri())
    assert datasets.load("Arxiv").num_nodes == 4
    kept = {path.name for path in cache_folder("data").iterdir()}
    assert kept == {"arxiv", "Arxiv.converted.npz"}


def test_what_cannot_be_had_leaves_nothing_and_says_where_to_get_it(small, monkeypatch):
    with pytest.raises(FileNotFoundError, match="OGB's archive") as caught:
        datasets.load("Arxiv", download=False)
    assert downloads.ARXIV_URL in str(caught.value)
    monkeypatch.setattr(downloads, "ARXIV_URL", (small / "nothing.zip").as_uri())
    with pytest.raises(FileNotFoundError, match="did not provide it"):
        datasets.load("Arxiv")
    assert list(cache_folder("data").iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b"0,1")[:20], gzip.compress(b"a,b\n"), None],
    ids=("cut", "text", "none"),
)
def test_a_damaged_or_missing_file_is_named(small, content):
    path = unpack(small) / "raw" / "node-feat.csv.gz"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot read raw/node-feat\.csv\.gz of ogbn-arxiv"):
        datasets.load("Arxiv", download=False)
