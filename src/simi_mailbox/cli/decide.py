"""`simi-mailbox decide`: sets of classes, and which predictions to act on, from files."""

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import alerts, console, options
from simi_mailbox.cli import user_files as user

_SCORES = {"lac": (), "aps": (), "raps": (), "daps": ("graph",), "snaps": ("graph", "features")}
_GROUPS = {None: (), "class": (), "degree": ("graph",), "mailbox": ("graph",)}
"""What each score and each kind of group needs."""
_SHARE = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
_PARTS = ("edges", "labels", "calibration", "test", "train", "features", "ids", "classes")


@click.command(epilog=options.FILES_EPILOG)
@click.argument("probabilities", type=options.ExistingFile())
@options.file_options(*_PARTS)
@options.input_option("probabilities")
@click.option("--coverage", type=_SHARE, default=0.9, help="Share of sets that hold the label.")
@click.option(
    "--score",
    type=click.Choice(list(_SCORES)),
    default="aps",
    help="Score that ranks classes for the sets.",
)
@click.option(
    "--condition-on",
    type=click.Choice([name for name in _GROUPS if name]),
    help="Guarantee the coverage within each group.",
)
@click.option(
    "--max-error",
    type=_SHARE,
    default=0.05,
    help="Largest share of errors among accepted predictions.",
)
@click.option("--confidence", type=_SHARE, default=0.9, help="Confidence of that guarantee.")
@options.positive_option
@click.option(
    "--min-precision", type=_SHARE, help="Alerts: at least this share of them is of the class."
)
@click.option(
    "--min-recall", type=_SHARE, help="Alerts: at least this share of the class is among them."
)
@click.option("--max-alerts", type=click.IntRange(1), help="Alerts: at most this many nodes.")
@options.save_option("Keep the rule in a .json file.")
@click.option("--rule", type=options.ExistingFile(), help="Use a rule that --save kept.")
@options.selection_option
@options.seed_option("Seed of randomised scores.")
@options.out_option("decisions.csv", "File of decisions: .csv, .tsv, .npz or .parquet.")
@options.json_option
def decide(
    probabilities: Path,
    coverage: float,
    score: str,
    condition_on: str | None,
    max_error: float,
    confidence: float,
    used_for_selection: bool,
    seed: int,
    out: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """Decide on PROBABILITIES (all nodes): a set of classes for each, and accept or defer.

    With --positive, which nodes to review for one class: alerts with a guaranteed precision or
    recall, or the highest --max-alerts; the file then has the nodes with the highest probability
    first. --save keeps the rule, --rule uses it on other nodes, without labels.

    The labels of the calibration nodes are read, no others; those of --test, if it is given, to
    tell whether the guarantees held. With too few labels a set is all classes and nothing is
    accepted.
    """
    from simi_mailbox import metrics
    from simi_mailbox.decide import Accept, PredictionSets
    from simi_mailbox.node_files import check_writable, write_decisions

    check_writable(out, table=True)
    options.check_file(out)
    if given["rule"] is not None or given["positive"] is not None:
        said = {"confidence": confidence, "used_for_selection": used_for_selection}
        alerts.run(probabilities, {**given, **said}, out, as_json)
        return
    if asked := alerts.asked(given):
        raise click.ClickException(f"{asked[0]} is about one class: say which, --positive CLASS")
    with console.complaints() as told:
        problem = user.read(probabilities, given)
        rows = user.calibration_nodes(problem, judged=alerts.CANNOT_JUDGE)
        needs = {*_SCORES[score], *_GROUPS[condition_on]}
        user.refuse_missing("these sets need", frozenset(needs), problem)
        probs = user.probabilities_of(problem)
        inputs = {name: getattr(problem, name) for name in needs}
        fitting = {"mask": rows, "used_for_selection": used_for_selection}
        with console.working(f"deciding on {problem.nodes.count:,} nodes"):
            rule = PredictionSets(
                coverage=coverage, score=score, condition_on=condition_on, seed=seed
            )
            rule.fit(probs, problem.labels, **fitting, **inputs)
            sets = rule.predict_sets(probs, **inputs)
            gate = Accept(max_error=max_error, confidence=confidence)
            accepted = gate.fit(probs, problem.labels, **fitting).accepts(probs)
        write_decisions(out, probs, problem.nodes, sets, accepted)
    facts = user.counts(problem, rows) | {
        "mean_set_size": metrics.mean_set_size(sets),
        "sets_of_one": metrics.singleton_share(sets),
        "accepted": int(accepted.sum()),
        "deferred": int((~accepted).sum()),
        "threshold": gate.threshold_ if accepted.any() else None,
        "error_counts_for": gate.error_weight_,
        **_judged(problem, probs, sets, accepted),
    }
    if not as_json:
        errors = f"at most {max_error:.1%} errors at {confidence:.0%} confidence"
        click.echo(f"guaranteed: {coverage:.1%} coverage; {errors}", err=str(out) == "-")
    forms = dict.fromkeys(("mean_set_size", "error_counts_for"), "{:.2f}")
    for name in ("accepted", "deferred"):
        forms[name] = f"{{:,}} ({facts[name] / facts['nodes']:.1%})"
    console.finish(facts, out, as_json, told, {**forms, "threshold": "{:.4f}"})


def _judged(problem: Any, probs: Any, sets: Any, accepted: Any) -> dict[str, Any]:
    """Whether the guarantees held on the test nodes, with exact 95 % intervals."""
    from simi_mailbox.metrics.sets import binomial_interval, covered

    if "test" not in problem.sets:
        return {}
    test = problem.labelled("test")
    y = problem.labels[test]
    wrong = (probs[test].argmax(axis=1) != y)[accepted[test]]
    found: dict[str, Any] = {"test_nodes": int(test.size)}
    counted = {"test_coverage": covered(sets[test], y), "test_error_of_accepted": wrong}
    for name, hits in counted.items():
        if hits.size:
            low, high = binomial_interval(hits.sum(keepdims=True), hits.size)
            found[name] = {"value": float(hits.mean()), "low": low.item(), "high": high.item()}
    return found
