"""Checks about what a method says of itself, what it reads and gives, and its surroundings."""

import tempfile
import typing
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from simi_mailbox import audit, calibrators
from simi_mailbox.calibrators import TemperatureCalibrator, registry
from simi_mailbox.exceptions import CalibrationWarning, NotFittedError
from simi_mailbox.testing.cases import (
    PROBLEM,
    Case,
    CheckProblem,
    check,
    probabilities,
    raises,
    require,
    same,
    without_warnings,
)

DECLARED = {
    "required_inputs": {"graph", "features", "forward"},
    "optional_inputs": {"hidden", "known", "sample_weight", "used_for_selection"},
}
FLAT = replace(PROBLEM, logits=np.zeros_like(PROBLEM.logits))
ORDER = np.random.default_rng(1).permutation(len(PROBLEM.y))


@check(
    "says what it is",
    "set the attributes name, required_inputs, holdout and version as `help(Calibrator)` explains; "
    "give every parameter a default, and annotate nothing else under `@hyperparameters`",
)
def _declaration(case: Case) -> None:
    cls = case.cls
    cls()
    require(isinstance(cls.name, str) and cls.name.strip(), "it has no name")
    if cls.name in calibrators.names():
        holder = calibrators.get(cls.name)
        require(holder is cls, f"the name {cls.name!r} belongs to {holder.__name__}")
    for attribute, known in DECLARED.items():
        require(getattr(cls, attribute) <= known, f"{attribute}: known are {sorted(known)}")
    require(cls.holdout in ("training", "separate", None), f"holdout is {cls.holdout!r}")
    whole = isinstance(cls.version, int) and cls.version >= 1
    require(whole, f"version is {cls.version!r}, expected a whole number ≥ 1")


@check(
    "rows are probabilities, also on another graph",
    "return a tensor [n, K] of `_predict` whose rows sum to one; keep nothing of the length of the "
    "graph for prediction: store what was learned, not where",
)
def _rows(case: Case) -> None:
    for problem in (PROBLEM, CheckProblem.random(n=37, seed=5)):
        probabilities(case.predict(case.fitted, problem), problem)


@check(
    "no label outside the masks is read",
    "take labels from `data.calibration`, `data.holdout` and `data.trained` only, and do not "
    "override `fit`",
)
def _audit(case: Case) -> None:
    given: dict[str, Any] = {"mask": PROBLEM.mask, **case.masks(PROBLEM), **case.inputs(PROBLEM)}
    for known in (None, (np.array([3, 7]), np.array([1, 0])))[: 1 + case.knows]:
        outcome = audit.reads_only(case.make(), PROBLEM.logits, PROBLEM.y, **given, known=known)
        require(outcome, outcome.detail)


@check(
    "no node sees its own label",
    "leave a node's own label out of what its neighbours, near and far, say of it",
)
def _own_label(case: Case) -> None:
    if not case.knows:
        return
    other = CheckProblem.random(n=89, seed=6)  # another graph: all labels come by known=
    nodes = np.concatenate([other.mask, other.holdout])
    for train in (None, other.holdout):
        probs = case.predict(case.fitted, other, known=(nodes, other.y[nodes]), train_mask=train)
        for node in nodes[::7]:
            changed = np.where(nodes == node, (other.y[nodes] + 1) % 4, other.y[nodes])
            found = case.predict(case.fitted, other, known=(nodes, changed), train_mask=train)
            same(found[node], probs[node], 1e-9)


@check("labels of the mask are enough", "do not ask for labels of other nodes than the mask's")
def _short_labels(case: Case) -> None:
    short = case.refit(case.make(), PROBLEM, y=PROBLEM.y[PROBLEM.mask])
    same(case.predict(short, PROBLEM), case.refitted(PROBLEM, holdout=False))


@check(
    "same seed, same bits",
    "draw from a generator made of a `seed` parameter in `_fit`, and from no global one",
)
def _seed(case: Case) -> None:
    expected = case.predict(case.fitted, PROBLEM)
    same(case.refitted(PROBLEM), expected)
    same(case.predict(case.fitted, PROBLEM), expected)


