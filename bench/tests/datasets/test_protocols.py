import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simi_mailbox.graph import Graph
from simi_mailbox_bench import datasets
from simi_mailbox_bench.datasets.protocols import stratified_folds

GATS = ("Cora", "Citeseer", "Pubmed", "Photo", "Computers", "CS", "Physics", "Actor")
RANDOM = (
    *("folds", "sparse", "rate20", "rate40", "rate60", "gpn"),
    *("random-10-10-80", "random-50-25-25"),
)

class_sizes = st.lists(st.integers(1, 300), min_size=2, max_size=8)


def invent(sizes, *, shuffle=0, name="invented"):
    y = np.random.default_rng(shuffle).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return datasets.NodeDataset(
        name, Graph.empty(y.size), np.zeros((y.size, 1)), y, num_classes=len(sizes)
    )


def counts(y, nodes, classes):
    return np.bincount(y[nodes], minlength=classes)


@given(class_sizes, st.integers(0, 2**32))
def test_folds_have_the_rules_class_counts(sizes, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    folds = stratified_folds(y, np.random.default_rng(seed))
    for c, size in enumerate(sizes):
        drawn = int(0.15 * size)
        of_class = folds[y == c]
        per_fold = np.array([(of_class == f).sum() for f in range(3)])
        assert per_fold.sum() == drawn
        assert per_fold.max() - per_fold.min() <= 1
        assert (of_class == 3).sum() == int(0.85 * (size - drawn))
    totals = [(folds == f).sum() for f in range(3)]
    # Dealing goes on from class to class, so that the folds' sizes too differ by one at most.
    assert max(totals) - min(totals) <= 1


@pytest.mark.parametrize("name", GATS)
def test_shipped_folds_follow_the_rule_that_ours_follow(name, real):
    dataset = real(name)
    for split in range(5):
        ours = stratified_folds(dataset.y, np.random.default_rng(split))
        found = []
        for folds in (dataset.folds[split], ours):
            kind = np.where((folds >= 0) & (folds < 3), 0, folds)  # the three folds are one draw
            by_class = [np.bincount(kind[dataset.y == c] + 1) for c in range(dataset.num_classes)]
            found.append([*(one.tolist() for one in by_class), np.bincount(folds + 1).tolist()])
        assert found[0] == found[1]


def test_shipped_folds_are_used_where_they_exist(real):
    cora = real("Cora")
    split = datasets.make_split(cora, "folds", split=2, fold=1)
    assert np.array_equal(split.val, np.flatnonzero(cora.folds[2] == 1))
    assert np.array_equal(split.train, np.flatnonzero(np.isin(cora.folds[2], (0, 2))))
    assert np.array_equal(split.test, np.flatnonzero(cora.folds[2] == 3))
    assert split.sizes == (268, 134, 1957)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(RANDOM), st.integers(0, 4), st.integers(0, 2**32))
def test_random_splits_are_reproducible_and_differ(protocol, split, seed):
    sizes = [900, 700, 400, 130, 25]
    dataset = invent(sizes, shuffle=seed)
    first = datasets.make_split(dataset, protocol, split=split)
    assert first == datasets.make_split(invent(sizes, shuffle=seed), protocol, split=split)
    assert first != datasets.make_split(dataset, protocol, split=(split + 1) % 5)
    assert first != datasets.make_split(
        invent(sizes, shuffle=seed, name="other"), protocol, split=split
    )
    assert sum(first.sizes) <= dataset.num_nodes
    if protocol == "random-10-10-80":
        assert first.sizes == (215, 215, 1725)


def test_a_known_split_never_changes():
    """Results are stored under a split's number, so the numbers must keep their meaning."""
    dataset = invent([900, 700, 400])
    split = datasets.make_split(dataset, "sparse", split=3)
    assert split.train[:6].tolist() == [21, 22, 67, 101, 172, 196]
    folds = datasets.make_split(dataset, "folds", split=1, fold=2)
    assert folds.val[:6].tolist() == [14, 16, 52, 58, 112, 144]


@pytest.mark.parametrize("protocol", RANDOM)
def test_nodes_without_a_label_are_in_no_part(protocol):
    base = invent([1200, 900, 500])
    unlabelled = np.arange(2600) % 4 == 0
    dataset = datasets.NodeDataset(
        "part", base.graph, base.x, base.y, num_classes=3, unlabelled=unlabelled
    )
    split = datasets.make_split(dataset, protocol)
    for part in (split.train, split.val, split.test):
        assert not unlabelled[part].any()


