"""`make_split`: the train / validation / test splits of the experiments, by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Bools, Ints
from simi_mailbox.plain_text import unknown
from simi_mailbox_bench.datasets.dataset import SHIFTS, NodeDataset, Split

TEST, NO_PART = 3, -1
_FOLD_SPLITS, _NUM_FOLDS, _RANDOM_SPLITS, _SPARSE_SPLITS = 5, 3, 10, 15
_RATES = (20, 40, 60)
_SPARSE_PER_CLASS, _SPARSE_VAL, _SPARSE_TEST = 20, 500, 1000


@dataclass(frozen=True)
class Protocol:
    """How one named protocol makes its splits."""

    make: Callable[[NodeDataset, int, int], Split]
    count: Callable[[NodeDataset], int]
    summary: str
    folds: int = 1


def make_split(dataset: NodeDataset, protocol: str, split: int = 0, fold: int = 0) -> Split:
    """Make one split of a dataset."""
    chosen = PROTOCOLS.get(protocol)
    if chosen is None:
        raise ValueError(unknown("protocol", protocol, PROTOCOLS))
    count = chosen.count(dataset)
    if count == 0:
        usable = ", ".join(name for name, p in PROTOCOLS.items() if p.count(dataset))
        raise ValueError(f"{dataset.name} has no {protocol!r} split; it has: {usable}")
    _check_number("split", split, count, protocol)
    _check_number("fold", fold, chosen.folds, protocol)
    return chosen.make(dataset, split, fold).check(dataset.num_nodes)


def num_splits(dataset: NodeDataset, protocol: str) -> int:
    """Number of splits that a protocol has on this dataset (0 if it does not apply)."""
    return PROTOCOLS[protocol].count(dataset)


def _check_number(what: str, value: int, count: int, protocol: str) -> None:
    if not 0 <= value < count:
        raise ValueError(f"{what}={value} is out of range: {protocol!r} has {what} 0..{count - 1}")


def generator(*key: object) -> np.random.Generator:
    """Random generator that depends on the key alone, on every machine and in every process."""
    digest = hashlib.sha256("/".join(str(part) for part in key).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def stratified_folds(
    y: Ints, rng: np.random.Generator, *, labelled: Bools | None = None
) -> npt.NDArray[np.int8]:
    """Fold of every node: 0, 1 or 2, 3 for test, -1 for nodes in no part.

    Of every class, ``int(0.15 * n_c)`` nodes are drawn; the drawn list, class after class, is
    dealt round-robin into the folds. Of what is left of each class, ``int(0.85 * left)`` nodes
    are the test part (72.25 % of all nodes, not 85 %).
    """
    drawn: list[Ints] = []
    folds = np.full(y.size, NO_PART, dtype=np.int8)
    for members in class_members(y, labelled):
        order = rng.permutation(members)
        taken = int(0.15 * order.size)
        drawn.append(order[:taken])
        left = order[taken:]
        folds[left[: int(0.85 * left.size)]] = TEST
    dealt = np.concatenate(drawn)
    folds[dealt] = np.arange(dealt.size) % _NUM_FOLDS
    return folds


def split_from_folds(folds: npt.NDArray[np.int8], fold: int) -> Split:
    """Split whose validation part is ``fold`` and whose training part is the other folds."""
    return Split(
        train=np.flatnonzero((folds >= 0) & (folds != TEST) & (folds != fold)),
        val=np.flatnonzero(folds == fold),
        test=np.flatnonzero(folds == TEST),
    )


def class_members(y: Ints, labelled: Bools | None = None) -> list[Ints]:
    """Nodes of every class that occurs, without those whose label is unknown."""
    known = np.arange(y.size) if labelled is None else np.flatnonzero(labelled)
    return [known[y[known] == c] for c in np.unique(y[known])]


def _folds(dataset: NodeDataset, split: int, fold: int) -> Split:
    if dataset.folds is not None:
        return split_from_folds(dataset.folds[split], fold)
    rng = generator(dataset.name, "folds", split)
    return split_from_folds(stratified_folds(dataset.y, rng, labelled=dataset.labelled), fold)


def _count_folds(dataset: NodeDataset) -> int:
    return _FOLD_SPLITS if dataset.folds is None else len(dataset.folds)


def _public(dataset: NodeDataset, split: int, fold: int) -> Split:
    assert dataset.public is not None
    return dataset.public


def _official(dataset: NodeDataset, split: int, fold: int) -> Split:
    return dataset.official[split]


def _sparse(dataset: NodeDataset, split: int, fold: int) -> Split:
    return _per_class(dataset, generator(dataset.name, "sparse", split), _SPARSE_PER_CLASS)


def _per_class(
    dataset: NodeDataset, rng: np.random.Generator, per_class: int, keep: int | None = None
) -> Split:
    """Draw ``per_class`` training nodes of every class, of which the first ``keep`` are kept."""
    orders = [rng.permutation(members) for members in class_members(dataset.y, dataset.labelled)]
    # A class with fewer than 2 × per_class nodes gives half of them, so that every class is
    # also left to be validated and tested on.
    takes = [min(per_class, order.size // 2) for order in orders]
    train = np.concatenate([order[:take][:keep] for order, take in zip(orders, takes, strict=True)])
    rest = np.concatenate([order[take:] for order, take in zip(orders, takes, strict=True)])
    needed = _SPARSE_VAL + _SPARSE_TEST
    if rest.size < needed:
        raise ValueError(
            f"{dataset.name} is too small for {per_class} labels per class: {rest.size} nodes "
            f"are left for {_SPARSE_VAL} validation and {_SPARSE_TEST} test nodes; "
            "use protocol 'official' or 'folds'"
        )
    rest = rng.permutation(np.sort(rest))
    return Split(train, rest[:_SPARSE_VAL], rest[_SPARSE_VAL:needed])


def _rate(per_class: int) -> Callable[[NodeDataset, int, int], Split]:
    def make(dataset: NodeDataset, split: int, fold: int) -> Split:
        if dataset.public is None:
            # Ours, for graphs without a public split: the three rates share validation and test
            # nodes, and each rate's training nodes contain the smaller rate's.
            rng = generator(dataset.name, "rate", split)
            return _per_class(dataset, rng, max(_RATES), keep=per_class)
        public = dataset.public
        extra = (per_class - _SPARSE_PER_CLASS) * dataset.num_classes
        first = int(public.val[-1]) + 1
        added: Ints = np.arange(first, first + extra)
        # CaGCN adds the nodes that follow the last validation node, whatever their class.
        return Split(np.concatenate([public.train, added]), public.val, public.test)

    return make


def _count_rates(dataset: NodeDataset) -> int:
    return _RANDOM_SPLITS if dataset.public is None else 1


def _gpn(dataset: NodeDataset, split: int, fold: int) -> Split:
    rng = generator(dataset.name, "gpn", split)
    parts: tuple[list[Ints], ...] = ([], [], [])
    for members in class_members(dataset.y, dataset.labelled):
        left = rng.permutation(members)
        for part, share in zip(parts, (0.05, 0.15, 0.80), strict=True):
            taken = max(1, int(share * left.size))
            part.append(left[:taken])
            left = left[taken:]
    return Split(*(np.concatenate(part) for part in parts))


def _at_random(train: int, val: int) -> Callable[[NodeDataset, int, int], Split]:
    """So many percent of the labelled nodes for training and validation, the rest for testing."""

    def make(dataset: NodeDataset, split: int, fold: int) -> Split:
        known = np.flatnonzero(dataset.labelled)
        name = f"random-{train}-{val}-{100 - train - val}"
        order = generator(dataset.name, name, split).permutation(known)
        first, second = int(train / 100 * order.size), int(val / 100 * order.size)
        return Split(order[:first], order[first : first + second], order[first + second :])

    return make


def _shift(name: str) -> Protocol:
    """Trained and calibrated on nodes of the inside, tested on the outside (``test_out``)."""
    parts = ("train", "valid_in", "test_out")
    return Protocol(
        lambda dataset, split, fold: Split(*(dataset.shift_part(name, part) for part in parts)),
        lambda dataset: int(name in dataset.shifts),
        f"structural shift by {name}: 30 / 10 / 40 %",
    )


def _fixed(number: int) -> Callable[[NodeDataset], int]:
    return lambda dataset: number


PROTOCOLS: dict[str, Protocol] = {
    "folds": Protocol(
        _folds, _count_folds, "five stratified 3-fold splits, 10/5/72.25 %", _NUM_FOLDS
    ),
    "public": Protocol(_public, lambda d: int(d.public is not None), "Planetoid's public split"),
    "official": Protocol(_official, lambda d: len(d.official), "splits published with the data"),
    "sparse": Protocol(_sparse, _fixed(_SPARSE_SPLITS), "20 per class / 500 / 1000"),
    **{
        f"rate{rate}": Protocol(_rate(rate), _count_rates, f"{rate} labels per class")
        for rate in _RATES
    },
    "gpn": Protocol(_gpn, _fixed(_RANDOM_SPLITS), "5 / 14.25 / 64.6 % of every class"),
    **{
        f"random-{a}-{b}-{100 - a - b}": Protocol(
            _at_random(a, b), _fixed(_RANDOM_SPLITS), f"{a}/{b}/{100 - a - b} % at random"
        )
        for a, b in ((10, 10), (50, 25))
    },
    **{name: _shift(name) for name in SHIFTS},
}
"""Ways to draw splits, by name: `make_split` takes one."""
