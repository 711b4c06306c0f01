"""`simi-mailbox decide --positive`: whom to review for one class, and rules kept in files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.options import check_file

_GOALS = ("min_precision", "min_recall", "max_alerts")
CANNOT_JUDGE = "nodes that a threshold was found on cannot judge it; name other nodes"


def asked(given: Mapping[str, Any]) -> list[str]:
    """Options of a new rule that were given."""
    names = (name for name in (*_GOALS, "save") if given[name] is not None)
    return [f"--{name.replace('_', '-')}" for name in names]


def run(source: Path, given: Mapping[str, Any], out: Path, as_json: bool) -> None:
    """Fit or load a rule, write the nodes by P(class), and say what to expect."""
    from simi_mailbox.node_files import write_alerts

    save, rule_file = given["save"], given["rule"]
    if save is not None:
        check_file(save, ".json", "a rule")
    with console.complaints() as told:
        problem = user.read(source, given)
        probs = user.probabilities_of(problem)
        counted: dict[str, Any] = {"nodes": problem.nodes.count}
        if rule_file is None:
            rule, rows = _fitted(problem, probs, given)
            counted = user.counts(problem, rows)
            del counted["classes"]
        else:
            rule = _loaded(rule_file, problem, given)
        positive, alerts, workload = rule.positive_, rule.alerts(probs), rule.expected(probs)
        name = str(positive) if problem.nodes.classes is None else problem.nodes.classes[positive]
        ends = ("value", "low", "high")
        facts = {
            "positive": name,
            **counted,
            "alerts": int(alerts.sum()),
            "threshold": rule.threshold_ if alerts.any() else None,
            "expected_of_class": dict(zip(ends, workload.hits, strict=True)),
            "missed_of_class": dict(zip(ends, workload.missed, strict=True)),
            "summary": workload.sentence(f"of class {name}"),
            "expected_by_probabilities": float(probs[:, positive].sum()),
            **_judged(problem, positive, alerts),
        }
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
    rows = user.calibration_nodes(problem, judged=CANNOT_JUDGE)
    classes = None if problem.nodes.classes is None else list(problem.nodes.classes)
    rule = Alert(positive=positive, classes=classes, confidence=given["confidence"], **goals)
    selected = given["used_for_selection"]
    return rule.fit(probs, problem.labels, mask=rows, used_for_selection=selected), rows


def _loaded(path: Path, problem: Any, given: Mapping[str, Any]) -> Any:
    from simi_mailbox.decide import Alert, load_rule

    if new := asked(given):
        raise ValueError(f"{path} is a fitted rule: leave out {new[0]}")
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


def _judged(problem: Any, positive: int, alerts: Any) -> dict[str, Any]:
    """Precision and recall on the test nodes, with exact 95 % intervals."""
    from simi_mailbox.metrics import Alerts

    if "test" not in problem.sets or problem.labels is None:
        return {}
    test = problem.labelled("test")
    is_class, above = problem.labels[test] == positive, alerts[test]
    hits = int((above & is_class).sum())
    found = Alerts(int(above.sum()), hits, int(test.size), int(is_class.sum()))
    judged: dict[str, Any] = {"test_nodes": int(test.size), "test_missed": found.positives - hits}
    if found.alerts:
        judged["test_precision"] = user.estimate(found.precision, found.interval("precision"))
    if found.positives:
        judged["test_recall"] = user.estimate(found.recall, found.interval("recall"))
    return judged
