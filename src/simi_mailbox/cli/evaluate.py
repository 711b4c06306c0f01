"""`simi-mailbox evaluate`: are probabilities calibrated?"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user

# Metric -> (shown as, its format).
_SHOWN = {
    "accuracy": ("accuracy", "{:.2%}"),
    "ece": ("ECE", "{:.2%}"),
    "debiased_ece": ("debiased ECE", "{:.2%}"),
    "classwise_ece": ("class-wise ECE", "{:.2%}"),
    "kde_ece": ("KDE-ECE", "{:.2%}"),
    "nll": ("log-loss (NLL)", "{:.4f}"),
    "brier": ("Brier score", "{:.4f}"),
}
_WITH_INTERVAL = ("accuracy", "ece", "debiased_ece", "nll", "brier")


@options.file_command(
    "probabilities",
    parts=("labels", "test", "calibration", "train", "ids", "classes"),
    input_type="probabilities",
    folders=True,
    test="Nodes to judge on: ids, or a mask. If not given: all labelled nodes but the next two.",
    calibration="Nodes that a calibrator was fitted on; they are not judged.",
    train="Nodes that the model was trained on; they are not judged.",
)
@options.positive_option
@click.option("--bins", default=15, help="Bins of the calibration error.")
@click.option("--seed", default=0, help="Seed of intervals and noise floor.")
@options.json_option
def evaluate(probabilities: Path, bins: int, seed: int, as_json: bool, **given: Any) -> None:
    """Judge PROBABILITIES (all nodes) by labels: metrics with intervals and the noise floor.

    Judged are the nodes of --test, or all that have a label; nodes of --calibration and --train
    are left out, because whatever was fitted on them looks better than it is. PROBABILITIES may be
    a folder that calibrate or apply has written, or one of shards with labels.* beside.
    """
    judge = _judge_folder if probabilities.is_dir() else _judge_file
    facts = judge(probabilities, given, bins, seed)
    if as_json:
        console.show_json(facts)
    else:
        _show(facts)


def _judge_folder(folder: Path, given: Mapping[str, Any], bins: int, seed: int) -> dict[str, Any]:
    from simi_mailbox import scale

    taken = ("labels", "test", "calibration", "train", "input_type")
    why = "files: rows of a folder are nodes 0, 1, 2, …"
    options.refuse_options(given.keys() - set(taken), why)
    said = {name: given[name] for name in taken}
    with console.progress() as progress:
        found = scale.evaluate(folder, **said, bins=bins, progress=progress)
    tally, interval = found.metrics, partial(found.metrics.interval, seed=seed)
    facts = {"nodes": tally.num_nodes, "left_out": found.left_out}
    floor = tally.noise_floor(seed=seed)
    return facts | _facts(tally.evaluate(), interval, tally.confidence, floor)


def _judge_file(source: Path, given: Mapping[str, Any], bins: int, seed: int) -> dict[str, Any]:
    from simi_mailbox import metrics

    problem = user.read(source, given)
    rows, left_out = _judged_nodes(problem)
    labels: Any = problem.labels
    probs, y = user.probabilities_of(problem)[rows], labels[rows]

    def interval(name: str) -> Any:
        binned = {"bins": bins} if name in ("ece", "debiased_ece") else {}
        metric = partial(getattr(metrics, name), **binned)
        return metrics.bootstrap_interval(metric, probs, y, seed=seed)

    with console.working(f"judging {rows.size:,} nodes"):
        values, confidence = metrics.evaluate(probs, y, bins=bins), float(probs.max(axis=1).mean())
        floor = metrics.noise_floor(probs, bins=bins, seed=seed)
        facts: dict[str, Any] = {"nodes": int(rows.size), "left_out": left_out}
        facts |= _facts(values, interval, confidence, floor)
        positive = user.positive_class(problem, given["positive"])
        if positive is not None:
            facts["positive"] = given["positive"]
            facts["of_class"] = _judge_class(probs[:, positive], y == positive)
    return facts


def _judged_nodes(problem: Any) -> tuple[Any, int]:
    """Nodes to judge on, and how many others with a label were left out."""
    import numpy as np

    rows = labelled = problem.labelled("test")
    for name in ("calibration", "train"):
        named = problem.sets.get(name, [])
        user.refuse_shared(problem, name, named, "test", "take them out of one of the two")
        rows = rows[~np.isin(rows, named)]
    if not rows.size:
        raise ValueError("no labelled node is left to judge on: give --test FILE")
    return rows, int(labelled.size - rows.size)


def _facts(values: Any, interval: Any, confidence: float, floor: Any) -> dict[str, Any]:
    rows = {name: _estimate(values[name]) for name in _SHOWN}
    rows |= {name: _estimate(values[name], interval(name)) for name in _WITH_INTERVAL}
    noise = {"mean": floor.mean, "std": floor.std}
    return {"metrics": rows, "confidence": confidence, "noise_floor": noise}


def _estimate(value: float, interval: Any = None) -> dict[str, float]:
    """A number and its interval, if it has one."""
    ends = {} if interval is None else {"low": interval.low, "high": interval.high}
    return {"value": value, **ends}


def _judge_class(p: Any, is_class: Any) -> dict[str, Any]:
    """Calibration, ranking and counts of P(class); alerts are as many as are expected to be it."""
    from simi_mailbox import metrics

    expected = metrics.positives(p, is_class)
    top = min(max(round(expected.expected), 1), len(p))
    found = metrics.alerts(p, is_class, top=top)
    facts: dict[str, Any] = {
        "expected": expected.expected,
        "observed": expected.observed,
        "alerts": found.alerts,
        "missed": found.positives - found.hits,
    }
    for name in ("precision", "recall", "lift"):
        interval = found.interval(name) if found.positives else None
        facts[name] = _estimate(getattr(found, name), interval)
    for metric in (metrics.class_ece, metrics.smooth_ece, metrics.average_precision, metrics.auroc):
        both = 0 < expected.observed < len(p)
        interval = metrics.bootstrap_interval(metric, p, is_class, draws=200) if both else None
        facts[metric.__name__] = _estimate(metric(p, is_class), interval)
    return facts


def _show(facts: dict[str, Any]) -> None:
    if "of_class" in facts:
        found = facts["of_class"]
        click.echo(
            f"class {facts['positive']}: {found['expected']:,.0f} expected, "
            f"{found['observed']:,} observed; the {found['alerts']:,} nodes of highest probability "
            f"hold {found['observed'] - found['missed']:,.0f} of them and miss "
            f"{found['missed']:,.0f}"
        )
        rows = {name: row for name, row in found.items() if isinstance(row, dict)}
        console.show_facts(rows, {"lift": "{:.2f}"})
    left_out, floor = facts["left_out"], "{mean:.2%} ± {std:.2%}".format(**facts["noise_floor"])
    note = f" ({left_out:,} of calibration or training left out)" if left_out else ""
    click.echo(f"{facts['nodes']:,} nodes{note}")
    cells = []
    for name, (shown, form) in _SHOWN.items():
        row = facts["metrics"][name]
        # The interval of the plain ECE is corrected for its bias and may not hold its value.
        spread = "low" in row and name != "ece"
        interval = f"{form} – {form}".format(row["low"], row["high"]) if spread else ""
        cells.append([shown, form.format(row["value"]), interval, floor if name == "ece" else ""])
    console.show_rows(("metric", "value", "95 % interval", "noise floor"), cells)
    click.echo(_verdict(facts, f"chance alone gives {floor} to a perfect model"))


def _verdict(facts: dict[str, Any], known: str) -> str:
    ece, floor = facts["metrics"]["ece"]["value"], facts["noise_floor"]
    if ece <= floor["mean"] + 2 * floor["std"]:
        return f"ECE {ece:.2%}: not distinguishable from perfect calibration ({known})."
    gap = facts["confidence"] - facts["metrics"]["accuracy"]["value"]
    side = "over" if gap > 0 else "under"
    return f"ECE {ece:.2%}: miscalibrated ({known}); on average {abs(gap):.1%} {side}confident."
