from typing import Any

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


def invent(sizes: list[int], *, shuffle: int = 0, name: str = "invented") -> datasets.NodeDataset:
    y = np.random.default_rng(shuffle).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return datasets.NodeDataset(
        name, Graph.empty(y.size), np.zeros((y.size, 1)), y, num_classes=len(sizes)
    )


def counts(y: Any, nodes: Any, classes: int) -> Any:
    return np.bincount(y[nodes], minlength=classes)


# --- the 3-fold splits -----------------------------------------------------------------------


@given(class_sizes, st.integers(0, 2**32))
def test_folds_have_the_rules_class_counts(sizes: list[int], seed: int) -> None:
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
def test_shipped_folds_follow_the_rule_that_ours_follow(name: str, real: Any) -> None:
    dataset = real(name)
    for split in range(5):
        shipped = dataset.folds[split]
        ours = stratified_folds(dataset.y, np.random.default_rng(split))
        for c in range(dataset.num_classes):
            of_class = dataset.y == c
            drawn = [((f >= 0) & (f < 3) & of_class).sum() for f in (shipped, ours)]
            test = [((f == 3) & of_class).sum() for f in (shipped, ours)]
            assert drawn[0] == drawn[1]
            assert test[0] == test[1]
        sizes = [np.bincount(f + 1, minlength=5).tolist() for f in (shipped, ours)]
        assert sizes[0] == sizes[1]


def test_shipped_folds_are_used_where_they_exist(real: Any) -> None:
    cora = real("Cora")
    split = datasets.make_split(cora, "folds", split=2, fold=1)
    assert np.array_equal(split.val, np.flatnonzero(cora.folds[2] == 1))
    assert np.array_equal(split.train, np.flatnonzero(np.isin(cora.folds[2], (0, 2))))
    assert np.array_equal(split.test, np.flatnonzero(cora.folds[2] == 3))
    assert split.sizes == (268, 134, 1957)


def test_the_three_folds_take_turns() -> None:
    dataset = invent([200, 100, 60])
    splits = [datasets.make_split(dataset, "folds", split=4, fold=f) for f in range(3)]
    together = np.sort(np.concatenate([split.val for split in splits]))
    for split in splits:
        assert np.array_equal(np.sort(np.concatenate([split.train, split.val])), together)
        assert np.array_equal(split.test, splits[0].test)


# --- properties of all random protocols ---------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(RANDOM), st.integers(0, 4), st.integers(0, 2**32))
def test_random_splits_are_reproducible_and_differ(protocol: str, split: int, seed: int) -> None:
    sizes = [900, 700, 400, 130, 25]
    dataset = invent(sizes, shuffle=seed)
    first = datasets.make_split(dataset, protocol, split=split)
    assert first == datasets.make_split(invent(sizes, shuffle=seed), protocol, split=split)
    assert first != datasets.make_split(dataset, protocol, split=(split + 1) % 5)
    assert first != datasets.make_split(
        invent(sizes, shuffle=seed, name="other"), protocol, split=split
    )
    assert sum(first.sizes) <= dataset.num_nodes


def test_a_known_split_never_changes() -> None:
    """Results are stored under a split's number, so the numbers must keep their meaning."""
    dataset = invent([900, 700, 400])
    split = datasets.make_split(dataset, "sparse", split=3)
    assert split.train[:6].tolist() == [21, 22, 67, 101, 172, 196]
    folds = datasets.make_split(dataset, "folds", split=1, fold=2)
    assert folds.val[:6].tolist() == [14, 16, 52, 58, 112, 144]


@pytest.mark.parametrize("protocol", RANDOM)
def test_nodes_without_a_label_are_in_no_part(protocol: str) -> None:
    base = invent([1200, 900, 500])
    unlabelled = np.arange(2600) % 4 == 0
    dataset = datasets.NodeDataset(
        "part", base.graph, base.x, base.y, num_classes=3, unlabelled=unlabelled
    )
    split = datasets.make_split(dataset, protocol)
    for part in (split.train, split.val, split.test):
        assert not unlabelled[part].any()


# --- sparse labels and label rates -----------------------------------------------------------


def test_sparse_takes_twenty_per_class() -> None:
    dataset = invent([900, 700, 400])
    split = datasets.make_split(dataset, "sparse", split=9)
    assert split.sizes == (60, 500, 1000)
    assert counts(dataset.y, split.train, 3).tolist() == [20, 20, 20]


def test_a_class_below_forty_nodes_gives_half_of_them() -> None:
    dataset = invent([1600, 39, 15, 1])
    train = datasets.make_split(dataset, "sparse").train
    assert counts(dataset.y, train, 4).tolist() == [20, 19, 7, 0]


def test_sparse_refuses_a_graph_that_is_too_small() -> None:
    with pytest.raises(ValueError, match=r"too small for 20 labels per class: 260 nodes are left"):
        datasets.make_split(invent([200, 100]), "sparse")


@pytest.mark.parametrize("name", ["Cora", "Citeseer", "Pubmed"])
def test_rates_add_the_nodes_after_the_validation_nodes(name: str, real: Any) -> None:
    dataset = real(name)
    public = datasets.make_split(dataset, "public")
    assert public.sizes == (20 * dataset.num_classes, 500, 1000)
    assert counts(dataset.y, public.train, dataset.num_classes).tolist() == (
        [20] * dataset.num_classes
    )
    assert datasets.make_split(dataset, "rate20") == public
    for rate in (40, 60):
        split = datasets.make_split(dataset, f"rate{rate}")
        added = np.setdiff1d(split.train, public.train)
        start = public.val.max() + 1
        assert np.array_equal(added, np.arange(start, start + (rate - 20) * dataset.num_classes))
        assert np.array_equal(split.val, public.val)
        assert np.array_equal(split.test, public.test)


