"""Past runs out of the logit bank: what the shipped prior is learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simi_mailbox.prior.corpus import Equations, Setting
from simi_mailbox.prior.past import PastRun, equations_of

if TYPE_CHECKING:
    from simi_mailbox.models.bank import BankedRun, LogitBank, RunKey

FEWEST_RUNS = 3
PROTOCOLS = ("folds", "official")


def banked_settings(
    bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str], most_runs: int | None = None
) -> Iterator[Setting]:
    """Settings of all graphs and backbones of which the bank holds runs; none is trained.

    A graph is taken under the protocol it is published with: the official splits where it has
    those only, the folds elsewhere.
    """
    for graph in graphs:
        for backbone in backbones:
            for protocol in PROTOCOLS:
                keys = banked_keys(bank, graph, backbone, protocol)[:most_runs]
                if len(keys) >= FEWEST_RUNS:
                    yield _setting(bank, keys)
                    break


def banked_keys(bank: LogitBank, graph: str, backbone: str, protocol: str) -> list[RunKey]:
    """Keys of the banked runs of a setting with the graph's published training settings."""
    from simi_mailbox.models.bank import RunKey

    places = [(i, f, s) for i in range(5) for f in range(3) for s in range(10)]
    keys = [RunKey(graph, backbone, protocol, s, f, i) for i, f, s in places]
    return [key for key in keys if key in bank]


def past_run(banked: BankedRun) -> PastRun:
    """A banked run as a past run."""
    import numpy as np

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
    )


def _setting(bank: LogitBank, keys: Sequence[RunKey]) -> Setting:
    runs = [run for key in keys if (run := bank.find(key)) is not None]
    parts = [equations_of(past_run(run)) for run in runs]
    first = past_run(runs[0])
    facts = {
        "protocol": keys[0].protocol,
        "labels": len(first.calibration),
        "nodes": len(first.y),
        "training": Path(bank.path(keys[0])).stem.rsplit("-", 1)[1],
    }
    return Setting(
        first.graph_name, first.family, first.backbone, len(parts), Equations.mean(parts), facts
    )
