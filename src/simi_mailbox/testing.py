"""The contract of calibrators: laws that any method is held to, also one from outside."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import clone

from simi_mailbox import audit, calibrators
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators import Calibrator, NodeTemperatures, TemperatureCalibrator, registry
from simi_mailbox.exceptions import CalibrationWarning, NotFittedError
from simi_mailbox.graph import Graph

INPUTS = frozenset({"graph", "features", "forward"})
TAKEN = frozenset({"hidden", "known", "fresh"})


@dataclass(frozen=True)
class Problem:
    """A small graph with everything that any method may need."""

    logits: Any
    y: Array
    edges: Ints
    features: Array
    mask: Ints
    holdout: Ints

    @classmethod
    def random(cls, n: int = 90, classes: int = 4, seed: int = 0) -> Problem:
        """Overconfident logits on a random graph; its last five nodes have no neighbour."""
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(n, classes)) * 2
        y = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(1)
        edges = rng.integers(0, n - 5, size=(2, 3 * n))
        features = np.concatenate([logits, rng.normal(size=(n, 2))], axis=1).astype(np.float32)
        # Isolated nodes stand in both masks and outside.
        return cls(logits, y, edges, features, np.arange(0, n, 2), np.arange(1, n, 4))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of nodes and classes."""
        n, k = self.logits.shape
        return n, k

    def inputs(self, needs: frozenset[str]) -> dict[str, Any]:
        """What a method needs besides logits and labels."""
        graph = Graph.from_edges(self.edges, len(self.logits))
        offered = {"graph": graph, "features": self.features, "forward": self._forward(graph)}
        return {key: offered[key] for key in sorted(needs)}

    def permuted(self, order: Ints) -> Problem:
        """The same problem with node ``order[k]`` renamed to ``k``."""
        place = np.argsort(order)
        return Problem(
            self.logits[order],
            self.y[order],
            place[self.edges],
            self.features[order],
            np.sort(place[self.mask]),
            np.sort(place[self.holdout]),
        )

    def _forward(self, graph: Graph) -> Any:
        """A frozen GNN: each node adds a tenth of what it hears over the weighted edges."""
        given = self.logits
        z = given if isinstance(given, torch.Tensor) else torch.from_numpy(given.copy())
        rows = graph.rows()

        def run(edge_weight: torch.Tensor) -> torch.Tensor:
            heard = z[graph.indices] * edge_weight.to(z.dtype).reshape(-1, 1)
            return z + 0.1 * torch.zeros_like(z).index_add(0, rows, heard)

        return run


PROBLEM = Problem.random()


class Case:
    """A method on trial: its class, and settings under which it is quick."""

    def __init__(self, cls: type[Calibrator], **params: Any) -> None:
        self.cls, self.params = cls, params

    def make(self) -> Any:
        """The method, unfitted."""
        return self.cls(**self.params)

    def fit(self, problem: Problem, *, holdout: bool = True, **changes: Any) -> Any:
        """The method, fitted on a problem with other parameters.

        Who stops on a hold-out, or takes known labels as evidence, is given the same nodes for it.
        """
        given = self.masks(problem) if holdout else {}
        return self.refit(self.make().set_params(**changes), problem, **given)

    def masks(self, problem: Problem) -> dict[str, Any]:
        """Further labelled nodes, under the names by which the method takes them."""
        trained = {"train_mask": problem.holdout} if self.knows else {}
        return {"holdout_mask": problem.holdout, **trained}

    @property
    def knows(self) -> bool:
        """Whether the method takes known labels as evidence."""
        return "known" in self.cls.takes

    def refit(self, cal: Any, problem: Problem, **given: Any) -> Any:
        """The calibrator ``cal``, fitted on a problem with ``given`` arguments of ``fit``."""
        given = {"y": problem.y, "mask": problem.mask, **self.inputs(problem), **given}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            return cal.fit(problem.logits, given.pop("y"), **given)

    @functools.cached_property
    def fitted(self) -> Any:
        """The method fitted on `PROBLEM`, once for all laws that only look at it."""
        return self.fit(PROBLEM)

    def inputs(self, problem: Problem) -> dict[str, Any]:
        """What the method needs or takes besides logits and labels."""
        hidden = {"hidden": problem.features} if "hidden" in self.cls.takes else {}
        return {**problem.inputs(self.cls.needs), **hidden}

    def predict(self, cal: Any, problem: Problem, **more: Any) -> Any:
        """Probabilities of a problem's nodes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            return cal.predict_proba(problem.logits, **self.inputs(problem), **more)


@dataclass(frozen=True)
class Law:
    """What must hold whatever a method does, and what to do where it does not."""

    name: str
    remedy: str
    holds: Callable[[Case], None]


LAWS: dict[str, Law] = {}
"""The whole contract, by name of the law."""


def check_calibrator(method: type[Calibrator] | Calibrator, **params: Any) -> None:
    """Hold a calibrator to the whole contract; the first law that it breaks is named.

    Shapes, sums, array kinds and types; determinism; names of nodes and order of edges that must
    not matter; nodes and graphs not seen before; odd problems (one label, one node, no edge);
    files; parameters; errors; kept classes and temperatures where they are promised; and that no
    label outside the masks is read (`simi_mailbox.audit.reads_only`).

    Parameters
    ----------
    method : class of a Calibrator
        What is checked, or a calibrator with the parameters to check it under.
    **params
        Parameters that make it quick, such as ``epochs=10``: it is fitted some fifty times on 90
        nodes.

    Raises
    ------
    AssertionError
        The law that is broken, how, and the remedy.

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
    for name in LAWS:
        check_law(case, name)


