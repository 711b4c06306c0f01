"""The contract of calibrators: checks that any method is held to, also one from outside.

A check is named as what holds, and its docstring is the remedy where it does not.
"""

from __future__ import annotations

import functools
import inspect
import tempfile
import typing
import unittest
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from simi_mailbox import audit, calibrators
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators import Calibrator, TemperatureCalibrator, registry
from simi_mailbox.exceptions import CalibrationWarning, NotFittedError
from simi_mailbox.graph import Graph

__all__ = ["check_calibrator"]

DECLARED = {
    "required_inputs": {"graph", "features", "forward"},
    "optional_inputs": {"hidden", "known", "sample_weight", "used_for_selection"},
}
SIZES = ((20, 2), (60, 3), (150, 15))  # calibration labels, and classes, of permuted labels
DEVIATIONS = 3.0  # standard deviations of chance that are granted to permuted labels
CHECKS: dict[str, Callable[[Case], None]] = {}  # the whole contract, in the order of its checks
raises = unittest.TestCase().assertRaisesRegex  # require an error of a kind that says some words
quiet = functools.partial(warnings.catch_warnings, action="ignore", category=CalibrationWarning)
"""Without `CalibrationWarning`: problems are odd on purpose."""


def check_calibrator(method: type[Calibrator] | Calibrator, **params: Any) -> None:
    """Hold a calibrator to the whole contract.

    The first check that it breaks is an `AssertionError`, which tells how, and the remedy.

    Parameters
    ----------
    method : class of a Calibrator
        What is checked, or a calibrator with the parameters to check it under.
    **params
        What makes it quick, such as ``epochs=10``: it is fitted some fifty times on 90 nodes.

    Examples
    --------
    >>> from simi_mailbox import TemperatureScaling
    >>> check_calibrator(TemperatureScaling)
    """
    cls: Any = method if isinstance(method, type) else type(method)
    if not issubclass(cls, Calibrator):
        raise TypeError(f"check_calibrator takes a subclass of Calibrator, got {method!r}")
    if not isinstance(method, type):
        params = {**method.get_params(deep=False), **params}
    case = Case(cls, **params)
    for name in CHECKS:
        run_check(case, name)


def run_check(case: Case, name: str) -> None:
    """Hold a method to one check of `CHECKS`."""
    try:
        CHECKS[name](case)
    except Exception as error:
        told = " ".join((str(error) if isinstance(error, AssertionError) else repr(error)).split())
        remedy = " ".join((inspect.getdoc(CHECKS[name]) or "").split())
        raise AssertionError(
            f"{case.cls.__name__} fails the check {name!r}: {told}\nRemedy: {remedy}"
        ) from error


@dataclass(frozen=True)
class CheckProblem:
    """A small graph with everything that any method may need."""

    logits: Any
    y: Array
    edges: Ints
    features: Array
    mask: Ints
    holdout: Ints

    @classmethod
    def random(cls, n: int = 90, seed: int = 0) -> CheckProblem:
        """Overconfident logits on a random graph; its last five nodes have no neighbour."""
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(n, 4)) * 2
        y = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(1)
        edges = rng.integers(0, n - 5, size=(2, 3 * n))
        features = np.concatenate([logits, rng.normal(size=(n, 2))], axis=1).astype(np.float32)
        # Isolated nodes stand in both masks and outside.
        return cls(logits, y, edges, features, np.arange(0, n, 2), np.arange(1, n, 4))

    def inputs(self, needs: frozenset[str]) -> dict[str, Any]:
        """What a method needs besides logits and labels."""
        graph = Graph.from_edges(self.edges, len(self.logits))
        offered = {"graph": graph, "features": self.features, "forward": self._forward(graph)}
        return {key: offered[key] for key in sorted(needs)}

    def permuted(self, order: Ints) -> CheckProblem:
        """The same problem with node ``order[k]`` renamed to ``k``."""
        place = np.argsort(order)
        of_nodes = (self.logits[order], self.y[order], place[self.edges], self.features[order])
        return CheckProblem(*of_nodes, np.sort(place[self.mask]), np.sort(place[self.holdout]))

    def _forward(self, graph: Graph) -> Any:
        """A frozen GNN: each node adds a tenth of what arrives over the weighted edges."""
        z, rows = torch.from_numpy(np.asarray(self.logits).copy()), graph.rows()

        def run(edge_weight: torch.Tensor) -> torch.Tensor:
            received = z[graph.indices] * edge_weight.to(z.dtype).reshape(-1, 1)
            return z + 0.1 * torch.zeros_like(z).index_add(0, rows, received)

        return run


