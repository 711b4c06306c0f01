"""What evidence is worth: test NLL, ECE, Brier and accuracy on cached runs, their family left out.

    python bench/speed/bench_evidence.py ROWS.jsonl            # goes on where it was
    python bench/speed/bench_evidence.py ROWS.jsonl --table    # what is there by now
    python bench/speed/bench_evidence.py --independent         # where there is nothing to be found

Methods are temperature scaling, `SimiMailbox` with predictions preserved ("kept") or not ("free"),
with the hidden layer and as in the README ("plain"), and SimCalib, which sees the hidden layer.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simi_mailbox import CalibrationWarning, Graph, SimiMailbox, TemperatureScaling, metrics
from simi_mailbox.calibrators.simi_mailbox.prior import leave_out
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey
from simi_mailbox_bench.datasets import available
from simi_mailbox_bench.methods import Method

DIGITS = {"ece": (100, 2), "nll": (1, 4), "brier": (1, 4), "acc": (100, 2)}
"""Scale and digits of what is printed."""
METHODS = ("temperature", "kept hidden", "free hidden", "kept plain", "free plain", "simcalib")


def probabilities(method: str, run: Any) -> np.ndarray:
    """Of all nodes, fitted on the validation labels."""
    z, data, split = run.logits.numpy(), run.dataset, run.split
    given: dict[str, Any] = {"graph": data.graph}
    if method == "temperature":
        return TemperatureScaling().fit(z, data.y, mask=split.val).predict_proba(z)
    if method == "simcalib":
        given["features"] = run.hidden
        cal = Method.of("simcalib").build(run.key)
        cal.fit(z, data.y, mask=split.val, early_stopping_mask=split.train, **given)
        return cal.predict_proba(z, **given)
    mode, inputs = method.split()
    if inputs == "hidden":
        given["hidden"] = run.hidden
    cal = SimiMailbox(keep_classes=mode == "kept", prior=leave_out(data.name))
    return cal.fit(z, data.y, mask=split.val, **given).predict_proba(z, **given)


def measure(path: Path, methods: list[str]) -> None:
    """Append a row for every cached run and method that has none."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["run"], row["method"]) for row in rows}
    bank, places = RunCache(), list(product(("folds", "official"), range(3), range(10)))
    for graph, backbone in product(available(), ("gcn", "gat")):
        for protocol, fold, split in places:
            key = RunKey(graph, backbone, protocol, split, fold)
            left = [name for name in methods if (str(key), name) not in done]
            run = bank.find(key) if left and key in bank else None
            if run is None:
                continue
            test, y = run.split.test, run.dataset.y[run.split.test]
            for method in left:
                shown = np.asarray(probabilities(method, run), dtype=np.float64)[test]
                found = {name: getattr(metrics, name)(shown, y) for name in ("nll", "ece", "brier")}
                found["acc"] = float((shown.argmax(1) == y).mean())
                row = {"run": str(key), "graph": graph, "backbone": backbone, "method": method}
                with path.open("a") as file:
                    file.write(json.dumps(row | found) + "\n")


def table(path: Path, shown: list[str]) -> None:
    """Print means by setting over the runs that all methods shown have, and what they changed."""
    runs: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for line in path.read_text().splitlines():
        row = json.loads(line)
        runs[row["graph"], row["backbone"]][row["run"]][row["method"]] = row
    columns = [(name, method) for name in DIGITS for method in shown]
    print("| | runs | " + " | ".join(f"{name} {method}" for name, method in columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    everywhere = []
    for (graph, backbone), found in runs.items():
        both = [run for run in found.values() if set(shown) <= set(run)]
        if both:
            means = {(n, m): np.mean([run[m][n] for run in both]) for n, m in columns}
            everywhere.append(means)
            cells = [f"{DIGITS[n][0] * means[n, m]:.{DIGITS[n][1]}f}" for n, m in columns]
            print(f"| {graph} {backbone.upper()} | {len(both)} | " + " | ".join(cells) + " |")
    for name, method in [at for at in columns if at[1] != shown[0]]:
        change = np.mean([means[name, method] / means[name, shown[0]] - 1 for means in everywhere])
        lower = sum(means[name, method] < means[name, shown[0]] for means in everywhere)
        print(f"{name}, {method}: {100 * change:+.1f} % of {shown[0]}, lower in {lower}")


Problem = tuple[np.ndarray, np.ndarray, Graph]
"""Logits, labels and a graph."""


def alike_problem(classes: int, seed: int, nodes: int = 4000) -> Problem:
    """Labels drawn from the logits alone; edges between nodes of equal predicted class."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(nodes, classes)) * 2.5 * (0.3 + rng.random((nodes, 1)))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    predicted, ends = logits.argmax(axis=1), rng.integers(nodes, size=(2, 3 * nodes))
    order = np.argsort(predicted, kind="stable")
    first = np.searchsorted(predicted[order], predicted[ends[0]])
    count = np.bincount(predicted, minlength=classes)[predicted[ends[0]]]
    like = order[first + (rng.random(len(first)) * count).astype(int)]
    ends[1] = np.where(rng.random(len(like)) < 0.85, like, ends[1])
    return logits, y, Graph.from_edges(ends[:, ends[0] != ends[1]], nodes)


def independent(seeds: int = 20) -> None:
    """Print what evidence costs where labels are independent of each other given the logits.

    The labels chose no checkpoint: ``used_for_selection=False`` tells so. The README's call does
    not, so that it also pays for a selection bias that is not there.
    """
    problems: dict[str, tuple[int, Callable[[int], Problem]]] = {
        "3 classes, 300 labels": (300, _plain)
    }
    for k in (3, 7, 15):
        name = f"{k} classes, 150 labels, edges between equal predictions"
        problems[name] = 150, partial(alike_problem, k)
    for (name, (labels, make)), selected, keep in product(
        problems.items(), (True, False), (True, False)
    ):
        found = []
        for seed in range(seeds):
            logits, y, graph = make(seed)
            mask = np.random.default_rng(seed).permutation(len(y))[:labels]
            rest = np.setdiff1d(np.arange(len(y)), mask)
            cal = SimiMailbox(keep_classes=keep)
            cal.fit(logits, y, graph=graph, mask=mask, used_for_selection=selected)
            plain = TemperatureScaling().fit(logits, y, mask=mask)
            shown = cal.predict_proba(logits, graph=graph), plain.predict_proba(logits)
            mine, theirs = (metrics.nll(probs[rest], y[rest]) for probs in shown)
            found.append(mine - theirs)
        error, mode = np.std(found) / np.sqrt(seeds), "preserved" if keep else "free"
        call = "README's call" if selected else "not used for selection"
        print(
            f"{name}, {mode}, {call}: NLL {np.mean(found):+.4f} ± {error:.4f}, at worst "
            f"{np.max(found):+.4f}, of temperature scaling's",
            flush=True,
        )


def _plain(seed: int) -> Problem:
    p = calibration_problem(2000, 3, temperature=2.0, seed=seed)
    return p.logits, p.y, p.graph


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=Path, nargs="?")
    parser.add_argument("--independent", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--methods", default=",".join(METHODS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", CalibrationWarning)
    if given.independent:
        independent()
        return
    if given.rows is None:
        parser.error("name a file for the rows, or say --independent")
    if not given.table:
        measure(given.rows, given.methods.split(","))
    table(given.rows, given.methods.split(","))


if __name__ == "__main__":
    main()
