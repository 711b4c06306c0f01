"""Tables of two-class problems, in which one class is acted on: P(class 1) and its calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simi_mailbox_bench.backbones.cached_runs import RunKey, Size, runs
from simi_mailbox_bench.tables.base import Cell, Selection
from simi_mailbox_bench.tables.calibration import CalibrationTable, Column
from simi_mailbox_bench.tables.paper import INPUTS

TWITCH = tuple(f"Twitch{language}" for language in ["DE", "ENGB", "ES", "FR", "PTBR", "RU", "ZHTW"])
PROTOCOLS = {
    **dict.fromkeys(("FDCompCN", "FDCompCN-weighted", "German"), "public"),
    **dict.fromkeys(("Tolokers", "Tolokers-weighted", "Minesweeper"), "official"),
    **dict.fromkeys(("RedditBans", *TWITCH), "random-50-25-25"),
}
RUNS = 10


@dataclass(frozen=True)
class BinaryTable(CalibrationTable):
    """A table over graphs that each have a protocol of their own."""

    def runs_of(self, dataset: str, backbone: str, limit: int | None) -> list[RunKey]:
        protocol = PROTOCOLS[dataset]
        size = Size(1, 1, RUNS) if protocol == "public" else Size(RUNS, 1, 1)
        return runs(dataset, backbone, protocol, limit, size)

    def cells(self, selection: Selection) -> list[Cell]:
        return [replace(cell, keys=_by_seed(cell.keys)) for cell in super().cells(selection)]


def _by_seed(keys: Mapping[tuple[int, int, int], str]) -> dict[tuple[int, int, int], str]:
    """Where all runs share the published split, the seed is the unit of comparisons."""
    if len({split for split, _, _ in keys}) > 1:
        return dict(keys)
    return {(init, fold, split): key for (split, fold, init), key in keys.items()}


BINARY = BinaryTable(
    name="binary",
    shows="two classes of which one is acted on: negative log-likelihood",
    datasets=tuple(PROTOCOLS),
    backbones=("gcn", "sage"),
    columns=tuple(
        Column.of(name)
        for name in (
            *("uncalibrated", "temperature", "platt", "beta", "isotonic", "histogram", "vector"),
            *("sms", "gats", "cagcn", "simi-mailbox", "simi-mailbox-free"),
        )
    ),
    quantity="one-class",
    metric="nll",
    unit="nats",
    digits=4,
    baseline="platt",
    judged=("simi-mailbox", "simi-mailbox-free"),
    caption=(
        INPUTS,
        "Behind the name -weighted, and for RedditBans, the network was trained with class "
        "weights: 3 on class 1 of Tolokers, elsewhere the same sum of weights for both classes.",
        "FDCompCN and German have one published split, and their runs differ in the seed: there "
        "the seed is the unit of comparisons, elsewhere the split.",
    ),
)

TABLES = (
    BINARY,
    BINARY.shown_as("binary-ece", "class_ece", "ECE of P(class 1)"),
    BINARY.shown_as("binary-brier", "brier", "Brier score", "raw", BINARY.digits),
    replace(
        BINARY,
        name="binary-auprc",
        shows="average precision of P(class 1), on the rows of binary (higher is better)",
        metric="average_precision",
        unit="percent",
        digits=2,
        judged=(),
    ),
)
