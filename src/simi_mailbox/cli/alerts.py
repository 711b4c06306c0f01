"""`simi-mailbox decide --positive`: whom to review for one class, and rules kept in files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.outputs import check_file

GOALS = ("min_precision", "min_recall", "max_alerts", "miss_cost", "review_cost")


def refuse_without_class(given: Mapping[str, Any]) -> None:
    """Raise for options of alerts where no class was named."""
    for name, value in given.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise click.ClickException(f"{option} is about one class: say which, --positive CLASS")


def run(
    source: Path,
    kind: str,
    goals: Mapping[str, Any],
    files: Mapping[str, Any],
    said: Mapping[str, Any],
    save: Path | None,
    rule_file: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Fit or load a rule, write the nodes by P(class), and say what to expect."""
    from simi_mailbox.node_files import write_alerts

    if save is not None:
        if save.suffix.lower() != ".json":
            raise click.ClickException(f"{save}: a rule is a .json file; name it so")
        check_file(save)
    with console.complaints() as told:
        problem = user.read(source, files, kind)
        probs = user.probabilities_of(problem, kind)
        if rule_file is None:
            rule, rows = _fitted(problem, probs, goals, files["positive"], said)
        else:
            rule, rows = _loaded(rule_file, problem, goals, files, save), None
        positive = rule.positive_
        alerts = rule.alerts(probs) if rule.name == "alert" else rule.actions(probs) == positive
        facts = _facts(problem, probs, rule, rows, alerts)
        facts |= _judged(problem, probs, positive, alerts)
        write_alerts(out, probs, problem.nodes, positive, alerts)
        if save is not None:
            rule.save(save)
    if not as_json:
        click.echo(facts["summary"], err=str(out) == "-")
    wrote = f"wrote {out}" + (f" and {save}" if save is not None else "")
    console.finish(facts, out, as_json, told, _in_words(facts), wrote)


def _fitted(
    problem: Any, probs: Any, goals: Mapping[str, Any], named: str, said: Mapping[str, Any]
) -> tuple[Any, Any]:
    import numpy as np

    from simi_mailbox.decide import Alert, Costs

    positive = user.positive_class(problem, named)
    assert positive is not None
    given = {name: value for name, value in goals.items() if value is not None}
    costs = {"miss_cost", "review_cost"} & set(given)
    if costs and set(given) != {"miss_cost", "review_cost"}:
        raise ValueError("costs are two numbers, --miss-cost and --review-cost, and no other goal")
    if not costs and len(given) != 1:
        raise ValueError(
            "say what the alerts are to keep: one of --min-precision, --min-recall, --max-alerts, "
            f"or --miss-cost with --review-cost; got {len(given)}"
        )
    rows = user.calibration_nodes(problem)
    if "test" in problem.sets:
        why = "nodes that a threshold was found on cannot judge it; name other nodes"
        user.refuse_shared(problem, {"calibration": rows, "test": problem.sets["test"]}, why)
    classes = None if problem.nodes.classes is None else list(problem.nodes.classes)
    if costs:
        k = probs.shape[1]
        wrong = np.zeros((k, k))
        wrong[positive] = goals["miss_cost"]
        wrong[:, positive] = goals["review_cost"]
        rule: Any = Costs(wrong=wrong.tolist(), defer=None)
        rule.fit(probs, problem.labels, mask=rows)
        rule.positive_, rule.classes_ = positive, classes
        return rule, rows
    rule = Alert(positive=positive, classes=classes, confidence=said["confidence"], **given)
    selected = said["used_for_selection"]
    return rule.fit(probs, problem.labels, mask=rows, used_for_selection=selected), rows


