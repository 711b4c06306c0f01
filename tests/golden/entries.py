"""What is frozen: every entry is a function that returns named numbers, arrays or texts.

Entries whose name begins with ``simi-mailbox`` belong to the default method and to its prior: they
are regenerated when the method changes. All others change with nothing.
"""

import contextlib
import json
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import simi_mailbox
from simi_mailbox import SimiMailbox, calibrators, decide, metrics, report, scale
from simi_mailbox.calibrators.registry import METHODS
from simi_mailbox.cli.group import cli
from simi_mailbox.crossfit import cross_fitted, cross_fitted_folds
from simi_mailbox.report import sentences
from tests.golden.inputs import NODES, probabilities, sample, write_files, write_shards

QUICK = {"epochs": 8, "patience": 8, "partitions": 2}
SAMPLES = ((4, 0), (2, 1))
"""Classes and seed."""
DEFAULT = ("simi-mailbox", "simi-mailbox-free")
PARTS = ("not used for selection", "hidden", "train_mask", "known")

ENTRIES: dict[str, Callable[[], dict[str, Any]]] = {}


def entry(name, *arguments):
    def decorate(function):
        assert name not in ENTRIES
        ENTRIES[name] = lambda: function(*arguments)
        return function

    return decorate


# --- calibrators ---------------------------------------------------------------------------------


def quick(name):
    cls = calibrators.get(name)
    known = cls().get_params()
    # Which experts of GETS a node gets is a matter of last bits after some epochs.
    chosen = {**QUICK, "epochs": 2} if name == "gets" else QUICK
    return cls(**{key: chosen[key] for key in chosen if key in known})


def inputs(cal, given):
    offered = {"graph": given.graph, "features": given.features, "forward": given.forward}
    return {key: offered[key] for key in cal.required_inputs}


def calibrated(name, classes, seed):
    given, cal = sample(classes, seed), quick(name)
    needed = inputs(cal, given)
    masks = {"mask": given.mask, "early_stopping_mask": given.early_stopping}
    cal.fit(given.logits, given.y, **masks, **needed)
    found = {"probs": cal.predict_proba(given.logits, **needed)}
    found["score"] = cal.score(given.logits, given.y, mask=given.test, **needed)
    for attribute in ("temperature_", "temperatures_", "groups_", "best_epoch_"):
        if hasattr(cal, attribute):
            found[attribute] = getattr(cal, attribute)
    with tempfile.TemporaryDirectory() as folder:
        cal.save(f"{folder}/cal.safetensors")
        again = simi_mailbox.load(f"{folder}/cal.safetensors")
    found["probs of the saved one"] = again.predict_proba(given.logits, **needed)
    return found


for _name in METHODS:
    for _classes, _seed in SAMPLES:
        entry(f"{_name}, {_classes} classes", _name, _classes, _seed)(calibrated)


@entry("temperature, kinds of input")
def kinds_of_input():
    given, p, found = sample(4, 0), probabilities(4, 0), {}
    for kind, values in {"probabilities": p, "log-probabilities": np.log(p)}.items():
        cal = quick("temperature").fit(values, given.y, mask=given.mask, input_type=kind)
        found[kind] = cal.predict_proba(values)
    masked = given.logits.copy()
    seen = given.mask[given.y[given.mask] != 2]
    masked[:, 2] = -np.inf
    some = quick("temperature").fit(masked, given.y, mask=seen)
    return {**found, "an impossible class": some.predict_proba(masked)}


def default_given(name, with_, classes, seed):
    given, cal = sample(classes, seed), quick(name)
    both: dict[str, Any] = {"graph": given.graph}
    if "hidden" in with_:
        both["hidden"] = given.hidden
    train = {"train_mask": given.train} if "train_mask" in with_ else {}
    selected = "not used for selection" not in with_
    masks = {"mask": given.mask, "used_for_selection": selected, **train}
    cal.fit(given.logits, given.y, **masks, **both)
    found = {"probs": cal.predict_proba(given.logits, **train, **both)}
    if "known" in with_:
        late = given.test[:40]
        known = (late, given.y[late])
        found["known"] = cal.predict_proba(given.logits, known=known, **train, **both)
        part = np.arange(0, NODES, 2)
        both["graph"] = subgraph(given.edges, part)
        if "hidden" in both:
            both["hidden"] = given.hidden[part]
        found["part"] = cal.predict_proba(given.logits[part], node_ids=part, **both)
    return found


def subgraph(edges, part):
    """The subgraph of some nodes."""
    place = np.full(NODES, -1)
    place[part] = np.arange(len(part))
    inside = place[edges]
    return simi_mailbox.Graph.from_edges(inside[:, (inside >= 0).all(axis=0)], len(part))


for _name in DEFAULT:
    for _with in (*PARTS, "hidden + train_mask + known"):
        for _classes, _seed in SAMPLES:
            _given = (_name, _with, _classes, _seed)
            entry(f"{_name}, {_classes} classes, {_with}", *_given)(default_given)


