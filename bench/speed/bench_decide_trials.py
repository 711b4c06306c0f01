"""Two trials on cached runs behind docs/decide.md: labels used twice, and whom to label next.

    python bench/speed/bench_decide_trials.py [--twice] [--next] [--runs N]

Needs trained backbones in the logit bank (any `simi-mailbox bench` table makes them); runs that
are not there are left out.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from simi_mailbox import CalibrationWarning, decide
from simi_mailbox.crossfit import cross_fitted_folds
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey, runs
from simi_mailbox_bench.calibration import inputs_of, probabilities
from simi_mailbox_bench.methods import Method

TWICE = (("Cora", "gcn"), ("Cora", "gat"), ("Citeseer", "gcn"), ("Photo", "gcn"), ("Pubmed", "gcn"))
GRAPHS = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")
METHODS = ("temperature", "simi-mailbox", "vector")
SCORES = ("lac", "aps", "daps")
COVERAGE = 0.9
MAX_ERROR = 0.05
DRAWS = 10
FRESH_DRAWS = 6
RANKINGS = (
    "random",
    "nearest to the threshold",
    "least confident",
    "most confident three quarters only",
)


def cached_runs(dataset: str, backbone: str, most: int) -> Iterator[tuple[RunKey, Any]]:
    """Runs of a setting that are in the bank."""
    bank = RunCache()
    for key in [key for key in runs(dataset, backbone, "folds", 15) if key in bank][:most]:
        yield key, bank.find(key)


def used_twice(most: int) -> None:
    """Calibrator and threshold on the same labels, as they are and with own labels left out.

    The labels had no part in the selection of the checkpoint.

    *Own probabilities*: those of a calibration node come from a fit without its label. *All*: those
    of every node come from it, so that neighbours do not know the label either.
    """
    print("| method | score | as they are | own probabilities | all | all − as they are |")
    print("|---|---|--:|--:|--:|--:|")
    for name in METHODS:
        settings: dict[str, list[Any]] = {score: [] for score in SCORES}
        for dataset, backbone in TWICE:
            found: dict[str, list[Any]] = {score: [] for score in SCORES}
            for key, run in cached_runs(dataset, backbone, most):
                for draw in range(FRESH_DRAWS):
                    for score, values in coverages(key, run, name, draw).items():
                        found[score].append(values)
            for score, rows in found.items():
                if rows:
                    settings[score].append(np.array(rows))
        for score, each in settings.items():
            ways = [pooled(each, column) for column in range(3)]
            shown = " | ".join(f"{100 * mean:.2f} ± {100 * error:.2f}" for mean, error in ways)
            mean, error = pooled([x[:, 2:] - x[:, :1] for x in each], 0)
            change = f"{100 * mean:+.2f} ± {100 * error:.2f}"
            print(f"| {name} | {score} | {shown} | {change} |", flush=True)


def pooled(settings: list[Any], column: int) -> tuple[float, float]:
    """Mean over settings of a column, and its standard error over draws."""
    errors = [np.std(x[:, column], ddof=1) / np.sqrt(len(x)) for x in settings]
    mean = np.mean([x[:, column].mean() for x in settings])
    return float(mean), float(np.linalg.norm(errors) / len(errors))


def coverages(key: RunKey, run: Any, name: str, draw: int) -> dict[str, tuple[float, ...]]:
    """Coverage of sets by each score, in the three ways."""
    y, split, graph = run.dataset.y, run.split, run.dataset.graph
    count = len(split.val)
    drawn = np.random.default_rng([1, key.split, key.fold]).permutation(split.test)
    nodes = np.sort(drawn[draw * count : (draw + 1) * count])
    rest = np.setdiff1d(split.test, nodes)
    calibrator = Method.of(name).build(key)
    given = inputs_of(name, calibrator, run)
    parts = list(
        cross_fitted_folds(
            calibrator, run.logits, y, mask=nodes, used_for_selection=False, folds=10, **given
        )
    )
    calibrator.fit(run.logits, y, mask=nodes, used_for_selection=False, **given)
    probs = np.asarray(calibrator.predict_proba(run.logits, **given), dtype=np.float64)
    seen = probs.copy()
    for part, made in parts:
        seen[part] = made[part]

    def covered(score: str, shown: Any, parts: Any = None) -> float:
        rule = decide.PredictionSets(coverage=COVERAGE, score=score)
        rule.fit(shown, y, mask=nodes, graph=graph, used_for_selection=False, cross_fitted=parts)
        sets = rule.predict_sets(probs, graph=graph)
        return float(sets[rest, y[rest]].mean())

    return {
        score: (covered(score, probs), covered(score, seen), covered(score, probs, parts))
        for score in SCORES
    }


def whom_next(most: int) -> None:
    """Half of the labels at random, the others by a ranking: share accepted, guarantees broken."""
    total: dict[str, list[list[float]]] = {name: [] for name in RANKINGS}
    for dataset in GRAPHS:
        for backbone in ("gcn", "gat"):
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in RANKINGS}
            for key, run in cached_runs(dataset, backbone, most):
                test = run.split.test
                probs = probabilities(key, Method.of("simi-mailbox"), run)[test]
                for draw in range(DRAWS):
                    trial(found, probs, run.dataset.y[test], len(run.split.val), draw)
            for name, values in found.items():
                if values:
                    total[name].append(np.mean(values, axis=0).tolist())
    print(f"{len(total['random'])} settings")
    print("| other half of the labels | accepted | guarantee broken |")
    print("|---|--:|--:|")
    for name, values in total.items():
        share, broken = np.mean(values, axis=0)
        print(f"| {name} | {share:.1%} | {broken:.1%} |")


def trial(
    found: dict[str, list[tuple[float, float]]], probs: Any, y: Any, count: int, draw: int
) -> None:
    """One draw of labels for every ranking."""
    confidence, wrong = probs.max(axis=1), probs.argmax(axis=1) != y
    rng = np.random.default_rng(draw)
    order = rng.permutation(len(y))
    first, rest = order[: count // 2], order[count // 2 :]
    gate = decide.Accept(max_error=MAX_ERROR).fit(probs, y, mask=first, used_for_selection=False)
    near = gate.threshold_ if np.isfinite(gate.threshold_) else np.median(confidence)
    more = count - count // 2
    upper = np.flatnonzero(confidence >= np.quantile(confidence, 0.25))
    chosen = {
        "random": order[:count],
        "nearest to the threshold": np.r_[
            first, rest[np.argsort(abs(confidence[rest] - near))[:more]]
        ],
        "least confident": np.r_[first, rest[np.argsort(confidence[rest])[:more]]],
        "most confident three quarters only": rng.permutation(upper)[:count],
    }
    for name, nodes in chosen.items():
        rule = decide.Accept(max_error=MAX_ERROR).fit(
            probs, y, mask=nodes, used_for_selection=False
        )
        others = np.setdiff1d(np.arange(len(y)), nodes)
        taken = rule.accepts(probs)[others]
        error = wrong[others][taken].mean() if taken.any() else 0.0
        found[name].append((float(taken.mean()), float(error > MAX_ERROR)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--twice", action="store_true", help="labels used twice")
    parser.add_argument("--next", action="store_true", help="whom to label next")
    parser.add_argument("--runs", type=int, default=15, help="at most so many runs of a setting")
    given = parser.parse_args()
    warnings.simplefilter("ignore", CalibrationWarning)
    if given.twice or not given.next:
        used_twice(given.runs)
    if given.next or not given.twice:
        whom_next(given.runs)


if __name__ == "__main__":
    main()