def test_rates_without_a_public_split_are_nested_and_balanced() -> None:
    dataset = invent([1200, 800, 90])
    splits = {rate: datasets.make_split(dataset, f"rate{rate}", split=2) for rate in (20, 40, 60)}
    assert np.isin(splits[20].train, splits[40].train).all()
    assert np.isin(splits[40].train, splits[60].train).all()
    for rate, split in splits.items():
        assert counts(dataset.y, split.train, 3).tolist() == [rate, rate, min(rate, 45)]
        assert np.array_equal(split.val, splits[20].val)
        assert np.array_equal(split.test, splits[20].test)


# --- the other protocols ---------------------------------------------------------------------


@given(st.lists(st.integers(40, 400), min_size=2, max_size=6))
def test_gpn_takes_shares_of_what_is_left_of_a_class(sizes: list[int]) -> None:
    dataset = invent(sizes)
    split = datasets.make_split(dataset, "gpn")
    for c, size in enumerate(sizes):
        train = int(0.05 * size)
        val = int(0.15 * (size - train))
        test = int(0.80 * (size - train - val))
        got = [(dataset.y[part] == c).sum() for part in (split.train, split.val, split.test)]
        assert got == [train, val, test]


def test_gpn_gives_every_class_a_training_node() -> None:
    dataset = invent([300, 5, 3])
    split = datasets.make_split(dataset, "gpn")
    for part in (split.train, split.val, split.test):
        assert (counts(dataset.y, part, 3) >= 1).all()


def test_random_10_10_80_covers_all_nodes() -> None:
    split = datasets.make_split(invent([700, 305]), "random-10-10-80")
    assert split.sizes == (100, 100, 805)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("Texas", (87, 59, 37)),
        ("Wisconsin", (120, 80, 51)),
        ("Chameleon", (1092, 729, 456)),
        ("Squirrel", (2496, 1664, 1041)),
        ("Actor", (3648, 2432, 1520)),
        ("Minesweeper", (5000, 2500, 2500)),
    ],
)
def test_official_splits_have_their_published_sizes(
    name: str, sizes: tuple[int, int, int], real: Any
) -> None:
    dataset = real(name)
    assert datasets.num_splits(dataset, "official") == 10
    assert {datasets.make_split(dataset, "official", split=s).sizes for s in range(10)} == {sizes}


# --- refusals --------------------------------------------------------------------------------


def test_unknown_protocol_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="did you mean 'sparse'") as caught:
        datasets.make_split(invent([50, 50]), "sparce")
    assert all(name in str(caught.value) for name in datasets.PROTOCOLS)


@pytest.mark.parametrize("protocol", ["public", "official"])
def test_a_protocol_that_the_graph_lacks_is_refused(protocol: str) -> None:
    with pytest.raises(ValueError, match=f"invented has no '{protocol}' split; it has: folds"):
        datasets.make_split(invent([50, 50]), protocol)


@pytest.mark.parametrize(
    ("protocol", "split", "fold", "message"),
    [
        ("folds", 5, 0, r"split=5 is out of range: 'folds' has split 0\.\.4"),
        ("folds", -1, 0, "split=-1 is out of range"),
        ("folds", 0, 3, r"fold=3 is out of range: 'folds' has fold 0\.\.2"),
        ("sparse", 0, 1, r"'sparse' has fold 0\.\.0"),
        ("gpn", 10, 0, "split=10 is out of range"),
    ],
)
def test_numbers_out_of_range_are_refused(
    protocol: str, split: int, fold: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.make_split(invent([900, 900]), protocol, split=split, fold=fold)


# --- structural shifts ------------------------------------------------------------------------


@pytest.mark.parametrize("shift", ["popularity", "locality", "density"])
def test_a_shift_trains_inside_and_tests_outside_on_labelled_nodes(shift: str, real: Any) -> None:
    citeseer = real("Citeseer")  # some of its nodes have no label
    split = datasets.make_split(citeseer, shift)
    for part, nodes in {
        "train": split.train,
        "valid_in": split.val,
        "test_out": split.test,
    }.items():
        raw = citeseer.shifts[shift][part]
        assert np.array_equal(nodes, raw[citeseer.labelled[raw]])
    assert not np.isin(
        citeseer.shift_part(shift, "test_in"), np.concatenate([split.train, split.test])
    ).any()


def test_parts_of_a_shift_that_do_not_hold_every_node_once_are_refused() -> None:
    whole = invent([3, 3])
    parts = {"train": np.array([0, 1]), "test_out": np.array([1, 2, 3, 4, 5])}
    with pytest.raises(ValueError, match="'popularity' do not hold every node once"):
        datasets.NodeDataset(
            "twice", whole.graph, whole.x, whole.y, num_classes=2, shifts={"popularity": parts}
        )


def test_a_graph_without_shifts_names_what_it_has() -> None:
    with pytest.raises(ValueError, match="has no 'density' split"):
        datasets.make_split(invent([30, 30]), "density")