@check(
    "prediction follows a renaming of nodes",
    "compute a node's probabilities from its own values and its neighbours', not from its number",
)
def _renamed_prediction(case: Case) -> None:
    # On a graph with other names, only the caller knows labels, and what the GNN was trained on.
    renamed = PROBLEM.permuted(ORDER)
    given: dict[str, Any] = {"train_mask": renamed.holdout}
    if case.knows:
        nodes = np.concatenate([renamed.mask, renamed.holdout])
        given["known"] = nodes, renamed.y[nodes]
    found = case.predict(case.fitted, renamed, **given)
    same(found, case.predict(case.fitted, PROBLEM)[ORDER], 1e-9)


@check(
    "fit follows a renaming of nodes",
    "what is learned must not depend on the order of nodes (noise drawn node by node belongs to "
    "parameters `dropout` or `noise`, which are set to zero here)",
)
def _renamed_fit(case: Case) -> None:
    noise = {"dropout", "noise"} & set(case.make().get_params())
    quiet: dict[str, Any] = dict.fromkeys(noise, 0.0)
    found = case.refitted(PROBLEM.permuted(ORDER), **quiet)
    same(found, case.refitted(PROBLEM, **quiet)[ORDER], 1e-5)


@check(
    "order and direction of edges do not matter",
    "read edges from `data.graph`, which sorts them, makes them mutual and drops doubles",
)
def _edges(case: Case) -> None:
    rng = np.random.default_rng(2)
    shuffled = rng.permutation(PROBLEM.edges, axis=1)
    turned = np.where(rng.random(shuffled.shape[1]) < 0.5, shuffled, shuffled[::-1])
    other = replace(PROBLEM, edges=np.concatenate([turned, turned[:, :7]], axis=1))
    same(case.refitted(other), case.predict(case.fitted, PROBLEM))


@check(
    "odd problems have an answer",
    "fall back to something sane where labels, classes or edges are missing: no NaN, no error",
)
def _odd(case: Case) -> None:
    labelled, predicted, only = PROBLEM.mask, PROBLEM.logits.argmax(1), np.array([0])
    bare = replace(PROBLEM, edges=np.empty((2, 0), dtype=np.int64))
    first = (PROBLEM.logits[:1], PROBLEM.y[:1], bare.edges, PROBLEM.features[:1])
    two_left_out = labelled[PROBLEM.y[labelled] != 2]
    odd = {
        "a class without a calibration label": replace(PROBLEM, mask=two_left_out),
        "one calibration node, of class 0": replace(PROBLEM, mask=only, y=0 * predicted),
        "one calibration node, of class 3": replace(PROBLEM, mask=only, y=0 * predicted + 3),
        "all calibration nodes right": replace(PROBLEM, y=predicted),
        "all calibration nodes wrong": replace(PROBLEM, y=(predicted + 1) % 4),
        "a graph without edges": bare,
        "a graph of one node": CheckProblem(*first, only, only),
        "logits times 1e4": replace(PROBLEM, logits=PROBLEM.logits * 1e4),
        "logits times 1e-4": replace(PROBLEM, logits=PROBLEM.logits * 1e-4),
        "constant logits": FLAT,
    }
    for what, problem in odd.items():
        try:
            probabilities(case.refitted(problem, holdout=len(problem.mask) > 1), problem)
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
    for problem in (bare, FLAT):
        probabilities(case.predict(case.fitted, problem), problem)


@check(
    "output is of the kind of the input",
    "compute with torch in the type of `data.logits`, and leave the rest to `predict_proba`",
)
def _kinds(case: Case) -> None:
    for given, wide in (("float16", "float32"), ("float32", "float32"), ("float64", "float64")):
        array = replace(PROBLEM, logits=PROBLEM.logits.astype(given))
        found = [case.refitted(array)]
        found.append(case.refitted(replace(array, logits=torch.from_numpy(array.logits))))
        kinds = [f"{type(probs).__name__} of {probs.dtype}" for probs in found]
        expected = [f"ndarray of {wide}", f"Tensor of torch.{wide}"]
        require(kinds == expected, f"{given} gives {kinds}, expected {expected}")
        same(*found)
        probabilities(found[0], array, 1e-9 if wide == "float64" else 1e-6)


