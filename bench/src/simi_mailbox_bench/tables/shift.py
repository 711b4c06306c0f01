"""Tables under shift: calibrators, the monitor, updates with late labels, and other graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

import numpy as np

from simi_mailbox_bench.backbones.cached_runs import RunKey, runs
from simi_mailbox_bench.datasets.dataset import SHIFTS
from simi_mailbox_bench.shift import (
    DRAWS,
    LABELS,
    MOST_LABELS,
    MonitorUnit,
    ShiftUnit,
    TwitchUnit,
    UpdateUnit,
)
from simi_mailbox_bench.store import ResultStore, Row
from simi_mailbox_bench.tables.base import SEEDS_ARE_UNITS, Cell, Selection, Table, selected
from simi_mailbox_bench.tables.calibration import CalibrationTable, Column

GRAPHS = ("CoraML", "Citeseer", "Photo", "Pubmed", "Computers", "CS", "Physics")
FIXED_ON = ("CoraML", "Citeseer", "Photo")
"""Graphs on which the constants of update and monitor were fixed; the others judge them."""
LANGUAGES = ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "ZHTW")
SETTINGS = tuple(f"{graph} {shift}" for graph, shift in product(GRAPHS, SHIFTS))
PAIRS = tuple(f"Twitch{a} Twitch{b}" for a, b in permutations(LANGUAGES, 2))
UNITS = {"nll": ("nats", 4), "brier": ("raw", 4)}
"""Unit and digits of a metric, if it is not a percentage."""
OFFICIAL = (
    "Structural shifts of Bazhenov et al. (NeurIPS 2023), official splits: trained and calibrated "
    "inside (valid_in, the nodes of early stopping), judged on test_out; metrics that end in _in "
    "are of test_in."
)


def runs_of(setting: str, backbone: str, limit: int | None) -> list[RunKey]:
    """Runs of "graph shift", or of the first graph of a pair."""
    graph, second = setting.split()
    return runs(graph, backbone, second if second in SHIFTS else "random-50-25-25", limit)


def shown_in(table: Any, metric: str) -> Any:
    """The same table of another metric, in its unit."""
    if metric not in table.metrics:
        raise ValueError(f"{table.name} shows {', '.join(table.metrics)}")
    unit, digits = UNITS.get(metric.split("_")[0], ("percent", 2))
    name = f"{table.name.split('/')[0]}/{metric}"
    return replace(table, name=name, metric=metric, unit=unit, digits=digits)


@dataclass(frozen=True, kw_only=True)
class ShiftTable(CalibrationTable):
    """Calibrators on the nodes outside (and inside) of structural shifts."""

    metrics: tuple[str, ...] = tuple(
        f"{name}{where}" for name in ("ece", "nll", "brier", "accuracy") for where in ("", "_in")
    )

    def needs(self) -> tuple[str, ...]:
        return GRAPHS

    def runs_of(self, dataset: str, backbone: str, limit: int | None) -> list[RunKey]:
        return runs_of(dataset, backbone, limit)

    with_metric = shown_in


@dataclass(frozen=True, kw_only=True)
class MeasuredTable(Table):
    """Settings × columns, each an item of a `ShiftUnit` and a number of its row."""

    kind: type[ShiftUnit]
    columns: dict[str, tuple[Any, str]]
    """Label -> item ("{to}": the second word of the setting), metric ("{}": that of the table)."""
    datasets: tuple[str, ...] = SETTINGS
    tells_runs: bool = True

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(setting.split()[0] for setting in self.datasets))

    with_metric = shown_in

    def cells(self, selection: Selection) -> list[Cell]:
        made = []
        for place in self.places(selection):
            found = runs_of(*place, selection.runs)
            units = {run.place: self.kind(run, ()) for run in found}
            for label in selected(selection.methods, self.columns):
                item, metric = self.columns[label]
                item = place[0].split()[1] if item == "{to}" else item
                made.append(Cell(*place, label, item, units, metric=metric.format(self.metric)))
        return made

    def remarks(self, store: ResultStore, selection: Selection) -> list[str]:
        look = {MonitorUnit: monitor_remarks, UpdateUnit: update_remarks, TwitchUnit: pair_remarks}
        rows = {
            key: (cell.dataset, cell.item, store[key]["metrics"])
            for cell in self.cells(replace(selection, methods=None))
            for key in cell.keys.values()
            if key in store
        }
        return look[self.kind](list(rows.values())) if rows else []


Rows = list[tuple[str, Any, Row]]


def _halves(rows: Rows) -> Iterable[tuple[str, Rows]]:
    """Rows of the graphs that constants were fixed on, and of those that judge them."""
    yield f"fixed on {', '.join(FIXED_ON)}", [r for r in rows if r[0].split()[0] in FIXED_ON]
    yield "judged on the others", [r for r in rows if r[0].split()[0] not in FIXED_ON]


def _share(rows: Rows, name: str) -> str:
    values = [float(row[name]) for *_, row in rows if row.get(name) is not None]
    return f"{100 * np.mean(values):.1f} %" if values else "–"


def monitor_remarks(rows: Rows) -> list[str]:
    """Errors of the estimates, coverage, false alarms and verdicts, by half."""
    told = []
    for half, part in _halves(rows):
        inside = [row for row in part if row[1] == "test_in"]
        outside = [row for row in part if row[1] == "test_out"]
        if not inside or not outside:
            continue
        errors = [100 * float(row["error_features"]) for *_, row in outside]
        bad = [row for row in part if row[2]["ece"] > 0.1]
        good = [row for row in part if row[2]["ece"] < 0.05]
        told.append(
            f"Constants {half} ({len(outside)} runs): error of A and D on test_out median "
            f"{np.median(errors):.1f}, mean {np.mean(errors):.1f} points; intervals cover "
            f"{_share(outside, 'covered_features')} of test_out, "
            f"{_share(inside, 'covered_features')} of test_in; false alarms on test_in "
            f"{_share(inside, 'drifted')}, on random halves of valid_in and test_in "
            f"{_share(inside, 'false_alarms')}; drift found on {_share(outside, 'drifted')} of "
            f"test_out; distrusted or unknown: {_share(bad, 'distrusted_features')} of {len(bad)} "
            f"cases with ECE above 10 %, {_share(good, 'distrusted_features')} of {len(good)} "
            "with ECE below 5 %."
        )
    return told


def update_remarks(rows: Rows) -> list[str]:
    """Means over settings, by mode and number of labels, by half."""
    told = []
    for half, part in [("all settings", rows), list(_halves(rows))[1]]:
        for item in dict.fromkeys(one for _, one, _ in part):
            these = [row for _, one, row in part if one == item]
            means = {name: np.mean([row[name] for row in these]) for name in these[0]}
            told.append(
                f"{half}, {item[0]}, {item[1]} labels ({len(these)} runs): test_out ECE "
                f"{100 * means['ece_out']:.2f}, NLL {means['nll_out']:.4f}, accuracy "
                f"{100 * means['accuracy_out']:.2f}; test_in ECE {100 * means['ece_in']:.2f}, "
                f"NLL {means['nll_in']:.4f}."
            )
    return told


def pair_remarks(rows: Rows) -> list[str]:
    """What the monitor says of other graphs, with and without labels."""
    bad = [row for row in rows if row[2]["ece"] > 0.1]
    good = [row for row in rows if row[2]["ece"] < 0.05]
    label = f"distrusted_{LABELS}"
    return [
        f"{len(rows)} cases: without labels all are unknown ({_share(rows, 'unknown')}). With "
        f"{LABELS} labels distrusted or unknown: {_share(bad, label)} of {len(bad)} with ECE above "
        f"10 %, {_share(good, label)} of {len(good)} below 5 %; intervals of the accuracy cover "
        f"{_share(rows, f'covered_{LABELS}')}."
    ]


TABLES: tuple[Table, ...] = (
    ShiftTable(
        name="shift",
        shows="calibrators under the 21 structural shifts",
        datasets=SETTINGS,
        columns=tuple(
            Column.of(name)
            for name in (
                *("uncalibrated", "temperature", "gats", "sms"),
                *("simi-mailbox", "simi-mailbox-free"),
            )
        ),
        protocol=SHIFTS[0],
        quantity="shift",
        by_seed=True,
        caption=(OFFICIAL, SEEDS_ARE_UNITS),
    ),
    MeasuredTable(
        name="monitor",
        shows="error of accuracies estimated without labels, under the 21 structural shifts",
        kind=MonitorUnit,
        columns={
            "as on calibration nodes, test_in": ("test_in", "error_as_before"),
            "A, test_in": ("test_in", "error"),
            "A and D, test_in": ("test_in", "error_features"),
            "as on calibration nodes": ("test_out", "error_as_before"),
            "A": ("test_out", "error"),
            "A and D": ("test_out", "error_features"),
        },
        metric="error",
        caption=(
            OFFICIAL,
            "A: mean calibrated confidence; D: accuracy on calibration nodes, corrected by the "
            "agreement with an MLP on the features alone.",
        ),
    ),
    MeasuredTable(
        name="update",
        shows="late labels: test_out after an update with 0, 20, 50, 100 labels of it",
        kind=UpdateUnit,
        columns={
            f"{mode}, {count} labels": ((mode, count), "{}")
            for mode, count in product(("kept", "free"), (0, 20, 50, 100))
        },
        metric="ece_out",
        metrics=tuple(
            f"{name}_{where}"
            for where, name in product(("out", "in"), ("ece", "nll", "brier", "accuracy"))
        ),
        caption=(
            OFFICIAL,
            f"Labels at random, {DRAWS} draws; judged, with any number of labels, on the nodes "
            f"beyond {MOST_LABELS}.",
            "Of the graphs that judge the constants, Computers under locality was looked at while "
            "they were chosen, and so was Physics for the shrinkage under shift.",
        ),
    ),
    MeasuredTable(
        name="twitch",
        shows="a model of one language on another: 42 pairs of graphs",
        datasets=PAIRS,
        kind=TwitchUnit,
        columns={
            "uncalibrated": ("{to}", "{}_uncalibrated"),
            "temperature": ("{to}", "{}_temperature"),
            "simi-mailbox": ("{to}", "{}"),
            "simi-mailbox-free": ("{to}", "{}_free"),
            f"updated with {LABELS} labels, free": ("{to}", "{}_updated"),
        },
        metric="ece",
        metrics=("ece", "nll", "brier", "accuracy"),
        backbones=("gcn",),
        caption=("Trained and calibrated on the first graph, judged on all nodes of the second.",),
    ),
)