PROBLEM = CheckProblem.random()
FLAT = replace(PROBLEM, logits=np.zeros_like(PROBLEM.logits))
ORDER = np.random.default_rng(1).permutation(len(PROBLEM.y))


class Case:
    """A method on trial: its class, and settings under which it is quick."""

    def __init__(self, cls: type[Calibrator], **params: Any) -> None:
        self.cls, self.params = cls, params
        self.knows = "known" in cls.optional_inputs  # takes known labels as evidence

    def make(self) -> Any:
        return self.cls(**self.params)

    def inputs(self, problem: CheckProblem) -> dict[str, Any]:
        """What the method needs or takes besides logits and labels."""
        hidden = {"hidden": problem.features} if "hidden" in self.cls.optional_inputs else {}
        return {**problem.inputs(self.cls.required_inputs), **hidden}

    def masks(self, problem: CheckProblem) -> dict[str, Any]:
        """Further labelled nodes, under the names by which the method takes them."""
        trained = {"train_mask": problem.holdout} if self.knows else {}
        return {"early_stopping_mask": problem.holdout, **trained}

    def fit(self, problem: CheckProblem, *, holdout: bool = True, **changes: Any) -> Any:
        given = self.masks(problem) if holdout else {}
        return self.refit(self.make().set_params(**changes), problem, **given)

    def refit(self, cal: Any, problem: CheckProblem, **given: Any) -> Any:
        """The calibrator ``cal``, fitted on a problem with ``given`` arguments of ``fit``."""
        given = {"y": problem.y, "mask": problem.mask, **self.inputs(problem), **given}
        with quiet():
            return cal.fit(problem.logits, given.pop("y"), **given)

    @functools.cached_property
    def fitted(self) -> Any:
        """The method fitted on `PROBLEM`, once for all checks that only look at it."""
        return self.fit(PROBLEM)

    def predict(self, cal: Any, problem: CheckProblem, **more: Any) -> Any:
        with quiet():
            return cal.predict_proba(problem.logits, **self.inputs(problem), **more)

    def refitted(self, problem: CheckProblem, **changes: Any) -> Any:
        """Probabilities of the nodes that the method is fitted on."""
        return self.predict(self.fit(problem, **changes), problem)


def require(holds: Any, told: str) -> None:
    """``assert``, which `python -O` does not take out."""
    if not holds:
        raise AssertionError(told)


