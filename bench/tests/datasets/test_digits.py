import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from simi_mailbox_bench import datasets
from simi_mailbox_bench.datasets import catalogue


@pytest.fixture(scope="module")
def digits() -> datasets.NodeDataset:
    return datasets.load("Digits", download=False)


def test_every_node_is_joined_to_its_eight_nearest(digits: datasets.NodeDataset) -> None:
    x = load_digits().data
    distance, _ = NearestNeighbors(n_neighbors=9).fit(x).kneighbors(x)
    assert int(digits.graph.degree.min()) >= 8
    for node in range(0, 1797, 97):
        neighbours = digits.graph.neighbours(node).numpy()
        to_neighbours = np.sort(np.linalg.norm(x[neighbours] - x[node], axis=1))
        # Ties may fall either way, distances may not.
        assert np.allclose(to_neighbours[:8], distance[node, 1:])


def test_counts_are_those_of_the_catalogue(digits: datasets.NodeDataset) -> None:
    entry = catalogue.find("digits")
    assert digits.graph.num_entries == 2 * entry.edges
    assert digits.x.shape == (entry.nodes, entry.features)
    assert digits.homophily() == pytest.approx(entry.homophily, abs=5e-4)


def test_ten_different_splits_with_twenty_labels_per_class(digits: datasets.NodeDataset) -> None:
    splits = [datasets.make_split(digits, "official", split=s) for s in range(10)]
    for split in splits:
        assert np.bincount(digits.y[split.train]).tolist() == [20] * 10
        assert split.val.size == 500
        assert sum(split.sizes) == 1797
    assert len({tuple(split.val) for split in splits}) == 10


def test_loading_again_gives_the_same(digits: datasets.NodeDataset) -> None:
    again = datasets.load("digits")
    assert again.graph == digits.graph
    assert again.official == digits.official
