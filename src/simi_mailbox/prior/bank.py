"""Past runs out of the logit bank: what the shipped prior is learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simi_mailbox.prior.corpus import Setting
from simi_mailbox.prior.past import PastRun, gather, look_at

if TYPE_CHECKING:
    from simi_mailbox.models.bank import BankedRun, LogitBank, RunKey
    from simi_mailbox.prior.picture import Seen

FEWEST_RUNS = 3
FEWEST_NODES = 1000
"""Smaller graphs leave so few nodes to look at that they would add noise like a large one's."""
PROTOCOLS = ("folds", "official")


def banked_settings(
    bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str]
) -> Iterator[Setting]:
    """Settings of all graphs and backbones of which the bank holds runs; none is trained."""
    for keys in _places(bank, graphs, backbones):
        yield _setting(bank, keys)


def banked_pictures(
    bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str]
) -> Iterator[Seen]:
    """What `simi_mailbox.prior.picture` draws of the same settings."""
    from simi_mailbox.prior.picture import Seen

    for keys in _places(bank, graphs, backbones):
        runs = [past_run(run) for key in keys if (run := bank.find(key)) is not None]
        yield Seen.of(f"{keys[0].dataset} {keys[0].backbone}", [look_at(run) for run in runs])


def _places(
    bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str]
) -> Iterator[list[RunKey]]:
    """A graph is taken under the protocol it is published with: the official splits where it has
    those only, the folds elsewhere.
    """
    from simi_mailbox.data.catalogue import find

    for graph in (name for name in graphs if find(name).nodes >= FEWEST_NODES):
        for backbone in backbones:
            for protocol in PROTOCOLS:
                keys = banked_keys(bank, graph, backbone, protocol)
                if len(keys) >= FEWEST_RUNS:
                    yield keys
                    break


def banked_keys(bank: LogitBank, graph: str, backbone: str, protocol: str) -> list[RunKey]:
    """Keys of the banked runs of a setting: published training settings, first initialisation."""
    from simi_mailbox.models.bank import RunKey

    places = [(s, f) for f in range(3) for s in range(10)]
    keys = [RunKey(graph, backbone, protocol, s, f) for s, f in places]
    return [key for key in keys if key in bank]


def past_run(banked: BankedRun) -> PastRun:
    """A banked run as a past run."""
    from simi_mailbox.data.catalogue import find

    dataset, split = banked.dataset, banked.split
    y = np.where(dataset.labelled, dataset.y, -1)
    y[split.val] = dataset.y[split.val]  # Citeseer's folds hold nodes of no known class
    return PastRun(
        graph_name=dataset.name,
        backbone=banked.key.backbone,
        family=find(dataset.name).family,
        logits=banked.logits,
        y=y,
        graph=dataset.graph,
        calibration=split.val,
        train=split.train,
        split=banked.key.split,
    )


def _setting(bank: LogitBank, keys: Sequence[RunKey]) -> Setting:
    runs = [past_run(run) for key in keys if (run := bank.find(key)) is not None]
    facts = {
        "protocol": keys[0].protocol,
        "nodes": len(runs[0].y),
        "training": bank.path(keys[0]).stem.rsplit("-", 1)[1],
    }
    (setting,) = gather(runs, facts)
    return setting
