"""`make_split`: the train / validation / test splits of the experiments, by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Bools, Ints
from simi_mailbox.plain_text import unknown
from simi_mailbox_bench.datasets.dataset import SHIFTS, NodeDataset, Split

TEST, NO_PART = 3, -1
_NUM_FOLDS, _RATES = 3, (20, 40, 60)
_SPARSE_PER_CLASS, _SPARSE_VAL, _SPARSE_TEST = 20, 500, 1000


@dataclass(frozen=True)
class Protocol:
    """How one named protocol makes its splits, and how many a dataset has (0: it has none)."""

    make: Callable[[NodeDataset, int, int], Split]
    count: Callable[[NodeDataset], int]
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
    for what, value, most in (("split", split, count), ("fold", fold, chosen.folds)):
        if not 0 <= value < most:
            raise ValueError(
                f"{what}={value} is out of range: {protocol!r} has {what} 0..{most - 1}"
            )
    return chosen.make(dataset, split, fold).check(dataset.num_nodes)


def generator(*key: object) -> np.random.Generator:
    """Random generator that depends on the key alone, on every machine and in every process."""
    digest = hashlib.sha256("/".join(str(part) for part in key).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def stratified_folds(
    y: Ints, rng: np.random.Generator, *, labelled: Bools | None = None
) -> npt.NDArray[np.int8]:
    """Fold of every node: 0, 1 or 2, 3 for test, -1 for nodes in no part.

    Of every class ``int(0.15 * n_c)`` nodes are drawn, and dealt round-robin into the folds, class
    after class; ``int(0.85 * left)`` of what is left are the test part (72.25 % of all nodes).
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


def _at_random(train: int, val: int) -> Protocol:
    """So many percent of the labelled nodes for training and validation, the rest for testing."""

    def make(dataset: NodeDataset, split: int, fold: int) -> Split:
        known = np.flatnonzero(dataset.labelled)
        name = f"random-{train}-{val}-{100 - train - val}"
        order = generator(dataset.name, name, split).permutation(known)
        first, second = int(train / 100 * order.size), int(val / 100 * order.size)
        return Split(order[:first], order[first : first + second], order[first + second :])

    return Protocol(make, lambda _: 10)


def _shift(name: str) -> Protocol:
    """Trained and calibrated on nodes of the inside, tested on the outside (``test_out``)."""
    parts = ("train", "valid_in", "test_out")
    return Protocol(
        lambda dataset, *_: Split(*(dataset.shift_part(name, part) for part in parts)),
        lambda dataset: int(name in dataset.shifts),
    )


PROTOCOLS: dict[str, Protocol] = {
    "folds": Protocol(_folds, lambda d: 5 if d.folds is None else len(d.folds), _NUM_FOLDS),
    "public": Protocol(lambda d, *_: cast(Split, d.public), lambda d: int(d.public is not None)),
    "official": Protocol(lambda d, split, _: d.official[split], lambda d: len(d.official)),
    "sparse": Protocol(
        lambda d, k, _: _per_class(d, generator(d.name, "sparse", k), _SPARSE_PER_CLASS),
        lambda _: 15,
    ),
    **{
        f"rate{rate}": Protocol(_rate(rate), lambda d: 10 if d.public is None else 1)
        for rate in _RATES
    },
    "gpn": Protocol(_gpn, lambda _: 10),
    "random-10-10-80": _at_random(10, 10),
    "random-50-25-25": _at_random(50, 25),
    **{name: _shift(name) for name in SHIFTS},
}
"""Ways to draw splits, by name: `make_split` takes one; docs/data.md describes them."""
