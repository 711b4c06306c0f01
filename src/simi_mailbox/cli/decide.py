"""`simi-mailbox decide`: sets of classes, and which predictions to act on, from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import alerts, console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.outputs import check_file

_SCORES = ("lac", "aps", "raps", "daps", "snaps")
_GROUPS = ("class", "degree", "mailbox")
_SHARE = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
_COST = click.FloatRange(0.0, min_open=True)
_PARTS = ("edges", "labels", "calibration", "test", "train", "features", "ids", "classes")


@click.command(epilog=options.FILES_EPILOG)
@click.argument("probabilities", type=options.ExistingFile())
@options.file_options(*_PARTS)
@options.input_option("probabilities")
@click.option(
    "--coverage",
    type=_SHARE,
    default=0.9,
    show_default=True,
    help="Share of sets that hold the label.",
)
@click.option(
    "--score",
    type=click.Choice(_SCORES),
    default="aps",
    show_default=True,
    help="Score that ranks classes for the sets.",
)
@click.option(
    "--condition-on", type=click.Choice(_GROUPS), help="Guarantee the coverage within each group."
)
@click.option(
    "--max-error",
    type=_SHARE,
    default=0.05,
    show_default=True,
    help="Largest share of errors among accepted predictions.",
)
@click.option(
    "--confidence",
    type=_SHARE,
    default=0.9,
    show_default=True,
    help="Confidence of that guarantee.",
)
@options.positive_option
@click.option(
    "--min-precision", type=_SHARE, help="Alerts: at least this share of them is of the class."
)
@click.option(
    "--min-recall", type=_SHARE, help="Alerts: at least this share of the class is among them."
)
@click.option("--max-alerts", type=click.IntRange(1), help="Alerts: at most this many nodes.")
@click.option("--miss-cost", type=_COST, help="Cost of a node of the class that is no alert.")
@click.option("--review-cost", type=_COST, help="Cost of an alert; with --miss-cost.")
@click.option("--save", type=click.Path(path_type=Path), help="Keep the rule in a .json file.")
@click.option("--rule", type=options.ExistingFile(), help="Use a rule that --save kept.")
@options.selection_option
@click.option("--seed", default=0, show_default=True, help="Seed of randomised scores.")
@options.out_option("decisions.csv", "File of decisions: .csv, .tsv, .npz or .parquet.")
@options.json_option
def decide(
    probabilities: Path,
    kind: str,
    coverage: float,
    score: str,
    condition_on: str | None,
    max_error: float,
    confidence: float,
    positive: str | None,
    save: Path | None,
    rule: Path | None,
    used_for_selection: bool,
    seed: int,
    out: Path,
    as_json: bool,
    **more: Any,
) -> None:
    """Decide on PROBABILITIES (all nodes): a set of classes for each, and accept or defer.

    With --positive, which nodes to review for one class: alerts with a guaranteed precision or
    recall, the highest --max-alerts, or the cheapest by costs; the file then has the nodes with the
    highest probability first. --save keeps the rule, --rule uses it on other nodes, without labels.

    The labels of the calibration nodes are read, no others; those of --test, if it is given, to
    tell whether the guarantees held. With too few labels a set is all classes and nothing is
    accepted.
    """
    from simi_mailbox.decide import Accept, PredictionSets
    from simi_mailbox.node_files import check_writable, write_decisions

    check_writable(out, table=True)
    check_file(out)
    goals = {name: more.pop(name) for name in alerts.GOALS}
    files = {**more, "positive": positive}
    if rule is not None or positive is not None:
        said = {"confidence": confidence, "used_for_selection": used_for_selection}
        alerts.run(probabilities, kind, goals, files, said, save, rule, out, as_json)
        return
    alerts.refuse_without_class({**goals, "save": save})
    with console.complaints() as told:
        problem = user.read(probabilities, files, kind)
        rows = user.calibration_nodes(problem)
        if "test" in problem.sets:
            why = "nodes that a threshold was found on cannot judge it; name other nodes"
            user.refuse_shared(problem, {"calibration": rows, "test": problem.sets["test"]}, why)
        needs = {"daps": {"graph"}, "snaps": {"graph", "features"}}.get(score, set())
        needs |= {"graph"} if condition_on in ("degree", "mailbox") else set()
        missing = user.missing_parts(frozenset(needs), problem)
        if missing:
            raise ValueError(f"these sets need {' and '.join(missing)}")
        probs = user.probabilities_of(problem, kind)
        given = {name: value for name, value in _inputs(problem).items() if name in needs}
        fitted = {"mask": rows, "used_for_selection": used_for_selection}
        with console.working(f"deciding on {problem.nodes.count:,} nodes"):
            of_sets = PredictionSets(
                coverage=coverage, score=score, condition_on=condition_on, seed=seed
            ).fit(probs, problem.labels, **fitted, **given)
            sets = of_sets.predict_sets(probs, **given)
            gate = Accept(max_error=max_error, confidence=confidence)
            accepted = gate.fit(probs, problem.labels, **fitted).accepts(probs)
        write_decisions(out, probs, problem.nodes, sets, accepted)
    facts = _facts(problem, rows, sets, accepted)
    facts |= {
        "threshold": gate.threshold_ if accepted.any() else None,
        "error_counts_for": gate.error_weight_,
        **_judged(problem, probs, sets, accepted),
    }
    targets = f"{coverage:.1%} coverage", f"at most {max_error:.1%} errors at {confidence:.0%}"
    if not as_json:
        aside = str(out) == "-"
        click.echo(f"guaranteed: {targets[0]}; {targets[1]} confidence", err=aside)
    console.finish(facts, out, as_json, told, _in_words(facts))


def _inputs(problem: Any) -> dict[str, Any]:
    return {"graph": problem.graph, "features": problem.features}


def _facts(problem: Any, rows: Any, sets: Any, accepted: Any) -> dict[str, Any]:
    from simi_mailbox import metrics

    return {
        "nodes": problem.nodes.count,
        "classes": sets.shape[1],
        "calibration_nodes": int(rows.size),
        "calibration_is": "as named" if "calibration" in problem.sets else "all labelled nodes",
        "mean_set_size": metrics.mean_set_size(sets),
        "sets_of_one": metrics.singleton_share(sets),
        "accepted": int(accepted.sum()),
        "deferred": int((~accepted).sum()),
    }


def _judged(problem: Any, probs: Any, sets: Any, accepted: Any) -> dict[str, Any]:
    """Whether the guarantees held on the test nodes, with exact 95 % intervals."""
    import numpy as np

    from simi_mailbox.metrics.sets import binomial_interval, covered

    if "test" not in problem.sets or problem.labels is None:
        return {}
    test = problem.labelled("test")
    y = problem.labels[test]
    wrong = (probs[test].argmax(axis=1) != y)[accepted[test]]
    counted = {"test_coverage": covered(sets[test], y), "test_error_of_accepted": wrong}
    found: dict[str, Any] = {"test_nodes": int(test.size)}
    for name, hits in counted.items():
        if not hits.size:
            continue
        low, high = binomial_interval(np.array([hits.sum()]), np.array([hits.size]))
        found[name] = {"value": float(hits.mean()), "low": float(low[0]), "high": float(high[0])}
    return found


def _in_words(facts: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            shown[name] = "{value:.2%} ({low:.2%} – {high:.2%})".format(**value)
        elif name in ("accepted", "deferred"):
            shown[name] = f"{value:,} ({value / facts['nodes']:.1%})"
        elif name in ("mean_set_size", "error_counts_for"):
            shown[name] = f"{value:.2f}"
        elif name == "threshold":
            shown[name] = "–" if value is None else f"{value:.4f}"
        else:
            shown[name] = value
    return shown
