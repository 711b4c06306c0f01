"""`simi-mailbox decide`: sets of classes, and which predictions to act on, from files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user

# What each score and each kind of group needs.
_SCORES = {"lac": (), "aps": (), "raps": (), "daps": ("graph",), "snaps": ("graph", "features")}
_GROUPS = {"class": (), "degree": ("graph",), "mailbox": ("graph",)}
_GOALS = ("min_precision", "min_recall", "max_alerts")
_PARTS = ("edges", "labels", "calibration", "test", "train", "features", "ids", "classes")
_CANNOT_JUDGE = "nodes that a threshold was found on cannot judge it; name other nodes"


def _share_option(name: str, default: float | None, help: str) -> options.Decorator:
    share = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
    return click.option(name, type=share, default=default, help=help)


@options.file_command("probabilities", parts=_PARTS, input_type="probabilities")
@_share_option("--coverage", 0.9, "Share of sets that hold the label.")
@options.choice_option("--score", _SCORES, "Score that ranks classes for the sets.", "aps")
@options.choice_option("--condition-on", _GROUPS, "Guarantee the coverage within each group.")
@_share_option("--max-error", 0.05, "Largest share of errors among accepted predictions.")
@_share_option("--confidence", 0.9, "Confidence of that guarantee.")
@options.positive_option
@_share_option("--min-precision", None, "Alerts: at least this share of them is of the class.")
@_share_option("--min-recall", None, "Alerts: at least this share of the class is among them.")
@click.option("--max-alerts", type=click.IntRange(1), help="Alerts: at most this many nodes.")
@options.path_option("--save", "Keep the rule in a .json file.")
@click.option("--rule", type=options.ExistingFile(), help="Use a rule that --save kept.")
@options.selection_option
@click.option("--seed", default=0, help="Seed of randomised scores.")
@options.path_option("--out", "File of decisions: .csv, .tsv, .npz or .parquet.", "decisions.csv")
@options.json_option
def decide(probabilities: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Decide on PROBABILITIES (all nodes): a set of classes for each, and accept or defer.

    With --positive, which nodes to review for one class: alerts with a guaranteed precision or
    recall, or the highest --max-alerts; the file then has the nodes with the highest probability
    first. --save keeps the rule, --rule uses it on other nodes, without labels.

    The labels of the calibration nodes are read, no others; those of --test, if it is given, to
    tell whether the guarantees held. With too few labels a set is all classes and nothing is
    accepted.
    """
    from simi_mailbox.node_files import check_writable

    check_writable(out, table=True)
    options.check_file(out)
    asked = [f"--{name.replace('_', '-')}" for name in (*_GOALS, "save") if given[name] is not None]
    if given["rule"] is not None or given["positive"] is not None:
        _alerts(probabilities, given, asked, out, as_json)
    elif asked:
        raise click.ClickException(f"{asked[0]} is about one class: say which, --positive CLASS")
    else:
        _sets(probabilities, given, out, as_json)


def _sets(source: Path, given: Mapping[str, Any], out: Path, as_json: bool) -> None:
    """Prediction sets, and which predictions are accepted."""
    from simi_mailbox import metrics
    from simi_mailbox.decide import Accept, PredictionSets
    from simi_mailbox.metrics.sets import covered
    from simi_mailbox.node_files import write_decisions

    score, groups = given["score"], given["condition_on"]
    with console.complaints() as told:
        problem = user.read(source, given)
        rows = user.calibration_nodes(problem, judged=_CANNOT_JUDGE)
        needs = {*_SCORES[score], *_GROUPS.get(groups, ())}
        user.refuse_missing("these sets need", needs, problem)
        y: Any = problem.labels
        probs = user.probabilities_of(problem)
        inputs = {name: getattr(problem, name) for name in needs}
        fitting = {"mask": rows, "used_for_selection": given["used_for_selection"]}
        with console.working(f"deciding on {problem.nodes.count:,} nodes"):
            rule = PredictionSets(
                coverage=given["coverage"], score=score, condition_on=groups, seed=given["seed"]
            )
            sets = rule.fit(probs, y, **fitting, **inputs).predict_sets(probs, **inputs)
            gate = Accept(max_error=given["max_error"], confidence=given["confidence"])
            accepted = gate.fit(probs, y, **fitting).accepts(probs)
        write_decisions(out, probs, problem.nodes, sets, accepted)
    facts = user.counts(problem, rows) | {
        "mean_set_size": metrics.mean_set_size(sets),
        "sets_of_one": metrics.singleton_share(sets),
        "accepted": int(accepted.sum()),
        "deferred": int((~accepted).sum()),
        "threshold": gate.threshold_ if accepted.any() else None,
        "error_counts_for": gate.error_weight_,
    }
    if "test" in problem.sets:
        test = problem.labelled("test")
        wrong = (probs.argmax(axis=1) != y)[test][accepted[test]]
        facts["test_nodes"] = int(test.size)
        facts |= _shares(test_coverage=covered(sets[test], y[test]), test_error_of_accepted=wrong)
    if not as_json:
        errors = "at most {max_error:.1%} errors at {confidence:.0%} confidence".format(**given)
        click.echo(f"guaranteed: {given['coverage']:.1%} coverage; {errors}", err=str(out) == "-")
    forms = dict.fromkeys(("mean_set_size", "error_counts_for"), "{:.2f}")
    for name in ("accepted", "deferred"):
        forms[name] = f"{{:,}} ({facts[name] / facts['nodes']:.1%})"
    console.finish(facts, out, as_json, told, {**forms, "threshold": "{:.4f}"})