def check_law(case: Case, name: str) -> None:
    """Hold a method to one law of `LAWS`.

    Examples
    --------
    >>> from simi_mailbox import TemperatureScaling
    >>> check_law(Case(TemperatureScaling), "same seed, same bits")
    """
    law = LAWS[name]
    try:
        law.holds(case)
    except Exception as error:
        told = str(error).strip() if isinstance(error, AssertionError) else repr(error)
        raise AssertionError(
            f"{case.cls.__name__} breaks the law {name!r}: {told}\nRemedy: {law.remedy}"
        ) from error


def _law(name: str, remedy: str) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    def decorate(holds: Callable[[Case], None]) -> Callable[[Case], None]:
        LAWS[name] = Law(name, remedy, holds)
        return holds

    return decorate


def _require(holds: Any, told: str) -> None:
    """``assert``, which `python -O` does not take out."""
    if not holds:
        raise AssertionError(told)


def _same(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    _require(found.shape == expected.shape, f"shape {found.shape}, expected {expected.shape}")
    if not tolerance:
        rows = int((found != expected).any(axis=1).sum())
        _require(not rows, f"{rows} of {len(found)} rows differ")
    gap = float(np.abs(found - expected).max(initial=0.0))
    _require(gap <= tolerance, f"probabilities differ by {gap:.2g}, allowed {tolerance:.2g}")


def _raises(kind: type[Exception], words: str, call: Callable[[], Any], doing: str) -> None:
    try:
        call()
    except kind as error:
        _require(words in str(error), f"{doing}: the error does not say {words!r}: {error}")
    except Exception as error:
        raise AssertionError(f"{doing} raised {error!r}, expected {kind.__name__}") from error
    else:
        raise AssertionError(f"{doing} raised nothing, expected {kind.__name__}")


def _probabilities(found: Any, shape: tuple[int, int], tolerance: float = 1e-9) -> None:
    probs = np.asarray(found)
    _require(probs.shape == shape, f"shape {probs.shape}, expected {shape}")
    _require(np.isfinite(probs).all(), "not all probabilities are finite")
    _require((probs >= 0).all(), f"a probability is {probs.min():.3g}")
    gap = float(np.abs(probs.sum(axis=1) - 1).max())
    _require(gap <= tolerance, f"a row sums to one only within {gap:.2g}")


def _fits(case: Case, problem: Problem, what: str, *, holdout: bool = True) -> Any:
    """Fit on an odd problem and require probabilities of it."""
    try:
        cal = case.fit(problem, holdout=holdout)
        probs = case.predict(cal, problem)
        _probabilities(probs, problem.shape)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    return probs


@_law(
    "says what it is",
    "set the class attributes name, needs, holdout and version as `help(Calibrator)` explains; "
    "give every parameter a default, and annotate nothing else under `@hyperparameters`",
)
def _declaration(case: Case) -> None:
    cls = case.cls
    try:
        cls()
    except TypeError as error:
        raise AssertionError(f"it cannot be made without arguments: {error}") from error
    _require(isinstance(cls.name, str) and cls.name.strip(), "it has no name")
    if cls.name in calibrators.names():
        holder = calibrators.get(cls.name)
        _require(holder is cls, f"the name {cls.name!r} belongs to {holder.__name__}")
    _require(cls.needs <= INPUTS, f"needs is {set(cls.needs)}, known are {sorted(INPUTS)}")
    _require(cls.takes <= TAKEN, f"takes is {set(cls.takes)}, known are {sorted(TAKEN)}")
    _require(cls.holdout in ("training", "separate", None), f"holdout is {cls.holdout!r}")
    whole = isinstance(cls.version, int) and cls.version >= 1
    _require(whole, f"version is {cls.version!r}, expected a whole number ≥ 1")


@_law("rows are probabilities", "return a tensor [n, K] of `_predict` whose rows sum to one")
def _rows(case: Case) -> None:
    _probabilities(case.predict(case.fitted, PROBLEM), PROBLEM.shape)


@_law(
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
            holdout_mask=PROBLEM.holdout,
            train_mask=PROBLEM.holdout if case.knows else None,
            **case.inputs(PROBLEM),
            **more,
        )
        _require(outcome, outcome.detail)


@_law(
    "no node hears its own label",
    "leave a node's own label out of what its neighbours, near and far, say of it",
)
def _own_label(case: Case) -> None:
    if not case.knows:
        return
    nodes = np.concatenate([PROBLEM.mask, PROBLEM.holdout])
    other = Problem.random(n=89, seed=6)  # another graph: all labels come by known=
    nodes = nodes[nodes < 89]
    for train in (None, other.holdout):
        probs = case.predict(case.fitted, other, known=(nodes, other.y[nodes]), train_mask=train)
        for node in nodes[::7]:
            changed = other.y.copy()
            changed[node] = (changed[node] + 1) % other.shape[1]
            given = {"known": (nodes, changed[nodes]), "train_mask": train}
            found = case.predict(case.fitted, other, **given)
            _same(found[[node]], probs[[node]], 1e-9)


@_law("labels of the mask are enough", "do not ask for labels of other nodes than the mask's")
def _short_labels(case: Case) -> None:
    short = case.refit(case.make(), PROBLEM, y=PROBLEM.y[PROBLEM.mask])
    full = case.fit(PROBLEM, holdout=False)
    _same(case.predict(short, PROBLEM), case.predict(full, PROBLEM))


@_law(
    "same seed, same bits",
    "draw from a generator made of a `seed` parameter in `_fit`, and from no global one",
)
def _seed(case: Case) -> None:
    _same(case.predict(case.fit(PROBLEM), PROBLEM), case.predict(case.fitted, PROBLEM))
    _same(case.predict(case.fitted, PROBLEM), case.predict(case.fitted, PROBLEM))


@_law(
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
    _same(case.predict(case.fitted, renamed, **given), expected, 1e-9)


@_law(
    "fit follows a renaming of nodes",
    "what is learned must not depend on the order of nodes (noise drawn node by node belongs to "
    "parameters `dropout` or `noise`, which are set to nought here)",
)
def _renamed_fit(case: Case) -> None:
    quiet: dict[str, Any] = {
        key: 0.0 for key in ("dropout", "noise") if key in case.make().get_params()
    }
    order = np.random.default_rng(1).permutation(len(PROBLEM.y))
    renamed = PROBLEM.permuted(order)
    expected = case.predict(case.fit(PROBLEM, **quiet), PROBLEM)[order]
    _same(case.predict(case.fit(renamed, **quiet), renamed), expected, 1e-5)


@_law(
    "order and direction of edges do not matter",
    "read edges from `data.graph`, which sorts them, makes them mutual and drops doubles",
)
def _edges(case: Case) -> None:
    rng = np.random.default_rng(2)
    shuffled = PROBLEM.edges[:, rng.permutation(PROBLEM.edges.shape[1])]
    turned = np.where(rng.random(shuffled.shape[1]) < 0.5, shuffled, shuffled[::-1])
    other = replace(PROBLEM, edges=np.concatenate([turned, turned[:, :7]], axis=1))
    _same(case.predict(case.fit(other), other), case.predict(case.fitted, PROBLEM))


@_law(
    "nodes and graphs not seen before",
    "keep nothing of the length of the graph for prediction; store what was learned, not where",
)
def _unseen(case: Case) -> None:
    other = Problem.random(n=37, seed=5)
    _probabilities(case.predict(case.fitted, other), other.shape)


@_law(
    "odd problems have an answer",
    "fall back to something sane where labels, classes or edges are missing: no NaN, no error",
)
def _odd(case: Case) -> None:
    without = PROBLEM.mask[PROBLEM.y[PROBLEM.mask] != 2]
    _fits(case, replace(PROBLEM, mask=without), "a class without a calibration label")
    for label in (0, 3):
        alone = replace(PROBLEM, mask=np.array([0]), y=np.full(len(PROBLEM.y), label))
        _fits(case, alone, f"one calibration node, of class {label}", holdout=False)
    for shift, what in ((0, "right"), (1, "wrong")):
        y = (PROBLEM.logits.argmax(1) + shift) % PROBLEM.shape[1]
        _fits(case, replace(PROBLEM, y=y), f"all calibration nodes {what}")
    bare = replace(PROBLEM, edges=np.empty((2, 0), dtype=np.int64))
    _fits(case, bare, "a graph without edges")
    _probabilities(case.predict(case.fitted, bare), bare.shape)
    only = np.array([0])
    first = (PROBLEM.logits[:1], PROBLEM.y[:1], bare.edges, PROBLEM.features[:1])
    _fits(case, Problem(*first, only, only), "a graph of one node", holdout=False)
    for size in (1e4, 1e-4):
        _fits(case, replace(PROBLEM, logits=PROBLEM.logits * size), f"logits times {size:g}")


@_law(
    "constant logits have an answer",
    "where logits say nothing, give finite rows; a temperature then changes nothing",
)
def _constant(case: Case) -> None:
    flat = replace(PROBLEM, logits=np.zeros_like(PROBLEM.logits))
    for cal in (case.fit(flat), case.fitted):
        probs = case.predict(cal, flat)
        _probabilities(probs, flat.shape)
        if isinstance(cal, NodeTemperatures) and cal.keeps_classes:
            _same(probs, np.full(flat.shape, 1 / flat.shape[1]), 1e-12)


@_law(
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
        _require(kinds == ("ndarray", "Tensor"), f"arrays and tensors give {kinds}")
        types = {str(from_array.dtype), str(from_tensor.dtype).removeprefix("torch.")}
        _require(types == {wide}, f"{given} gives {sorted(types)}, expected {wide}")
        _same(from_array, from_tensor)
        _probabilities(from_array, PROBLEM.shape, 1e-9 if wide == "float64" else 1e-6)


@_law(
    "an offset of logits does not matter, or it says so",
    "set `reads_offset = True` (users are then warned of log-probabilities), or take each row's "
    "largest logit off first",
)
def _offset(case: Case) -> None:
    logs = PROBLEM.logits - np.logaddexp.reduce(PROBLEM.logits, axis=1, keepdims=True)
    moved = replace(PROBLEM, logits=logs)
    if not case.cls.reads_offset:
        _same(case.predict(case.fit(moved), moved), case.predict(case.fitted, PROBLEM), 1e-5)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CalibrationWarning)
        case.make().fit(logs, moved.y, mask=moved.mask, **case.inputs(moved))
    words = "log-probabilities"
    _require(any(words in str(line.message) for line in told), f"no warning of {words}")


@_law("inputs are left alone", "copy before you write into an array that was given")
def _untouched(case: Case) -> None:
    own = Problem.random()
    for array in (own.logits, own.y, own.features, own.mask):
        array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        found = case.predict(case.fit(own), own)
    _same(found, case.predict(case.fitted, PROBLEM))
    _same(own.logits, Problem.random().logits)


@_law(
    "saved and loaded gives the same bits",
    "end the names of all fitted values in an underscore; keep arrays, numbers and text in them",
)
def _files(case: Case) -> None:
    cal = case.fitted
    with tempfile.TemporaryDirectory() as folder, _known(case.cls):
        path = Path(folder) / "cal.safetensors"
        cal.save(path)
        again = calibrators.load(path)
    _require(type(again) is type(cal), f"a {type(again).__name__} came back")
    _require(again.get_params() == cal.get_params(), "parameters came back changed")
    _same(case.predict(again, PROBLEM), case.predict(cal, PROBLEM))


@_law(
    "predicted classes stay where that is promised",
    "set `preserves_accuracy = False`, or keep the largest logit's class on top",
)
def _classes(case: Case) -> None:
    made = case.make()
    if not case.cls.preserves_accuracy:
        withheld = isinstance(made, NodeTemperatures) and made.keeps_classes
        _require(not withheld, "a method of temperatures keeps classes, but does not promise it")
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
            _require(not moved, f"{moved} of {len(found)} predicted classes changed")


@_law(
    "temperatures say what the probabilities are",
    "derive from TemperatureCalibrator and give `_temperatures`, or from Calibrator and have no "
    "`node_temperatures`",
)
def _temperatures(case: Case) -> None:
    cal = case.fitted
    if isinstance(cal, NodeTemperatures) and not cal.keeps_classes:
        doing = "node_temperatures where classes move"
        given = case.inputs(PROBLEM)
        _raises(
            ValueError, "temperature", lambda: cal.node_temperatures(PROBLEM.logits, **given), doing
        )
        return
    if not isinstance(cal, NodeTemperatures):
        _require(
            not hasattr(cal, "node_temperatures"), "it has temperatures, but is of no such kind"
        )
        return
    temperatures = cal.node_temperatures(PROBLEM.logits, **case.inputs(PROBLEM))
    _require((temperatures > 0).all(), f"a temperature is {temperatures.min():.3g}")
    expected = softmax(PROBLEM.logits / temperatures[:, None], axis=1)
    if not isinstance(cal, TemperatureCalibrator):
        share = cal.blind_share
        _require(0 < share < 1, f"blind_share is {share}: derive from TemperatureCalibrator")
        expected = (1 - share) * expected + share / PROBLEM.shape[1]
    gap = np.abs(case.predict(cal, PROBLEM) - expected)
    told = f"probabilities differ from them by {gap.max():.2g}"
    _require((gap <= 1e-12 + 1e-9 * expected).all(), told)


@_law(
    "nothing is predicted or saved before fit",
    "leave `predict_proba` and `save` as the base class has them",
)
def _unfitted(case: Case) -> None:
    cal = case.make()
    _raises(NotFittedError, "fit", lambda: case.predict(cal, PROBLEM), "predict_proba before fit")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cal.safetensors"
        _raises(NotFittedError, "fit", lambda: cal.save(path), "save before fit")
        _require(not any(Path(folder).iterdir()), "save before fit left a file")


@_law(
    "a failed fit leaves nothing",
    "end the names of fitted values in an underscore, and leave `fit` as the base class has it",
)
def _failed(case: Case) -> None:
    original = case.cls._fit

    def late_failure(self: Any, data: Any) -> None:
        original(self, data)
        if type(self).failing:
            raise RuntimeError("after all values were set")

    failing: Any = type(case.cls.__name__, (case.cls,), {"_fit": late_failure, "failing": False})
    cal = Case(failing, **case.params).fit(PROBLEM)
    failing.failing = True
    _raises(RuntimeError, "after all", lambda: case.refit(cal, PROBLEM), "a fit that fails late")
    left = [key for key in vars(cal) if key.endswith("_")]
    _require(not left, f"{', '.join(left)} stayed")
    _raises(NotFittedError, "fit", lambda: case.predict(cal, PROBLEM), "predict_proba after it")


@_law(
    "parameters are stored untouched",
    "declare them under `@hyperparameters` (simi_mailbox.parameters), and change none in `_fit`",
)
def _parameters(case: Case) -> None:
    cal, params = case.fit(PROBLEM), case.make().get_params()
    _require(cal.get_params() == params, "fit changed a parameter")
    fresh = clone(cal)
    _require(fresh.get_params() == params, "clone changed a parameter")
    _require(not hasattr(fresh, "num_classes_"), "clone is fitted")
    plain = case.cls()
    _require(repr(plain) == f"{case.cls.__name__}()", f"repr is {plain!r} without arguments")
    for key, value in params.items():
        if value != plain.get_params()[key]:
            _require(f"{key}={value!r}" in repr(cal), f"repr does not tell {key}: {cal!r}")


@_law(
    "each parameter refuses what it is not",
    "declare what it may be under `@hyperparameters`: `epochs: Count = 100` (simi_mailbox."
    "parameters has Count, Positive, Share, …)",
)
def _wrong_parameters(case: Case) -> None:
    hints = typing.get_type_hints(case.cls, include_extras=True)
    for key, default in case.make().get_params().items():
        _require(key in hints, f"nothing is declared about {key}")
        kinds = _kinds_of(hints[key])
        if Any in kinds:
            continue
        wrong: list[Any] = [object(), np.nan, np.inf]
        if not (isinstance(default, str) or str in kinds):
            wrong.append("5")
        if not (isinstance(default, bool) or bool in kinds):
            wrong.append(True)
        for value in wrong:
            _raises(
                ValueError,
                f"{key} must be ",
                functools.partial(case.fit, PROBLEM, **{key: value}),
                f"fit with {key}={value!r}",
            )


def _kinds_of(hint: Any) -> set[Any]:
    """Types that a declaration is put together from."""
    parts = {hint} if isinstance(hint, type) or hint is Any else set()
    return parts.union(*(_kinds_of(part) for part in typing.get_args(hint)))


@_law("missing inputs are named", "list in `needs` all that `_fit` and `_predict` use")
def _missing(case: Case) -> None:
    inputs = case.inputs(PROBLEM)
    for name in case.cls.needs:
        given = {key: value for key, value in inputs.items() if key != name}
        _raises(
            TypeError,
            name,
            lambda given=given: case.make().fit(  # type: ignore[misc]
                PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **given
            ),
            f"fit without {name}",
        )
        _raises(
            TypeError,
            name,
            lambda given=given: case.fitted.predict_proba(PROBLEM.logits, **given),  # type: ignore[misc]
            f"predict_proba without {name}",
        )


@_law("another number of classes is refused", "leave `predict_proba` as the base class has it")
def _other_classes(case: Case) -> None:
    other = replace(PROBLEM, logits=PROBLEM.logits[:, :3])
    doing = "predict_proba with three classes for four"
    _raises(ValueError, "3 classes", lambda: case.predict(case.fitted, other), doing)


@_law(
    "probabilities are read as their logarithms",
    "use `data.logits` alone, and leave `fit` and `predict_proba` as the base class has them",
)
def _input_kinds(case: Case) -> None:
    probs = softmax(PROBLEM.logits, axis=1)
    logs = replace(PROBLEM, logits=np.log(probs))
    expected = case.predict(case.fit(logs), logs)
    given: dict[str, Any] = {**case.masks(logs), **case.inputs(logs)}
    for kind, values in (("probabilities", probs), ("log-probabilities", logs.logits)):
        problem = replace(logs, logits=values)
        cal = case.refit(case.make(), problem, input=kind, **given)
        found = case.predict(cal, logs, input="logits")
        _same(found, expected, 1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            _same(cal.predict_proba(values, **case.inputs(logs)), expected, 1e-9)
    doing = "fit on probabilities as if they were logits"
    wrong = replace(PROBLEM, logits=probs)
    _raises(ValueError, 'input="probabilities"', lambda: case.fit(wrong), doing)


@contextlib.contextmanager
def _known(cls: type[Calibrator]) -> Iterator[None]:
    """Let files of a method be read that nobody has registered."""
    if cls.name in calibrators.names():
        yield
        return
    registry.register(cls.name)(cls)
    try:
        yield
    finally:
        registry.forget(cls.name)