@check(
    "an offset of logits does not matter, or it says so",
    "set `shift_invariant = False` (log-probabilities then give a warning), or take each row's "
    "largest logit off first",
)
def _offset(case: Case) -> None:
    moved = replace(PROBLEM, logits=log_softmax(PROBLEM.logits, axis=1))
    if case.cls.shift_invariant:
        same(case.refitted(moved), case.predict(case.fitted, PROBLEM), 1e-5)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CalibrationWarning)
        case.make().fit(moved.logits, moved.y, mask=moved.mask, **case.inputs(moved))
    words = "log-probabilities"
    require(any(words in str(line.message) for line in told), f"no warning of {words}")


@check(
    "predicted classes stay where that is guaranteed",
    "set `keep_classes = False`, or keep the largest logit's class on top",
)
def _classes(case: Case) -> None:
    if not case.make().keep_classes:
        return
    near = PROBLEM.logits.astype(np.float32)
    near[:20] = np.random.default_rng(3).normal(size=(20, 1))  # ties
    near[20:40, 1:] = np.nextafter(near[20:40, :1], np.float32(-np.inf))  # and almost ties
    for logits in (PROBLEM.logits, near, PROBLEM.logits * 1e3):
        problem = replace(PROBLEM, logits=logits)
        for cal in (case.fitted, case.fit(problem)):
            found = torch.as_tensor(case.predict(cal, problem)).argmax(dim=1)
            moved = int((found != torch.as_tensor(logits).argmax(dim=1)).sum())
            require(not moved, f"{moved} of {len(found)} predicted classes changed")


@check(
    "temperatures say what the probabilities are",
    "derive from TemperatureCalibrator and give `_temperatures`, or from Calibrator and have no "
    "`node_temperatures`",
)
def _temperatures(case: Case) -> None:
    cal = case.fitted
    if not isinstance(cal, TemperatureCalibrator):
        told = "it has temperatures, but is of no such kind"
        require(not hasattr(cal, "node_temperatures"), told)
        return
    for problem in (PROBLEM, FLAT):
        temperatures = cal.node_temperatures(problem.logits, **case.inputs(problem))
        require((temperatures > 0).all(), f"a temperature is {temperatures.min():.3g}")
        expected = softmax(problem.logits / temperatures[:, None], axis=1)
        np.testing.assert_allclose(case.predict(cal, problem), expected, rtol=1e-9, atol=1e-12)


@check("inputs are left alone", "copy before you write into an array that was given")
def _untouched(case: Case) -> None:
    own = CheckProblem.random()
    for array in (own.logits, own.y, own.features, own.mask):
        array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        found = case.refitted(own)
    same(found, case.predict(case.fitted, PROBLEM))
    same(own.logits, CheckProblem.random().logits)


@check(
    "saved and loaded gives the same bits",
    "end the names of all fitted values in an underscore; keep arrays, numbers and text in them",
)
def _files(case: Case) -> None:
    cal, name = case.fitted, case.cls.name
    unknown = name not in calibrators.names()
    if unknown:  # files of a method that nobody has registered can be read here
        registry.plug_in(case.cls)
    try:
        with tempfile.TemporaryDirectory() as folder:
            cal.save(Path(folder, "cal.safetensors"))
            again = calibrators.load(Path(folder, "cal.safetensors"))
    finally:
        if unknown:
            registry.forget(name)
    require(type(again) is type(cal), f"a {type(again).__name__} came back")
    require(again.get_params() == cal.get_params(), "parameters came back changed")
    same(case.predict(again, PROBLEM), case.predict(cal, PROBLEM))