def _shares(**hits: Any) -> dict[str, Any]:
    """Shares with their exact 95 % intervals; those of no node are left out."""
    from simi_mailbox.metrics.sets import binomial_interval

    found = {}
    for name, true in hits.items():
        if true.size:
            low, high = binomial_interval(true.sum(keepdims=True), true.size)
            found[name] = {"value": float(true.mean()), "low": low.item(), "high": high.item()}
    return found


def _alerts(
    source: Path, given: Mapping[str, Any], asked: list[str], out: Path, as_json: bool
) -> None:
    """Fit or load a rule, write the nodes by P(class), and say what to expect."""
    from simi_mailbox.node_files import write_alerts

    save = given["save"]
    if save is not None:
        options.check_file(save, ".json", "a rule")
    with console.complaints() as told:
        problem = user.read(source, given)
        probs, classes = user.probabilities_of(problem), problem.nodes.classes
        facts: dict[str, Any] = {"nodes": problem.nodes.count}
        if given["rule"] is None:
            rule, rows = _fitted(problem, probs, given)
            facts = user.counts(problem, rows)
            del facts["classes"]
        else:
            rule = _loaded(given["rule"], problem, given, asked)
        positive, alerts, workload = rule.positive_, rule.alerts(probs), rule.expected(probs)
        name = str(positive) if classes is None else classes[positive]
        ends = ("value", "low", "high")
        facts = {
            "positive": name,
            **facts,
            "alerts": int(alerts.sum()),
            "threshold": rule.threshold_ if alerts.any() else None,
            "expected_of_class": dict(zip(ends, workload.hits, strict=True)),
            "missed_of_class": dict(zip(ends, workload.missed, strict=True)),
            "summary": workload.sentence(f"of class {name}"),
            "expected_by_probabilities": float(probs[:, positive].sum()),
        }
        if "test" in problem.sets and problem.labels is not None:
            test = problem.labelled("test")
            above, is_class = alerts[test], problem.labels[test] == positive
            facts |= {"test_nodes": int(test.size), "test_missed": int((is_class & ~above).sum())}
            facts |= _shares(test_precision=is_class[above], test_recall=above[is_class])
        write_alerts(out, probs, problem.nodes, positive, alerts)
        if save is not None:
            rule.save(save)
    if not as_json:
        click.echo(facts["summary"], err=str(out) == "-")
    forms = {"summary": "", "": "{:.4g}"}
    forms |= dict.fromkeys(("expected_of_class", "missed_of_class"), "{:,.0f}")
    forms |= dict.fromkeys(("test_precision", "test_recall"), "{:.1%}")
    console.finish(facts, out, as_json, told, forms, save)


def _fitted(problem: Any, probs: Any, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """A rule, and the nodes that it was fitted on."""
    from simi_mailbox.decide import Alert

    goals = {name: given[name] for name in _GOALS if given[name] is not None}
    positive: Any = user.positive_class(problem, given["positive"])
    if len(goals) != 1:
        raise ValueError(
            "say what the alerts are to keep: one of --min-precision, --min-recall and "
            f"--max-alerts; got {len(goals)}"
        )
    rows = user.calibration_nodes(problem, judged=_CANNOT_JUDGE)
    classes = None if problem.nodes.classes is None else list(problem.nodes.classes)
    rule = Alert(positive=positive, classes=classes, confidence=given["confidence"], **goals)
    selected = given["used_for_selection"]
    return rule.fit(probs, problem.labels, mask=rows, used_for_selection=selected), rows


def _loaded(path: Path, problem: Any, given: Mapping[str, Any], asked: list[str]) -> Any:
    from simi_mailbox.decide import Alert, load_rule

    if asked:
        raise ValueError(f"{path} is a fitted rule: leave out {asked[0]}")
    rule = load_rule(path)
    if not isinstance(rule, Alert):
        raise ValueError(f"{path} holds a rule of {rule.name}, none of alerts (decide --save)")
    names, positive = problem.nodes.classes, given["positive"]
    if rule.classes is not None and names is not None and list(rule.classes) != list(names):
        raise ValueError(
            f"{path} was fitted on the classes {', '.join(rule.classes)}, and the file has "
            f"{', '.join(names)}"
        )
    if user.positive_class(problem, positive) not in (None, rule.positive_):
        raise ValueError(f"{path} alerts to class {rule.positive_}, not to --positive {positive}")
    return rule