def same(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    arrays = np.asarray(found), np.asarray(expected)
    np.testing.assert_allclose(*arrays, 0.0, tolerance, equal_nan=False, verbose=False)


def probabilities(found: Any, problem: CheckProblem, tolerance: float = 1e-9) -> None:
    """Require rows that sum to one, a row for each node."""
    probs, shape = np.asarray(found), tuple(problem.logits.shape)
    require(probs.shape == shape, f"shape {probs.shape}, expected {shape}")
    require((probs >= 0).all(), f"a probability is {probs.min():.3g}")
    gap = float(np.abs(probs.sum(axis=1) - 1).max())
    require(gap <= tolerance, f"a row sums to one only within {gap:.2g}")


def check(holds: Callable[[Case], None]) -> Callable[[Case], None]:
    """Make a function, which raises `AssertionError` where a method breaks it, a check."""
    CHECKS[holds.__name__.replace("_", " ")] = holds
    return holds


@check
def it_says_what_it_is(case: Case) -> None:
    """Set the attributes name, required_inputs, holdout and version as `help(Calibrator)` explains;
    give every parameter a default, and annotate nothing else under `@hyperparameters`."""
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


@check
def rows_are_probabilities_also_on_another_graph(case: Case) -> None:
    """Return a tensor [n, K] of `_predict` whose rows sum to one; keep nothing of the length of the
    graph for prediction: store what was learned, not where."""
    for problem in (PROBLEM, CheckProblem.random(n=37, seed=5)):
        probabilities(case.predict(case.fitted, problem), problem)


@check
def no_label_outside_the_masks_is_read(case: Case) -> None:
    """Take labels from `data.calibration` and `data.holdout` only, and do not override `fit`."""
    given: dict[str, Any] = {"mask": PROBLEM.mask, **case.masks(PROBLEM), **case.inputs(PROBLEM)}
    for known in (None, (np.array([3, 7]), np.array([1, 0])))[: 1 + case.knows]:
        outcome = audit.reads_only(case.make(), PROBLEM.logits, PROBLEM.y, **given, known=known)
        require(outcome, outcome.detail)


@check
def no_node_sees_its_own_label(case: Case) -> None:
    """Leave a node's own label out of what its neighbours, near and far, say of it."""
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


@check
def labels_of_the_mask_are_enough(case: Case) -> None:
    """Do not ask for labels of other nodes than the mask's."""
    short = case.refit(case.make(), PROBLEM, y=PROBLEM.y[PROBLEM.mask])
    same(case.predict(short, PROBLEM), case.refitted(PROBLEM, holdout=False))


@check
def same_seed_gives_the_same_bits(case: Case) -> None:
    """Draw from a generator made of a `seed` parameter in `_fit`, and from no global one."""
    expected = case.predict(case.fitted, PROBLEM)
    same(case.refitted(PROBLEM), expected)
    same(case.predict(case.fitted, PROBLEM), expected)


@check
def prediction_follows_a_renaming_of_nodes(case: Case) -> None:
    """Compute a node's probabilities from its own values and its neighbours', not its number."""
    # On a graph with other names, only the caller knows labels, and what the GNN was trained on.
    renamed = PROBLEM.permuted(ORDER)
    given: dict[str, Any] = {"train_mask": renamed.holdout}
    if case.knows:
        nodes = np.concatenate([renamed.mask, renamed.holdout])
        given["known"] = nodes, renamed.y[nodes]
    found = case.predict(case.fitted, renamed, **given)
    same(found, case.predict(case.fitted, PROBLEM)[ORDER], 1e-9)


@check
def fit_follows_a_renaming_of_nodes(case: Case) -> None:
    """What is learned must not depend on the order of nodes (noise drawn node by node belongs to
    parameters `dropout` or `noise`, which are set to zero here)."""
    noise = {"dropout", "noise"} & set(case.make().get_params())
    quiet: dict[str, Any] = dict.fromkeys(noise, 0.0)
    found = case.refitted(PROBLEM.permuted(ORDER), **quiet)
    same(found, case.refitted(PROBLEM, **quiet)[ORDER], 1e-5)


@check
def order_and_direction_of_edges_do_not_matter(case: Case) -> None:
    """Read edges from `data.graph`, which sorts them, makes them mutual and drops doubles."""
    rng = np.random.default_rng(2)
    shuffled = rng.permutation(PROBLEM.edges, axis=1)
    turned = np.where(rng.random(shuffled.shape[1]) < 0.5, shuffled, shuffled[::-1])
    other = replace(PROBLEM, edges=np.concatenate([turned, turned[:, :7]], axis=1))
    same(case.refitted(other), case.predict(case.fitted, PROBLEM))


@check
def odd_problems_have_an_answer(case: Case) -> None:
    """Fall back to something sane where labels, classes or edges are missing: no NaN, no error."""
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


@check
def output_is_of_the_kind_of_the_input(case: Case) -> None:
    """Compute with torch in the type of `data.logits`, and leave the rest to `predict_proba`."""
    for given, wide in (("float16", "float32"), ("float32", "float32"), ("float64", "float64")):
        array = replace(PROBLEM, logits=PROBLEM.logits.astype(given))
        found = [case.refitted(array)]
        found.append(case.refitted(replace(array, logits=torch.from_numpy(array.logits))))
        kinds = [f"{type(probs).__name__} of {probs.dtype}" for probs in found]
        expected = [f"ndarray of {wide}", f"Tensor of torch.{wide}"]
        require(kinds == expected, f"{given} gives {kinds}, expected {expected}")
        same(*found)
        probabilities(found[0], array, 1e-9 if wide == "float64" else 1e-6)


@check
def an_offset_of_logits_does_not_matter_or_it_says_so(case: Case) -> None:
    """Set `shift_invariant = False` (`fit` then warns of log-probabilities), or take each row's
    largest logit off first."""
    moved = replace(PROBLEM, logits=log_softmax(PROBLEM.logits, axis=1))
    if case.cls.shift_invariant:
        same(case.refitted(moved), case.predict(case.fitted, PROBLEM), 1e-5)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CalibrationWarning)
        case.make().fit(moved.logits, moved.y, mask=moved.mask, **case.inputs(moved))
    words = "log-probabilities"
    require(any(words in str(line.message) for line in told), f"no warning of {words}")


