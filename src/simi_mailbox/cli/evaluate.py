"""`simi-mailbox evaluate`: are probabilities calibrated?"""

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, folders, options
from simi_mailbox.cli import user_files as user

# Metric -> (shown as, whether it is a share of nodes).
_SHOWN = {
    "accuracy": ("accuracy", True),
    "ece": ("ECE", True),
    "debiased_ece": ("debiased ECE", True),
    "classwise_ece": ("class-wise ECE", True),
    "kde_ece": ("KDE-ECE", True),
    "nll": ("log-loss (NLL)", False),
    "brier": ("Brier score", False),
}
_WITH_INTERVAL = ("accuracy", "ece", "debiased_ece", "nll", "brier")


@click.command(epilog=options.FILES_EPILOG)
@click.argument("probabilities", type=options.ExistingFile(folders=True))
@options.file_options(
    *("labels", "test", "calibration", "train", "ids", "classes"),
    test="Nodes to judge on: ids, or a mask. If not given: all labelled nodes but the next two.",
    calibration="Nodes that a calibrator was fitted on; they are not judged.",
    train="Nodes that the model was trained on; they are not judged.",
)
@options.input_option("probabilities")
@options.positive_option
@click.option(
    "--top",
    type=click.IntRange(1),
    help="With --positive: this many nodes of highest probability are alerts.",
)
@click.option(
    "--threshold",
    type=float,
    help="With --positive: nodes of at least this probability are alerts.",
)
@click.option("--bins", default=15, show_default=True, help="Bins of the calibration error.")
@click.option("--seed", default=0, show_default=True, help="Seed of intervals and noise floor.")
@options.json_option
def evaluate(
    probabilities: Path,
    kind: str,
    bins: int,
    seed: int,
    top: int | None,
    threshold: float | None,
    as_json: bool,
    **files: Any,
) -> None:
    """Judge PROBABILITIES (all nodes) by labels: metrics with intervals and the noise floor.

    Judged are the nodes of --test, or all that have a label; nodes of --calibration and --train
    are left out, because whatever was fitted on them looks better than it is. PROBABILITIES may be
    a folder that calibrate or apply has written, or one of shards with labels.* beside.
    """
    import numpy as np

    if files["positive"] is None and (top, threshold) != (None, None):
        raise click.ClickException("--top and --threshold are about one class: say --positive")
    if probabilities.is_dir():
        if files["positive"] is not None:
            raise click.UsageError("--positive is for files")
        _report(folders.judge(probabilities, files, kind, bins, seed, _WITH_INTERVAL), as_json)
        return
    problem = user.read(probabilities, files, kind)
    rows = problem.labelled("test")
    left_out = 0
    for name in ("calibration", "train"):
        shared = np.isin(rows, problem.sets.get(name, []))
        if shared.any() and "test" in problem.sets:
            raise ValueError(
                f"{shared.sum()} nodes are both in --{name} and in --test (the first is "
                f"{problem.nodes.shown()[rows[shared][0]]}): take them out of one of the two"
            )
        left_out += int(shared.sum())
        rows = rows[~shared]
    if not rows.size:
        raise ValueError("no labelled node is left to judge on: give --test FILE")
    probs = user.probabilities_of(problem, kind)
    assert problem.labels is not None
    with console.working(f"judging {rows.size:,} nodes"):
        y = problem.labels[rows]
        facts = _judge(probs[rows], y, bins, seed)
        positive = user.positive_class(problem, files["positive"])
        if positive is not None:
            facts["positive"] = files["positive"]
            facts["of_class"] = _judge_class(probs[rows, positive], y == positive, top, threshold)
    _report({"nodes": int(rows.size), "left_out": left_out, **facts}, as_json)