@check(
    "nothing is predicted or saved without a fit that ended",
    "end the names of fitted values in an underscore, and leave `fit`, `predict_proba` and `save` "
    "as the base class has them",
)
def _unfitted(case: Case) -> None:
    original, failing = case.cls._fit, False

    def late_failure(self: Any, data: Any) -> None:
        original(self, data)
        if failing:
            raise RuntimeError("after all values were set")

    cls: Any = type(case.cls.__name__, (case.cls,), {"_fit": late_failure})
    failed = Case(cls, **case.params).fit(PROBLEM)
    failing = True
    with raises(RuntimeError, "after all", "a fit that fails late"):
        case.refit(failed, PROBLEM)
    left = [key for key in vars(failed) if key.endswith("_")]
    require(not left, f"{', '.join(left)} stayed after a fit that failed")
    for cal in (case.make(), failed):
        with raises(NotFittedError, "fit", "predict_proba without fit"):
            case.predict(cal, PROBLEM)
        with tempfile.TemporaryDirectory() as folder:
            with raises(NotFittedError, "fit", "save without fit"):
                cal.save(Path(folder, "cal.safetensors"))
            require(not any(Path(folder).iterdir()), "save without fit left a file")


@check(
    "parameters are stored untouched",
    "declare them under `@hyperparameters` (simi_mailbox.parameters), and change none in `_fit`",
)
def _parameters(case: Case) -> None:
    cal, params, plain = case.fit(PROBLEM), case.make().get_params(), case.cls()
    require(cal.get_params() == params, "fit changed a parameter")
    copied = clone(cal)
    require(copied.get_params() == params, "clone changed a parameter")
    require(not hasattr(copied, "num_classes_"), "clone is fitted")
    require(repr(plain) == f"{case.cls.__name__}()", f"repr is {plain!r} without arguments")
    for key, value in params.items():
        if value != plain.get_params()[key]:
            require(f"{key}={value!r}" in repr(cal), f"repr does not tell {key}: {cal!r}")


@check(
    "each parameter refuses what it is not",
    "declare what it may be under `@hyperparameters`: `epochs: Count = 100` (simi_mailbox."
    "parameters has Count, Positive, Share, …)",
)
def _wrong_parameters(case: Case) -> None:
    hints = typing.get_type_hints(case.cls, include_extras=True)
    for key, default in case.make().get_params().items():
        require(key in hints, f"nothing is declared about {key}")
        kinds = _kinds_of(hints[key]) | {type(default)}
        if Any in kinds:
            continue
        others: list[Any] = [value for value in ("5", True) if type(value) not in kinds]
        for value in [object(), np.nan, np.inf, *others]:
            with raises(ValueError, f"{key} must be ", f"fit with {key}={value!r}"):
                case.fit(PROBLEM, **{key: value})


def _kinds_of(hint: Any) -> set[Any]:
    """Types that a declaration is put together from."""
    parts = {hint} if isinstance(hint, type) or hint is Any else set()
    return parts.union(*(_kinds_of(part) for part in typing.get_args(hint)))


@check(
    "missing inputs are named, and other classes refused",
    "list in `required_inputs` all that `_fit` and `_predict` use, and leave `predict_proba` as "
    "the base class has it",
)
def _wrong_inputs(case: Case) -> None:
    for name in case.cls.required_inputs:
        given = case.inputs(PROBLEM)
        del given[name]
        with raises(TypeError, name, f"fit without {name}"):
            case.make().fit(PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **given)
        with raises(TypeError, name, f"predict_proba without {name}"):
            case.fitted.predict_proba(PROBLEM.logits, **given)
    with raises(ValueError, "3 classes", "predict_proba with three classes for four"):
        case.predict(case.fitted, replace(PROBLEM, logits=PROBLEM.logits[:, :3]))


@check(
    "probabilities are read as their logarithms",
    "use `data.logits` alone, and leave `fit` and `predict_proba` as the base class has them",
)
def _input_kinds(case: Case) -> None:
    probs = softmax(PROBLEM.logits, axis=1)
    logs = replace(PROBLEM, logits=np.log(probs))
    inputs, expected = case.inputs(logs), case.refitted(logs)
    for kind, values in (("probabilities", probs), ("log-probabilities", logs.logits)):
        given = {"input_type": kind, **case.masks(logs), **inputs}
        cal = case.refit(case.make(), replace(logs, logits=values), **given)
        same(case.predict(cal, logs, input_type="logits"), expected, 1e-9)
        with without_warnings():
            same(cal.predict_proba(values, **inputs), expected, 1e-9)
    with raises(ValueError, 'input_type="probabilities"', "fit on probabilities as if logits"):
        case.fit(replace(PROBLEM, logits=probs))