@check
def predicted_classes_stay_where_that_is_guaranteed(case: Case) -> None:
    """Set `keep_classes = False`, or keep the largest logit's class on top."""
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


@check
def temperatures_say_what_the_probabilities_are(case: Case) -> None:
    """Derive from TemperatureCalibrator and give `_temperatures`, or from Calibrator and have no
    `node_temperatures`."""
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


@check
def inputs_are_left_alone(case: Case) -> None:
    """Copy before you write into an array that was given."""
    own = CheckProblem.random()
    for array in (own.logits, own.y, own.features, own.mask):
        array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        found = case.refitted(own)
    same(found, case.predict(case.fitted, PROBLEM))
    same(own.logits, CheckProblem.random().logits)


@check
def saved_and_loaded_gives_the_same_bits(case: Case) -> None:
    """End the names of all fitted values in an underscore; keep arrays, numbers, text in them."""
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


@check
def nothing_is_predicted_or_saved_without_a_fit_that_ended(case: Case) -> None:
    """End the names of fitted values in an underscore, and leave `fit`, `predict_proba` and `save`
    as the base class has them."""
    original, failing = case.cls._fit, False

    def late_failure(self: Any, data: Any) -> None:
        original(self, data)
        if failing:
            raise RuntimeError("after all values were set")

    cls: Any = type(case.cls.__name__, (case.cls,), {"_fit": late_failure})
    failed = Case(cls, **case.params).fit(PROBLEM)
    failing = True
    with raises(RuntimeError, "after all", msg="a fit that fails late"):
        case.refit(failed, PROBLEM)
    left = [key for key in vars(failed) if key.endswith("_")]
    require(not left, f"{', '.join(left)} stayed after a fit that failed")
    for cal in (case.make(), failed):
        with raises(NotFittedError, "fit", msg="predict_proba without fit"):
            case.predict(cal, PROBLEM)
        with tempfile.TemporaryDirectory() as folder:
            with raises(NotFittedError, "fit", msg="save without fit"):
                cal.save(Path(folder, "cal.safetensors"))
            require(not any(Path(folder).iterdir()), "save without fit left a file")


@check
def parameters_are_stored_untouched(case: Case) -> None:
    """Declare them under `@hyperparameters` (simi_mailbox.parameters); change none in `_fit`."""
    cal, params, plain = case.fit(PROBLEM), case.make().get_params(), case.cls()
    require(cal.get_params() == params, "fit changed a parameter")
    copied = clone(cal)
    require(copied.get_params() == params, "clone changed a parameter")
    require(not hasattr(copied, "num_classes_"), "clone is fitted")
    require(repr(plain) == f"{case.cls.__name__}()", f"repr is {plain!r} without arguments")
    for key, value in params.items():
        if value != plain.get_params()[key]:
            require(f"{key}={value!r}" in repr(cal), f"repr does not tell {key}: {cal!r}")


@check
def each_parameter_refuses_what_it_is_not(case: Case) -> None:
    """Declare what it may be under `@hyperparameters`: `epochs: Count = 100`
    (simi_mailbox.parameters has Count, Positive, Share, …)."""
    hints = typing.get_type_hints(case.cls, include_extras=True)
    for key, default in case.make().get_params().items():
        require(key in hints, f"nothing is declared about {key}")
        kinds = _kinds_of(hints[key]) | {type(default)}
        if Any in kinds:
            continue
        others: list[Any] = [value for value in ("5", True) if type(value) not in kinds]
        for value in [object(), np.nan, np.inf, *others]:
            with raises(ValueError, f"{key} must be ", msg=f"fit with {key}={value!r}"):
                case.fit(PROBLEM, **{key: value})


def _kinds_of(hint: Any) -> set[Any]:
    """Types that a declaration is put together from."""
    parts = {hint} if isinstance(hint, type) or hint is Any else set()
    return parts.union(*(_kinds_of(part) for part in typing.get_args(hint)))


@check
def missing_inputs_are_named_and_other_classes_refused(case: Case) -> None:
    """List in `required_inputs` what `_fit` and `_predict` use; do not override `predict_proba`."""
    for name in case.cls.required_inputs:
        given = case.inputs(PROBLEM)
        del given[name]
        with raises(TypeError, name, msg=f"fit without {name}"):
            case.make().fit(PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **given)
        with raises(TypeError, name, msg=f"predict_proba without {name}"):
            case.fitted.predict_proba(PROBLEM.logits, **given)
    with raises(ValueError, "3 classes", msg="predict_proba with three classes for four"):
        case.predict(case.fitted, replace(PROBLEM, logits=PROBLEM.logits[:, :3]))