@entry("simi-mailbox, parameters")
def default_parameters():
    given, found = sample(4, 0), {}
    for params in ({"prior": None}, {"n_groups": 5}, {"n_groups": 1}, {"scaling": "standard"}):
        cal = SimiMailbox(**params).fit(given.logits, given.y, graph=given.graph, mask=given.mask)
        found[str(params)] = cal.predict_proba(given.logits, graph=given.graph)
    return found


@entry("crossfit")
def crossfit():
    given = sample(4, 0)
    passed = (quick("temperature"), given.logits, given.y)
    pieces = list(cross_fitted_folds(*passed, mask=given.mask, folds=3, seed=1))
    return {
        "cross_fitted": cross_fitted(*passed, mask=given.mask, folds=3, seed=1),
        **{f"nodes {k}": nodes for k, (nodes, _) in enumerate(pieces)},
        **{f"probs {k}": probs for k, (_, probs) in enumerate(pieces)},
    }


@entry("select")
def select():
    given = sample(4, 0)
    methods = ["uncalibrated", "temperature", "isotonic"]
    choice = simi_mailbox.select(
        given.logits, given.y, mask=given.mask, methods=methods, default="uncalibrated", seed=1
    )
    rows = [[row.nll, row.difference, row.error] for row in choice.evidence]
    return {"name": choice.name, "rows": np.array(rows), "names": [r.name for r in choice.evidence]}


# --- decisions -----------------------------------------------------------------------------------


def sets(score, condition_on, used_for_selection, classes, seed):
    given, p = sample(classes, seed), probabilities(classes, seed)
    more = {"graph": given.graph, "features": given.features}
    rule = decide.PredictionSets(coverage=0.8, score=score, condition_on=condition_on, groups=2)
    rule.fit(p, given.y, mask=given.mask, used_for_selection=used_for_selection, **more)
    return {"sets": rule.predict_sets(p, **more), "thresholds": rule.thresholds_}


for _classes, _seed in SAMPLES:
    for _score in ("lac", "aps", "raps", "daps", "snaps"):
        entry(f"sets, {_classes} classes, {_score}", _score, None, False, _classes, _seed)(sets)
    for _on in ("class", "degree", "mailbox"):
        entry(f"sets, {_classes} classes, by {_on}", "aps", _on, False, _classes, _seed)(sets)
    _given = ("aps", None, True, _classes, _seed)
    entry(f"simi-mailbox prior, sets, {_classes} classes", *_given)(sets)


def accept(used_for_selection):
    found: dict[str, Any] = {}
    for classes, seed in SAMPLES:
        given, p = sample(classes, seed), probabilities(classes, seed)
        rule = decide.Accept(max_error=0.2, confidence=0.8)
        rule.fit(p, given.y, mask=given.mask, used_for_selection=used_for_selection)
        found[f"accepted, {classes} classes"] = rule.accepts(p)
        found[f"threshold, {classes} classes"] = rule.threshold_
    return found


entry("accept", False)(accept)
entry("simi-mailbox prior, accept", True)(accept)


@entry("costs")
def costs():
    found: dict[str, Any] = {}
    for classes, seed in SAMPLES:
        given, p = sample(classes, seed), probabilities(classes, seed)
        matrix = np.random.default_rng(0).uniform(1, 5, size=(classes, classes))
        np.fill_diagonal(matrix, 0.0)
        for name, rule in {
            "matrix": decide.Costs(wrong=matrix, defer=0.7),
            "reject": decide.Costs(wrong=4.0, defer=1.0, reject=1.1, compared_with="accept"),
        }.items():
            rule.fit(p, given.y, mask=given.mask)
            found[f"{name} {classes}"] = rule.actions(p)
            found[f"{name} {classes} saving"] = [rule.saving_, *rule.saving_interval_]
    return found


# --- metrics -------------------------------------------------------------------------------------


@entry("metrics")
def measured():
    found: dict[str, Any] = {}
    for classes, seed in SAMPLES:
        given, p = sample(classes, seed), probabilities(classes, seed)
        values = metrics.evaluate(p, given.y)
        for name in ("edgewise_ece", "edgewise_nll", "edgewise_brier"):
            values[name] = getattr(metrics, name)(p, given.y, given.edges)
        for name in ("aurc", "excess_aurc"):
            values[name] = getattr(metrics, name)(p, given.y)
        values["error_at_share"] = metrics.error_at_share(p, given.y, 0.5)
        floor = metrics.noise_floor(p, seed=0)
        interval = metrics.bootstrap_interval(metrics.ece, p, given.y, seed=0)
        values |= {"floor": floor.mean, "floor std": floor.std}
        values |= {"low": interval.low, "high": interval.high}
        found |= {f"{name}, {classes} classes": value for name, value in values.items()}
    return found


# --- scale ---------------------------------------------------------------------------------------


def of_shards(out):
    return {
        part: np.concatenate([np.load(file) for file in sorted((out / part).iterdir())])
        for part in ("probabilities", "groups")
    }