def test_sparse_takes_twenty_per_class_or_half_of_a_small_one():
    dataset = invent([1600, 700, 39, 15, 1])
    split = datasets.make_split(dataset, "sparse", split=9)
    assert split.sizes == (66, 500, 1000)
    assert counts(dataset.y, split.train, 5).tolist() == [20, 20, 19, 7, 0]
    with pytest.raises(ValueError, match=r"too small for 20 labels per class: 260 nodes are left"):
        datasets.make_split(invent([200, 100]), "sparse")


@pytest.mark.parametrize("name", ["Cora", "Citeseer", "Pubmed"])
def test_rates_add_the_nodes_after_the_validation_nodes(name, real):
    dataset = real(name)
    public = datasets.make_split(dataset, "public")
    assert public.sizes == (20 * dataset.num_classes, 500, 1000)
    assert set(counts(dataset.y, public.train, dataset.num_classes)) == {20}
    assert datasets.make_split(dataset, "rate20") == public
    for rate in (40, 60):
        split = datasets.make_split(dataset, f"rate{rate}")
        added = np.setdiff1d(split.train, public.train)
        start = public.val.max() + 1
        assert np.array_equal(added, np.arange(start, start + (rate - 20) * dataset.num_classes))
        assert np.array_equal(split.val, public.val)
        assert np.array_equal(split.test, public.test)


def test_rates_without_a_public_split_are_nested_and_balanced():
    dataset = invent([1200, 800, 90])
    splits = {rate: datasets.make_split(dataset, f"rate{rate}", split=2) for rate in (20, 40, 60)}
    assert np.isin(splits[20].train, splits[40].train).all()
    assert np.isin(splits[40].train, splits[60].train).all()
    for rate, split in splits.items():
        assert counts(dataset.y, split.train, 3).tolist() == [rate, rate, min(rate, 45)]
        assert np.array_equal(split.val, splits[20].val)
        assert np.array_equal(split.test, splits[20].test)


@given(st.lists(st.integers(40, 400), min_size=2, max_size=6))
def test_gpn_takes_shares_of_what_is_left_of_a_class(sizes):
    dataset = invent(sizes)
    split = datasets.make_split(dataset, "gpn")
    for c, size in enumerate(sizes):
        train = int(0.05 * size)
        val = int(0.15 * (size - train))
        test = int(0.80 * (size - train - val))
        got = [(dataset.y[part] == c).sum() for part in (split.train, split.val, split.test)]
        assert got == [train, val, test]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Texas", (87, 59, 37)),
        ("Chameleon", (1092, 729, 456)),
        ("Minesweeper", (5000, 2500, 2500)),
    ],
)
def test_official_splits_have_their_published_sizes(name, sizes, real):
    dataset = real(name)
    assert {datasets.make_split(dataset, "official", split=s).sizes for s in range(10)} == {sizes}


@pytest.mark.parametrize(
    ("protocol", "split", "fold", "message"),
    [
        ("folds", 5, 0, r"split=5 is out of range: 'folds' has split 0\.\.4"),
        ("folds", -1, 0, "split=-1 is out of range"),
        ("folds", 0, 3, r"fold=3 is out of range: 'folds' has fold 0\.\.2"),
        ("sparse", 0, 1, r"'sparse' has fold 0\.\.0"),
        ("gpn", 10, 0, "split=10 is out of range"),
        ("public", 0, 0, "invented has no 'public' split; it has: folds"),
        ("official", 0, 0, "invented has no 'official' split; it has: folds"),
        ("density", 0, 0, "invented has no 'density' split"),
        ("sparce", 0, 0, f"did you mean 'sparse'.*{', '.join(datasets.PROTOCOLS)}"),
    ],
)
def test_what_the_graph_does_not_have_is_refused(protocol, split, fold, message):
    with pytest.raises(ValueError, match=message):
        datasets.make_split(invent([900, 900]), protocol, split=split, fold=fold)


@pytest.mark.parametrize("shift", ["popularity", "locality", "density"])
def test_a_shift_trains_inside_and_tests_outside_on_labelled_nodes(shift, real):
    citeseer = real("Citeseer")  # some of its nodes have no label
    split = datasets.make_split(citeseer, shift)
    parts = {"train": split.train, "valid_in": split.val, "test_out": split.test}
    for part, nodes in parts.items():
        raw = citeseer.shifts[shift][part]
        assert np.array_equal(nodes, raw[citeseer.labelled[raw]])
    inside = citeseer.shift_part(shift, "test_in")
    assert not np.isin(inside, np.concatenate([split.train, split.test])).any()
