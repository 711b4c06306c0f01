"""Does choosing pay? `select` against always taking the default, on cached runs of the main table.

    python bench/speed/bench_select.py [splits]

Two lists of rivals: the one that `select` takes when nothing is said, and all methods that fit in
well under a second. Of each, what `select` takes, and what has the lowest NLL when cross-fitted,
whether or not chance can tell it from the default. The default's prior never saw the graph's
family; labels of test nodes are read by the metrics only. Runs that are not cached are named.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from simi_mailbox import SimiMailbox, calibrators, metrics, prior, select, selection
from simi_mailbox_bench.backbones import RunCache, RunKey, settings_for
from simi_mailbox_bench.datasets import load

GRAPHS = ("Cora", "Citeseer", "Pubmed", "Photo", "Computers", "CS", "Physics")
QUICK = (
    *("simi-mailbox-free", "simi-mailbox-paper", "ratio-binned", "lccal"),
    *("histogram", "vector", "dirichlet"),
)
LISTS = {"as usual": selection.METHODS, "all quick": (*selection.METHODS, *QUICK)}


def rivals(names: tuple[str, ...], left_out: Any) -> dict[str, Any]:
    """Unfitted calibrators; those that have a prior are given one of other families."""
    made = {name: calibrators.get(name)() for name in names}
    for calibrator in made.values():
        if isinstance(calibrator, SimiMailbox) and "prior" in calibrator.get_params():
            calibrator.set_params(prior=left_out)
    return made


def used(calibrator: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What a method uses of what there is."""
    return {
        key: value
        for key, value in given.items()
        if key != "graph" or key in calibrator.required_inputs
    }


def judged(calibrator: Any, run: Any, graph: Any) -> tuple[float, float]:
    """NLL and ECE of the test nodes."""
    inputs = {"graph": graph.graph} if "graph" in calibrator.required_inputs else {}
    probs = np.asarray(calibrator.predict_proba(run.logits, **inputs))[run.split.test]
    y = graph.y[run.split.test]
    return metrics.nll(probs, y), metrics.ece(probs, y)


def main(splits: int) -> None:
    """Print what was chosen, and what choosing changed on the test nodes."""
    warnings.simplefilter("ignore")
    changes: dict[str, list[tuple[str, str, float, float]]] = {}
    bank = RunCache()
    print(
        f"{'setting':14} split  {'rule, rivals':26}  {'chosen':20}  NLL: default -> chosen, ECE, %"
    )
    for name in GRAPHS:
        graph = load(name)
        for backbone in ("gcn", "gat"):
            for split in range(splits):
                setting = f"{name} {backbone}"
                run = bank.find(RunKey(name, backbone, split=split), settings_for(name))
                if run is None:
                    print(f"{setting:14} {split:5}  not cached")
                    continue
                given = {"graph": graph.graph, "mask": run.split.val, "train_mask": run.split.train}
                default = SimiMailbox(prior=prior.leave_out(name)).fit(run.logits, graph.y, **given)
                nll, ece = judged(default, run, graph)
                for which, names in LISTS.items():
                    methods = rivals(names, prior.leave_out(name))
                    choice = select(run.logits, graph.y, methods=methods, **given)
                    lowest = choice.evidence[0].name
                    fitted = methods[lowest].fit(
                        run.logits, graph.y, **used(methods[lowest], given)
                    )
                    for rule, chosen, cal in (
                        ("select", choice.name, choice.calibrator),
                        ("lowest NLL", lowest, fitted),
                    ):
                        new_nll, new_ece = judged(cal, run, graph)
                        row = setting, chosen, new_nll - nll, new_ece - ece
                        changes.setdefault(f"{rule}, {which}", []).append(row)
                        told = f"{nll:.4f} -> {new_nll:.4f}  {100 * ece:.2f} -> {100 * new_ece:.2f}"
                        rules = f"{rule}, {which}"
                        print(
                            f"{setting:14} {split:5}  {rules:26}  {chosen:20}  {told}", flush=True
                        )
    for which, rows in changes.items():
        summary(which, rows)


def summary(which: str, rows: list[tuple[str, str, float, float]]) -> None:
    """Means over settings, each the mean of its runs, with standard errors over settings."""
    if not rows:
        return
    chosen = [row[1] for row in rows]
    counts = {name: chosen.count(name) for name in sorted(set(chosen))}
    settings = sorted({row[0] for row in rows})
    means = np.array(
        [np.mean([row[2:] for row in rows if row[0] == name], axis=0) for name in settings]
    )
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else means[0] * np.nan
    print(f"\n{which}: {len(rows)} runs of {len(settings)} settings, chosen: {counts}")
    for k, (metric, scale) in enumerate((("NLL", 1), ("ECE in points", 100))):
        mean, spread = scale * means[:, k].mean(), scale * error[k]
        worst, best = scale * means[:, k].max(), scale * means[:, k].min()
        print(
            f"  change of {metric}: {mean:+.4f} ± {spread:.4f} over settings; "
            f"lower in {(means[:, k] < 0).sum()}, higher in {(means[:, k] > 0).sum()}; "
            f"between {best:+.4f} and {worst:+.4f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