def scaled(engine, keep_classes):
    given = sample(4, 0)
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name) / "in", Path(name) / "out"
        write_shards(folder, given)
        cal = SimiMailbox(keep_classes=keep_classes)
        scale.calibrate(folder, out, engine=engine, calibrator=cal)
        found = of_shards(out)
        late = given.test[:40]
        known = (late, given.y[late])
        again = Path(name) / "again"
        scale.apply(out / "calibrator.safetensors", folder, again, engine=engine, known=known)
        found |= {f"{part} of apply": array for part, array in of_shards(again).items()}
    return found


for _engine in ("memory", "disk"):
    for _keep in (True, False):
        _mode = "" if _keep else ", free"
        entry(f"simi-mailbox scale, {_engine}{_mode}", _engine, _keep)(scaled)


# --- commands ------------------------------------------------------------------------------------


def numbers(value):
    """All numbers of a JSON value in its order: keys may be renamed, figures may not change."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def in_text(lines):
    """All numbers of some sentences, in their order."""
    found = re.findall(r"-?\d[\d,]*\.?\d*", " ".join(lines))
    return [float(text.replace(",", "").rstrip(".")) for text in found]


def run(line):
    result = CliRunner().invoke(cli, [*line.split(), "--json"])
    assert result.exit_code == 0, result.output
    return list(numbers(json.loads(result.stdout)))


def written(path):
    """The numbers of a table that a command wrote."""
    return np.genfromtxt(path, delimiter=",", skip_header=1)[:, 1:]


def commands(method, classes, seed):
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(sample(classes, seed))
        given = "--edges edges.csv --labels labels.csv --calibration mask.csv"
        fitted, test = f"logits.csv {given} --method {method}", "--test test.csv"
        found["calibrate"] = run(f"calibrate {fitted} --out probs.csv")
        found["calibrate, file"] = written("probs.csv")
        found["fit"] = run(f"fit {fitted} --out cal.safetensors")
        found["apply"] = run("apply cal.safetensors logits.csv --edges edges.csv --out again.csv")
        found["apply, file"] = written("again.csv")
        found["evaluate"] = run(f"evaluate probs.csv --labels labels.csv {test}")
        # Other scores draw from last bits, which differ from processor to processor.
        rule = "--max-error 0.2 --confidence 0.8 --not-used-for-selection --score lac"
        found["decide"] = run(f"decide probs.csv {given} {test} {rule} --out decisions.csv")
        found["decide, file"] = written("decisions.csv")
        compared = f"compare logits.csv {given} --methods uncalibrated,{method}"
        found["compare"] = run(f"{compared} {test}")
        found["compare, cross-fitted"] = run(compared)
    return found


for _method in ("temperature", *DEFAULT):
    for _classes, _seed in SAMPLES:
        _given = (_method, _classes, _seed)
        entry(f"{_method}, commands, {_classes} classes", *_given)(commands)


# --- report --------------------------------------------------------------------------------------


@entry("report")
def reported():
    given = sample(4, 0)
    sets = {"calibration": given.mask, "test": given.test, "train": given.train}
    read = report.read_inputs(given.logits, given.graph, given.y, **sets)
    content = report.gather(read, ["temperature"], title="Frozen", used_for_selection=False)
    found: dict[str, Any] = {}
    for view in content.views:
        assert view.scores is not None
        scores = view.scores
        found[f"{view.name}, scores"] = [
            *scores.values.values(),
            *(scores.ece.low, scores.ece.high, scores.nll.low, scores.nll.high),
            *(scores.floor.mean, scores.floor.std),
            view.changed,
        ]
        found[f"{view.name}, histogram"] = view.histogram
        told = [sentences.standing(view), sentences.direction(view), *sentences.examples(view)]
        told += [*sentences.corners(view), *sentences.worst_groups(view)]
        told += [sentences.accepted(step) for step in view.decisions.acceptances]
        found[f"{view.name}, sentences"] = in_text(told)
    found["change"] = in_text([sentences.change(*content.views)])
    found["verdict"] = in_text(text for text, _ in sentences.verdict(content))
    return found


# --- digests -------------------------------------------------------------------------------------


def computed(name):
    """An entry as it is stored: names of values, and a few numbers of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {key: digest(value) for key, value in ENTRIES[name]().items()}


def digest(value):
    """Texts as they are; of numbers the shape, sums with fixed random signs, and the first six."""
    if isinstance(value, str) or (isinstance(value, list) and isinstance(value[0], str)):
        return value
    array = np.asarray(value, dtype=np.float64)
    flat = np.nan_to_num(array.ravel(), nan=-999.0, posinf=9999.0, neginf=-9999.0)
    signs = np.random.default_rng(7).choice([-1.0, 1.0], size=(6, flat.size))
    shown = [*flat[:6], flat.sum(), *(signs @ flat)]
    return {"shape": list(array.shape), "values": [round(float(x), 5) for x in shown]}