def _report(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        console.show_json(facts)
    else:
        _show(facts)


def _judge(probs: Any, y: Any, bins: int, seed: int) -> dict[str, Any]:
    from functools import partial

    from simi_mailbox import metrics

    values = metrics.evaluate(probs, y, bins=bins)
    floor = metrics.noise_floor(probs, bins=bins, seed=seed)
    rows: dict[str, Any] = {}
    for name in _SHOWN:
        rows[name] = {"value": values[name]}
        if name in _WITH_INTERVAL:
            function = getattr(metrics, name)
            if name in ("ece", "debiased_ece"):
                function = partial(function, bins=bins)
            interval = metrics.bootstrap_interval(function, probs, y, seed=seed)
            rows[name] |= {"low": interval.low, "high": interval.high}
    return {
        "metrics": rows,
        "confidence": float(probs.max(axis=1).mean()),
        "noise_floor": {"mean": floor.mean, "std": floor.std},
    }


def _judge_class(p: Any, is_class: Any, top: int | None, threshold: float | None) -> dict[str, Any]:
    """Calibration, ranking and counts of P(class); alerts are as many as are expected to be it."""
    from simi_mailbox import metrics

    expected = metrics.positives(p, is_class)
    if top is None and threshold is None:
        top = min(max(round(expected.expected), 1), len(p))
    found = metrics.alerts(p, is_class, top=top, threshold=threshold)
    facts: dict[str, Any] = {"expected": expected.expected, "observed": expected.observed}
    facts["alerts"], facts["missed"] = found.alerts, found.positives - found.hits
    for name in ("precision", "recall", "lift"):
        facts[name] = {"value": getattr(found, name)}
        if found.alerts and found.positives:
            interval = found.interval(name)
            facts[name] |= {"low": interval.low, "high": interval.high}
    for metric in (metrics.class_ece, metrics.smooth_ece, metrics.average_precision, metrics.auroc):
        facts[metric.__name__] = {"value": metric(p, is_class)}
        if 0 < expected.observed < len(p):
            interval = metrics.class_interval(metric, p, is_class, draws=200)
            facts[metric.__name__] |= {"low": interval.low, "high": interval.high}
    return facts


def _show_class(name: str, facts: dict[str, Any]) -> None:
    click.echo(
        f"class {name}: {facts['expected']:,.0f} expected, {facts['observed']:,} observed; the "
        f"{facts['alerts']:,} nodes of highest probability hold "
        f"{facts['observed'] - facts['missed']:,.0f} of them and miss {facts['missed']:,.0f}"
    )
    shown = {}
    for key, row in facts.items():
        if isinstance(row, dict):
            form = "{:.2f}".format if key == "lift" else "{:.2%}".format
            ends = f" ({form(row['low'])} – {form(row['high'])})" if "low" in row else ""
            shown[key] = f"{form(row['value'])}{ends}"
    console.show_facts(shown)


def _show(facts: dict[str, Any]) -> None:
    from rich.table import Table

    if "of_class" in facts:
        _show_class(facts["positive"], facts["of_class"])
    left_out = facts["left_out"]
    note = f" ({left_out:,} of calibration or training left out)" if left_out else ""
    click.echo(f"{facts['nodes']:,} nodes{note}")
    table = Table()
    table.add_column("metric")
    for heading in ("value", "95 % interval", "noise floor"):
        table.add_column(heading, justify="right")
    for name, (shown, share) in _SHOWN.items():
        row = facts["metrics"][name]
        form = "{:.2%}".format if share else "{:.4f}".format
        # The interval of the plain ECE is corrected for its bias and may not hold its value.
        interval = f"{form(row['low'])} – {form(row['high'])}" if "low" in row else ""
        floor = "{mean:.2%} ± {std:.2%}".format(**facts["noise_floor"]) if name == "ece" else ""
        table.add_row(shown, form(row["value"]), "" if name == "ece" else interval, floor)
    console.show_table(table)
    click.echo(_verdict(facts))


def _verdict(facts: dict[str, Any]) -> str:
    accuracy, ece = facts["metrics"]["accuracy"]["value"], facts["metrics"]["ece"]["value"]
    floor = facts["noise_floor"]
    gap = facts["confidence"] - accuracy
    side = "over" if gap > 0 else "under"
    known = f"chance alone gives {floor['mean']:.2%} ± {floor['std']:.2%} to a perfect model"
    if ece <= floor["mean"] + 2 * floor["std"]:
        return f"ECE {ece:.2%}: not distinguishable from perfect calibration ({known})."
    return f"ECE {ece:.2%}: miscalibrated ({known}); on average {abs(gap):.1%} {side}confident."