def _loaded(
    path: Path, problem: Any, goals: Mapping[str, Any], files: Mapping[str, Any], save: Any
) -> Any:
    from simi_mailbox.decide import load_rule

    asked = [name for name, value in {**goals, "save": save}.items() if value is not None]
    if asked:
        raise ValueError(f"{path} is a fitted rule: leave out --{asked[0].replace('_', '-')}")
    rule: Any = load_rule(path)
    if rule.name not in ("alert", "costs") or not hasattr(rule, "positive_"):
        raise ValueError(f"{path} holds a rule of {rule.name}, none of alerts (decide --save)")
    known = rule.classes if rule.name == "alert" else rule.classes_
    names = problem.nodes.classes
    if known is not None and names is not None and list(known) != list(names):
        raise ValueError(
            f"{path} was fitted on the classes {', '.join(known)}, and the file has "
            f"{', '.join(names)}"
        )
    asked_for = user.positive_class(problem, files["positive"])
    if asked_for not in (None, rule.positive_):
        raise ValueError(
            f"{path} alerts to class {rule.positive_}, not to --positive {files['positive']}"
        )
    return rule


def _facts(problem: Any, probs: Any, rule: Any, rows: Any, alerts: Any) -> dict[str, Any]:
    positive = rule.positive_
    name = str(positive) if problem.nodes.classes is None else problem.nodes.classes[positive]
    p = probs[:, positive]
    facts: dict[str, Any] = {"positive": name, "nodes": problem.nodes.count}
    if rows is not None:
        facts["calibration_nodes"] = int(rows.size)
        facts["calibration_is"] = "as named" if "calibration" in problem.sets else "all labelled"
    facts["alerts"] = int(alerts.sum())
    if rule.name == "alert":
        facts["threshold"] = rule.threshold_ if alerts.any() else None
        workload = rule.expected(probs)
        for key, (mean, low, high) in (("expected", workload.hits), ("missed", workload.missed)):
            facts[f"{key}_of_class"] = {"value": mean, "low": low, "high": high}
        facts["summary"] = workload.sentence(f"of class {name}")
    else:
        facts["expected_of_class"] = {"value": float(p[alerts].sum())}
        facts["missed_of_class"] = {"value": float(p[~alerts].sum())}
        facts["saving_per_node"] = rule.saving_
        facts["saving_interval"] = list(rule.saving_interval_)
        facts["summary"] = (
            f"review {alerts.sum():,} of {len(p):,} nodes; expect {p[alerts].sum():,.0f} of class "
            f"{name}, miss {p[~alerts].sum():,.0f}; saves {rule.saving_:.4g} per node beside "
            "acting on predictions"
        )
    facts["expected_by_probabilities"] = float(p.sum())
    return facts


def _judged(problem: Any, probs: Any, positive: int, alerts: Any) -> dict[str, Any]:
    """Precision and recall on the test nodes, with exact 95 % intervals."""
    from simi_mailbox.metrics import Alerts

    if "test" not in problem.sets or problem.labels is None:
        return {}
    test = problem.labelled("test")
    is_class, above = problem.labels[test] == positive, alerts[test]
    found = Alerts(
        int(above.sum()), float((above & is_class).sum()), int(test.size), int(is_class.sum())
    )
    judged: dict[str, Any] = {
        "test_nodes": int(test.size),
        "test_missed": int((is_class & ~above).sum()),
    }
    for name in ("precision", "recall"):
        value = getattr(found, name)
        if value == value:
            interval = found.interval(name)
            judged[f"test_{name}"] = {"value": value, "low": interval.low, "high": interval.high}
    return judged


def _in_words(facts: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in facts.items():
        if name == "summary":
            continue
        if name == "saving_interval":
            shown[name] = "{:.4g} – {:.4g}".format(*value)
        elif isinstance(value, dict) and name.startswith("test_"):
            shown[name] = "{value:.1%} ({low:.1%} – {high:.1%})".format(**value)
        elif isinstance(value, dict):
            ends = " ({low:,.0f} – {high:,.0f})".format(**value) if "low" in value else ""
            shown[name] = f"{value['value']:,.0f}{ends}"
        elif isinstance(value, float):
            shown[name] = f"{value:.4g}"
        else:
            shown[name] = value
    return shown
