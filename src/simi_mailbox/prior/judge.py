"""Leave-one-family-out judgement: is the prior worth anything on graphs it was not learned on?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from simi_mailbox.models.bank import BankedRun, LogitBank

METRICS = ("ece", "debiased_ece", "kde_ece", "nll", "brier")
METHODS = ("temperature", "ets", "plain shrinkage", "learned prior")
MAIN = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")

Row = dict[str, Any]


def judged_rows(bank: LogitBank, graphs: Sequence[str], backbones: Sequence[str]) -> Iterator[Row]:
    """One row per banked run and method; test labels are read by the metrics only."""
    from simi_mailbox.prior.bank import FEWEST_RUNS, PROTOCOLS, banked_keys

    for graph in graphs:
        for backbone in backbones:
            for protocol in PROTOCOLS:
                keys = banked_keys(bank, graph, backbone, protocol)
                if len(keys) < FEWEST_RUNS:
                    continue
                for key in keys:
                    run = bank.find(key)
                    if run is not None:
                        yield from _run_rows(run)
                break


def _run_rows(run: BankedRun) -> Iterator[Row]:
    from simi_mailbox.calibrators.ensemble_temperature import EnsembleTemperatureScaling
    from simi_mailbox.calibrators.simi_mailbox import SimiMailbox
    from simi_mailbox.calibrators.temperature import TemperatureScaling
    from simi_mailbox.metrics import evaluate
    from simi_mailbox.prior.shipped import leave_out

    dataset, split = run.dataset, run.split
    name = leave_out(dataset.name)
    calibrators = (
        TemperatureScaling(),
        EnsembleTemperatureScaling(),
        SimiMailbox(prior=None),
        SimiMailbox(prior=name),
    )
    for method, calibrator in zip(METHODS, calibrators, strict=True):
        calibrator.fit(run.logits, dataset.y, mask=split.val, graph=dataset.graph)
        probs = calibrator.predict_proba(run.logits, graph=dataset.graph).double().numpy()
        scores = evaluate(probs[split.test], dataset.y[split.test])
        row: Row = {
            "graph": dataset.name,
            "backbone": run.key.backbone,
            "protocol": run.key.protocol,
            "split": run.key.split,
            "fold": run.key.fold,
            "method": method,
            **{metric: float(f"{scores[metric]:.6g}") for metric in METRICS},
        }
        if method == "learned prior":
            row["prior"] = name
            fitted = vars(calibrator)
            for word in ("temperature", "many", "few", "blind"):
                row[word] = float(f"{fitted['baseline_'][word]:.4g}")
            row["strength"] = float(f"{fitted['prior_strength_']:.4g}")
        yield row


def difference_by_split(
    rows: Iterable[Mapping[str, Any]], metric: str, method: str, other: str
) -> tuple[float, float]:
    """Mean of (method − other) paired by run, and its standard error over splits.

    Runs of one split share their test nodes, so a split counts as one observation.

    Examples
    --------
    >>> rows = [{"split": s, "method": m, "ece": e} for s, m, e in
    ...         [(0, "a", 0.2), (0, "b", 0.1), (1, "a", 0.4), (1, "b", 0.1)]]
    >>> [round(v, 3) for v in difference_by_split(rows, "ece", "a", "b")]
    [0.2, 0.1]
    """
    values: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        values[row["split"]][row["method"]].append(row[metric])
    found = [np.mean(v[method]) - np.mean(v[other]) for v in values.values()]
    error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
    return float(np.mean(found)), float(error)


def significant(difference: float, error: float, splits: int) -> bool:
    """Whether the 95 % interval of a mean over splits (Student's t) leaves zero out.

    Examples
    --------
    >>> significant(2.0, 1.0, splits=10), significant(2.5, 1.0, splits=10)
    (False, True)
    """
    from scipy.stats import t

    return splits > 1 and abs(difference) > error * float(t.ppf(0.975, splits - 1))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: means per setting, differences to temperature scaling paired by split.

    A star marks differences whose 95 % interval over splits leaves zero out.
    """
    settings: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        settings[row["graph"], row["backbone"]].append(row)
    parts = []
    main = {key: value for key, value in settings.items() if key[0] in MAIN}
    rest = {key: value for key, value in settings.items() if key[0] not in MAIN}
    for title, chosen in (("The seven graphs", main), ("Other graphs", rest)):
        if chosen:
            parts += [f"## {title}", *(_section(chosen, metric) for metric in METRICS)]
    parts.insert(0, "A star: the 95 % interval over splits (Student's t) leaves zero out.")
    return "\n\n".join(parts) + "\n"


def _section(settings: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]], metric: str) -> str:
    percent = metric.endswith("ece")
    scale, digits = (100.0, 2) if percent else (1.0, 4)
    title = metric.replace("_", " ").upper() + (" in %" if percent else "")
    lines = [
        f"### {title}",
        "",
        f"| setting | runs | {' | '.join(METHODS)} | prior − temperature (± s.e. over splits) |",
        "|---|---|" + "---|" * (len(METHODS) + 1),
    ]
    means = []
    for (graph, backbone), rows in settings.items():
        values = [
            scale * float(np.mean([r[metric] for r in rows if r["method"] == m])) for m in METHODS
        ]
        means.append(values)
        change, error = difference_by_split(rows, metric, METHODS[3], METHODS[0])
        mark = "*" if significant(change, error, len({r["split"] for r in rows})) else ""
        runs = len(rows) // len(METHODS)
        cells = " | ".join(f"{v:.{digits}f}" for v in values)
        lines.append(
            f"| {graph} {backbone.upper()} | {runs} | {cells} "
            f"| {scale * change:+.{digits}f} ± {scale * error:.{digits}f}{mark} |"
        )
    average = np.mean(means, axis=0)
    better = int(sum(values[3] < values[0] for values in means))
    cells = " | ".join(f"**{v:.{digits}f}**" for v in average)
    relative = 100 * (average[3] / average[0] - 1)
    lines.append(
        f"| **mean** | | {cells} | {relative:+.1f} %; better in {better} of {len(means)} |"
    )
    return "\n".join(lines)
