"""Checks about how a method treats its surroundings: inputs, files, parameters, errors."""

import contextlib
import functools
import tempfile
import typing
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from simi_mailbox import calibrators
from simi_mailbox.calibrators import Calibrator, registry
from simi_mailbox.exceptions import CalibrationWarning, NotFittedError
from simi_mailbox.testing.cases import PROBLEM, Case, CheckProblem
from simi_mailbox.testing.checks import Checks, raises, require, same

CHECKS = Checks()


@CHECKS.check("inputs are left alone", "copy before you write into an array that was given")
def _untouched(case: Case) -> None:
    own = CheckProblem.random()
    for array in (own.logits, own.y, own.features, own.mask):
        array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        found = case.predict(case.fit(own), own)
    same(found, case.predict(case.fitted, PROBLEM))
    same(own.logits, CheckProblem.random().logits)


@CHECKS.check(
    "saved and loaded gives the same bits",
    "end the names of all fitted values in an underscore; keep arrays, numbers and text in them",
)
def _files(case: Case) -> None:
    cal = case.fitted
    with tempfile.TemporaryDirectory() as folder, _known(case.cls):
        path = Path(folder) / "cal.safetensors"
        cal.save(path)
        again = calibrators.load(path)
    require(type(again) is type(cal), f"a {type(again).__name__} came back")
    require(again.get_params() == cal.get_params(), "parameters came back changed")
    same(case.predict(again, PROBLEM), case.predict(cal, PROBLEM))


@CHECKS.check(
    "nothing is predicted or saved before fit",
    "leave `predict_proba` and `save` as the base class has them",
)
def _unfitted(case: Case) -> None:
    cal = case.make()
    raises(NotFittedError, "fit", lambda: case.predict(cal, PROBLEM), "predict_proba before fit")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cal.safetensors"
        raises(NotFittedError, "fit", lambda: cal.save(path), "save before fit")
        require(not any(Path(folder).iterdir()), "save before fit left a file")


@CHECKS.check(
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
    raises(RuntimeError, "after all", lambda: case.refit(cal, PROBLEM), "a fit that fails late")
    left = [key for key in vars(cal) if key.endswith("_")]
    require(not left, f"{', '.join(left)} stayed")
    raises(NotFittedError, "fit", lambda: case.predict(cal, PROBLEM), "predict_proba after it")


@CHECKS.check(
    "parameters are stored untouched",
    "declare them under `@hyperparameters` (simi_mailbox.parameters), and change none in `_fit`",
)
def _parameters(case: Case) -> None:
    cal, params = case.fit(PROBLEM), case.make().get_params()
    require(cal.get_params() == params, "fit changed a parameter")
    copied = clone(cal)
    require(copied.get_params() == params, "clone changed a parameter")
    require(not hasattr(copied, "num_classes_"), "clone is fitted")
    plain = case.cls()
    require(repr(plain) == f"{case.cls.__name__}()", f"repr is {plain!r} without arguments")
    for key, value in params.items():
        if value != plain.get_params()[key]:
            require(f"{key}={value!r}" in repr(cal), f"repr does not tell {key}: {cal!r}")


@CHECKS.check(
    "each parameter refuses what it is not",
    "declare what it may be under `@hyperparameters`: `epochs: Count = 100` (simi_mailbox."
    "parameters has Count, Positive, Share, …)",
)
def _wrong_parameters(case: Case) -> None:
    hints = typing.get_type_hints(case.cls, include_extras=True)
    for key, default in case.make().get_params().items():
        require(key in hints, f"nothing is declared about {key}")
        kinds = _kinds_of(hints[key])
        if Any in kinds:
            continue
        wrong: list[Any] = [object(), np.nan, np.inf]
        if not (isinstance(default, str) or str in kinds):
            wrong.append("5")
        if not (isinstance(default, bool) or bool in kinds):
            wrong.append(True)
        for value in wrong:
            raises(
                ValueError,
                f"{key} must be ",
                functools.partial(case.fit, PROBLEM, **{key: value}),
                f"fit with {key}={value!r}",
            )


def _kinds_of(hint: Any) -> set[Any]:
    """Types that a declaration is put together from."""
    parts = {hint} if isinstance(hint, type) or hint is Any else set()
    return parts.union(*(_kinds_of(part) for part in typing.get_args(hint)))


@CHECKS.check(
    "missing inputs are named", "list in `required_inputs` all that `_fit` and `_predict` use"
)
def _missing(case: Case) -> None:
    inputs = case.inputs(PROBLEM)
    for name in case.cls.required_inputs:
        given = {key: value for key, value in inputs.items() if key != name}
        raises(
            TypeError,
            name,
            lambda given=given: case.make().fit(  # type: ignore[misc]
                PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **given
            ),
            f"fit without {name}",
        )
        raises(
            TypeError,
            name,
            lambda given=given: case.fitted.predict_proba(PROBLEM.logits, **given),  # type: ignore[misc]
            f"predict_proba without {name}",
        )


@CHECKS.check(
    "another number of classes is refused", "leave `predict_proba` as the base class has it"
)
def _other_classes(case: Case) -> None:
    other = replace(PROBLEM, logits=PROBLEM.logits[:, :3])
    doing = "predict_proba with three classes for four"
    raises(ValueError, "3 classes", lambda: case.predict(case.fitted, other), doing)


@CHECKS.check(
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
        cal = case.refit(case.make(), problem, input_type=kind, **given)
        found = case.predict(cal, logs, input_type="logits")
        same(found, expected, 1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            same(cal.predict_proba(values, **case.inputs(logs)), expected, 1e-9)
    doing = "fit on probabilities as if they were logits"
    wrong = replace(PROBLEM, logits=probs)
    raises(ValueError, 'input_type="probabilities"', lambda: case.fit(wrong), doing)


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