@check
def probabilities_are_read_as_their_logarithms(case: Case) -> None:
    """Use `data.logits` alone, and leave `fit` and `predict_proba` as the base class has them."""
    probs = softmax(PROBLEM.logits, axis=1)
    logs = replace(PROBLEM, logits=np.log(probs))
    inputs, expected = case.inputs(logs), case.refitted(logs)
    for kind, values in (("probabilities", probs), ("log-probabilities", logs.logits)):
        given = {"input_type": kind, **case.masks(logs), **inputs}
        cal = case.refit(case.make(), replace(logs, logits=values), **given)
        same(case.predict(cal, logs, input_type="logits"), expected, 1e-9)
        with quiet():
            same(cal.predict_proba(values, **inputs), expected, 1e-9)
    with raises(ValueError, 'input_type="probabilities"', msg="fit on probabilities as if logits"):
        case.fit(replace(PROBLEM, logits=probs))


@check
def permuted_labels_tell_nothing(case: Case) -> None:
    """Leave a node's own label out of what is fitted on it, and do not take it out of totals that
    other nodes share; a method that fits many numbers says how many in `num_parameters`."""
    for labels, classes in SIZES:
        gain, deviation = permuted_gain(case, labels, classes)
        granted = case.cls.num_parameters(classes) + DEVIATIONS * deviation
        require(
            gain <= granted,
            f"with {labels} permuted labels of {classes} classes the log likelihood is "
            f"{gain:.0f} above chance, where {granted:.0f} is granted",
        )


def permuted_gain(case: Case, labels: int, classes: int) -> tuple[float, float]:
    """How far balanced, permuted labels are believed, and its deviation by chance, over graphs.

    With ℓ = log q, Σ ℓ_i(y_i) − Σ mean of ℓ_i over all labels is zero in the mean where q was made
    without these labels, and the number of parameters for a maximum of their likelihood. A node's
    own label in a statistic, or missing from a total that is shared, gives many times that.
    """
    rng, n = np.random.default_rng(labels + classes), 2 * labels
    logits = rng.normal(size=(n, classes)) * 2
    y = rng.permutation(np.arange(n) % classes)
    mask = np.sort(rng.choice(n, labels, replace=False))
    y[mask] = rng.permutation(np.arange(labels) % classes)
    features = rng.normal(size=(n, 8)).astype(np.float32)
    share = np.bincount(y[mask], minlength=classes) / labels
    found = []
    for edges in _graphs(logits.argmax(axis=1), rng):
        others = np.setdiff1d(np.arange(n), mask)
        problem = CheckProblem(logits, y, edges, features, mask, others)
        probs = np.asarray(case.refitted(problem, holdout=False))[mask]
        logs = np.log(np.maximum(probs, 1e-12))
        mean = logs @ share
        variance = float(((logs - mean[:, None]) ** 2 @ share).sum())
        found.append(((logs[np.arange(labels), y[mask]] - mean).sum(), variance**0.5))
    # Deviations are averaged as they are: on the same labels they are not independent.
    gain, deviation = np.mean(found, axis=0).tolist()
    return gain, deviation


def _graphs(predicted: Ints, rng: np.random.Generator) -> list[Ints]:
    """Edges of a random graph, stars, small dense components, bipartite ones, and among equals."""
    n = len(predicted)
    node, order = np.arange(n), np.argsort(predicted, kind="stable")
    left = node[node % 6 < 3]
    alike = [np.stack([order[:-d], order[d:]]) for d in (1, 2)]
    pairs = np.concatenate(alike, axis=1)
    cliques = [np.stack([node, node - node % 5 + d]) for d in range(5)]
    bipartite = [np.stack([left, left - left % 6 + 3 + d]) for d in range(3)]
    return [
        rng.integers(n, size=(2, 2 * n)),
        np.stack([node, node - node % 9]),
        np.concatenate(cliques, axis=1).clip(max=n - 1),
        np.concatenate(bipartite, axis=1).clip(max=n - 1),
        pairs[:, predicted[pairs[0]] == predicted[pairs[1]]],
    ]
