"""Checks about what a method says of itself, what it reads, and the probabilities it gives."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from simi_mailbox import audit, calibrators
from simi_mailbox.calibrators import TemperatureCalibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.testing.cases import PROBLEM, Case, CheckProblem
from simi_mailbox.testing.checks import Checks, fits, probabilities, require, same

CHECKS = Checks()

INPUTS = frozenset({"graph", "features", "forward"})
TAKEN = frozenset({"hidden", "known", "sample_weight", "used_for_selection"})


@CHECKS.check(
    "says what it is",
    "set the attributes name, required_inputs, holdout and version as `help(Calibrator)` explains; "
    "give every parameter a default, and annotate nothing else under `@hyperparameters`",
)
def _declaration(case: Case) -> None:
    cls = case.cls
    try:
        cls()
    except TypeError as error:
        raise AssertionError(f"it cannot be made without arguments: {error}") from error
    require(isinstance(cls.name, str) and cls.name.strip(), "it has no name")
    if cls.name in calibrators.names():
        holder = calibrators.get(cls.name)
        require(holder is cls, f"the name {cls.name!r} belongs to {holder.__name__}")
    require(cls.required_inputs <= INPUTS, f"required_inputs: known are {sorted(INPUTS)}")
    require(cls.optional_inputs <= TAKEN, f"optional_inputs: known are {sorted(TAKEN)}")
    require(cls.holdout in ("training", "separate", None), f"holdout is {cls.holdout!r}")
    whole = isinstance(cls.version, int) and cls.version >= 1
    require(whole, f"version is {cls.version!r}, expected a whole number ≥ 1")


@CHECKS.check(
    "rows are probabilities", "return a tensor [n, K] of `_predict` whose rows sum to one"
)
def _rows(case: Case) -> None:
    probabilities(case.predict(case.fitted, PROBLEM), PROBLEM.shape)


@CHECKS.check(
    "no label outside the masks is read",
    "take labels from `data.calibration`, `data.holdout` and `data.trained` only, and do not "
    "override `fit`",
)
def _audit(case: Case) -> None:
    later: dict[str, Any] = {"known": (np.array([3, 7]), np.array([1, 0]))} if case.knows else {}
    for more in ({}, later) if later else ({},):
        outcome = audit.reads_only(
            case.make(),
            PROBLEM.logits,
            PROBLEM.y,
            mask=PROBLEM.mask,
            early_stopping_mask=PROBLEM.holdout,
            train_mask=PROBLEM.holdout if case.knows else None,
            **case.inputs(PROBLEM),
            **more,
        )
        require(outcome, outcome.detail)


@CHECKS.check(
    "no node sees its own label",
    "leave a node's own label out of what its neighbours, near and far, say of it",
)
def _own_label(case: Case) -> None:
    if not case.knows:
        return
    nodes = np.concatenate([PROBLEM.mask, PROBLEM.holdout])
    other = CheckProblem.random(n=89, seed=6)  # another graph: all labels come by known=
    nodes = nodes[nodes < 89]
    for train in (None, other.holdout):
        probs = case.predict(case.fitted, other, known=(nodes, other.y[nodes]), train_mask=train)
        for node in nodes[::7]:
            changed = other.y.copy()
            changed[node] = (changed[node] + 1) % other.shape[1]
            given = {"known": (nodes, changed[nodes]), "train_mask": train}
            found = case.predict(case.fitted, other, **given)
            same(found[[node]], probs[[node]], 1e-9)


@CHECKS.check(
    "labels of the mask are enough", "do not ask for labels of other nodes than the mask's"
)
def _short_labels(case: Case) -> None:
    short = case.refit(case.make(), PROBLEM, y=PROBLEM.y[PROBLEM.mask])
    full = case.fit(PROBLEM, holdout=False)
    same(case.predict(short, PROBLEM), case.predict(full, PROBLEM))


@CHECKS.check(
    "same seed, same bits",
    "draw from a generator made of a `seed` parameter in `_fit`, and from no global one",
)
def _seed(case: Case) -> None:
    same(case.predict(case.fit(PROBLEM), PROBLEM), case.predict(case.fitted, PROBLEM))
    same(case.predict(case.fitted, PROBLEM), case.predict(case.fitted, PROBLEM))


@CHECKS.check(
    "prediction follows a renaming of nodes",
    "compute a node's probabilities from its own values and its neighbours', not from its number",
)
def _renamed_prediction(case: Case) -> None:
    order = np.random.default_rng(1).permutation(len(PROBLEM.y))
    expected = case.predict(case.fitted, PROBLEM)[order]
    # On a graph with other names, only the caller knows labels, and what the GNN was trained on.
    renamed = PROBLEM.permuted(order)
    given: dict[str, Any] = {"train_mask": renamed.holdout}
    if case.knows:
        nodes = np.concatenate([renamed.mask, renamed.holdout])
        given["known"] = nodes, renamed.y[nodes]
    same(case.predict(case.fitted, renamed, **given), expected, 1e-9)


@CHECKS.check(
    "fit follows a renaming of nodes",
    "what is learned must not depend on the order of nodes (noise drawn node by node belongs to "
    "parameters `dropout` or `noise`, which are set to zero here)",
)
def _renamed_fit(case: Case) -> None:
    quiet: dict[str, Any] = {
        key: 0.0 for key in ("dropout", "noise") if key in case.make().get_params()
    }
    order = np.random.default_rng(1).permutation(len(PROBLEM.y))
    renamed = PROBLEM.permuted(order)
    expected = case.predict(case.fit(PROBLEM, **quiet), PROBLEM)[order]
    same(case.predict(case.fit(renamed, **quiet), renamed), expected, 1e-5)


@CHECKS.check(
    "order and direction of edges do not matter",
    "read edges from `data.graph`, which sorts them, makes them mutual and drops doubles",
)
def _edges(case: Case) -> None:
    rng = np.random.default_rng(2)
    shuffled = PROBLEM.edges[:, rng.permutation(PROBLEM.edges.shape[1])]
    turned = np.where(rng.random(shuffled.shape[1]) < 0.5, shuffled, shuffled[::-1])
    other = replace(PROBLEM, edges=np.concatenate([turned, turned[:, :7]], axis=1))
    same(case.predict(case.fit(other), other), case.predict(case.fitted, PROBLEM))


@CHECKS.check(
    "nodes and graphs not seen before",
    "keep nothing of the length of the graph for prediction; store what was learned, not where",
)
def _unseen(case: Case) -> None:
    other = CheckProblem.random(n=37, seed=5)
    probabilities(case.predict(case.fitted, other), other.shape)


@CHECKS.check(
    "odd problems have an answer",
    "fall back to something sane where labels, classes or edges are missing: no NaN, no error",
)
def _odd(case: Case) -> None:
    without = PROBLEM.mask[PROBLEM.y[PROBLEM.mask] != 2]
    fits(case, replace(PROBLEM, mask=without), "a class without a calibration label")
    for label in (0, 3):
        alone = replace(PROBLEM, mask=np.array([0]), y=np.full(len(PROBLEM.y), label))
        fits(case, alone, f"one calibration node, of class {label}", holdout=False)
    for shift, what in ((0, "right"), (1, "wrong")):
        y = (PROBLEM.logits.argmax(1) + shift) % PROBLEM.shape[1]
        fits(case, replace(PROBLEM, y=y), f"all calibration nodes {what}")
    bare = replace(PROBLEM, edges=np.empty((2, 0), dtype=np.int64))
    fits(case, bare, "a graph without edges")
    probabilities(case.predict(case.fitted, bare), bare.shape)
    only = np.array([0])
    first = (PROBLEM.logits[:1], PROBLEM.y[:1], bare.edges, PROBLEM.features[:1])
    fits(case, CheckProblem(*first, only, only), "a graph of one node", holdout=False)
    for size in (1e4, 1e-4):
        fits(case, replace(PROBLEM, logits=PROBLEM.logits * size), f"logits times {size:g}")


@CHECKS.check(
    "constant logits have an answer",
    "where logits say nothing, give finite rows; a temperature then changes nothing",
)
def _constant(case: Case) -> None:
    flat = replace(PROBLEM, logits=np.zeros_like(PROBLEM.logits))
    for cal in (case.fit(flat), case.fitted):
        probs = case.predict(cal, flat)
        probabilities(probs, flat.shape)
        if isinstance(cal, TemperatureCalibrator):
            same(probs, np.full(flat.shape, 1 / flat.shape[1]), 1e-12)


@CHECKS.check(
    "output is of the kind of the input",
    "compute with torch in the type of `data.logits`, and leave the rest to `predict_proba`",
)
def _kinds(case: Case) -> None:
    for given in ("float16", "float32", "float64"):
        wide = "float64" if given == "float64" else "float32"
        array = replace(PROBLEM, logits=PROBLEM.logits.astype(given))
        tensor = replace(array, logits=torch.from_numpy(array.logits))
        from_array = case.predict(case.fit(array), array)
        from_tensor = case.predict(case.fit(tensor), tensor)
        kinds = type(from_array).__name__, type(from_tensor).__name__
        require(kinds == ("ndarray", "Tensor"), f"arrays and tensors give {kinds}")
        types = {str(from_array.dtype), str(from_tensor.dtype).removeprefix("torch.")}
        require(types == {wide}, f"{given} gives {sorted(types)}, expected {wide}")
        same(from_array, from_tensor)
        probabilities(from_array, PROBLEM.shape, 1e-9 if wide == "float64" else 1e-6)


@CHECKS.check(
    "an offset of logits does not matter, or it says so",
    "set `shift_invariant = False` (log-probabilities then give a warning), or take each row's "
    "largest logit off first",
)
def _offset(case: Case) -> None:
    logs = PROBLEM.logits - np.logaddexp.reduce(PROBLEM.logits, axis=1, keepdims=True)
    moved = replace(PROBLEM, logits=logs)
    if case.cls.shift_invariant:
        same(case.predict(case.fit(moved), moved), case.predict(case.fitted, PROBLEM), 1e-5)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CalibrationWarning)
        case.make().fit(logs, moved.y, mask=moved.mask, **case.inputs(moved))
    words = "log-probabilities"
    require(any(words in str(line.message) for line in told), f"no warning of {words}")


@CHECKS.check(
    "predicted classes stay where that is guaranteed",
    "set `keep_classes = False`, or keep the largest logit's class on top",
)
def _classes(case: Case) -> None:
    if not case.make().keep_classes:
        return
    rng = np.random.default_rng(3)
    near = PROBLEM.logits.astype(np.float32)
    near[:20] = rng.normal(size=(20, 1))  # ties
    near[20:40, 1:] = np.nextafter(near[20:40, :1], np.float32(-np.inf))  # and almost ties
    for logits in (PROBLEM.logits, near, PROBLEM.logits * 1e3):
        problem = replace(PROBLEM, logits=logits)
        for cal in (case.fitted, case.fit(problem)):
            found = torch.as_tensor(case.predict(cal, problem)).argmax(dim=1)
            moved = int((found != torch.as_tensor(logits).argmax(dim=1)).sum())
            require(not moved, f"{moved} of {len(found)} predicted classes changed")


@CHECKS.check(
    "temperatures say what the probabilities are",
    "derive from TemperatureCalibrator and give `_temperatures`, or from Calibrator and have no "
    "`node_temperatures`",
)
def _temperatures(case: Case) -> None:
    cal = case.fitted
    if not isinstance(cal, TemperatureCalibrator):
        require(
            not hasattr(cal, "node_temperatures"), "it has temperatures, but is of no such kind"
        )
        return
    temperatures = cal.node_temperatures(PROBLEM.logits, **case.inputs(PROBLEM))
    require((temperatures > 0).all(), f"a temperature is {temperatures.min():.3g}")
    expected = softmax(PROBLEM.logits / temperatures[:, None], axis=1)
    gap = np.abs(case.predict(cal, PROBLEM) - expected)
    told = f"probabilities differ from them by {gap.max():.2g}"
    require((gap <= 1e-12 + 1e-9 * expected).all(), told)
