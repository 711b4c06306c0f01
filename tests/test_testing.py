"""A check that nobody can break proves nothing: for each, a calibrator here breaks it."""

import functools
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators, testing
from simi_mailbox.calibrators import Calibrator, TemperatureCalibrator
from simi_mailbox.parameters import Positive, Whole, hyperparameters
from simi_mailbox.softmax import scaled_softmax


@hyperparameters
class Sound(TemperatureCalibrator):
    """T grows with the share of calibration nodes that are wrong; neighbours are counted."""

    name: ClassVar[str] = "sound"
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
    strength: Positive = 1.0
    seed: Whole = 0

    def _fit(self, data: Any) -> None:
        index, y = data.calibration.index, data.calibration.y
        wrong = (data.logits[index].argmax(dim=1) != y).double().mean()
        self.temperature_ = float(1 + self.strength * wrong)

    def _temperatures(self, data: Any) -> Any:
        n = data.num_nodes
        degree = torch.bincount(data.graph.rows(), minlength=n).to(data.logits.dtype)
        return self.temperature_ + 0.1 / (1 + degree)


def broken(**changes: Any) -> type[Calibrator]:
    """`Sound` with other methods."""
    return type("Broken", (Sound,), {"name": "broken", **changes})


def learning(more: Any) -> type[Calibrator]:
    """Whose ``_fit`` does more."""
    return broken(_fit=lambda self, data: (Sound._fit(self, data), more(self, data)))


def heated(by: Any) -> type[Calibrator]:
    """Whose temperatures are higher."""
    return broken(_temperatures=lambda self, d: Sound._temperatures(self, d) + by(self, d))


def predicting(answer: Any) -> type[Calibrator]:
    """Whose ``predict_proba`` gives ``answer(the sound one, logits, inputs)``."""

    def predict_proba(self: Any, logits: Any, **inputs: Any) -> Any:
        return answer(functools.partial(Sound.predict_proba, self), logits, inputs)

    return broken(predict_proba=predict_proba)


def fitting(more: Any) -> type[Calibrator]:
    """Whose ``fit`` does more with what it was given."""

    def fit(self: Any, logits: Any, y: Any, **inputs: Any) -> Any:
        more(Sound.fit(self, logits, y, **inputs), logits, y)
        return self

    return broken(fit=fit)


def hotter(cal: Any, by: float) -> None:
    cal.temperature_ += by


def peeks(cal: Any, logits: Any, y: Any) -> None:
    hotter(cal, 1e-6 * float(np.mean(np.asarray(y) == 0)) * (len(y) == len(logits)))


def wants_all_labels(_: Any, logits: Any, y: Any) -> None:
    if len(y) != len(logits):
        raise ValueError("labels of all nodes, please")


def gossips(self: Any, data: Any) -> Any:
    """Less confidence for a node whose own label is known to be of the last class."""
    temperatures = Sound._temperatures(self, data).clone()
    if data.known is not None:
        temperatures[data.known.index[data.known.y == data.num_classes - 1]] *= 2.0
    return temperatures


class Remembering(Sound):
    """Keeps what it was fitted on, and its length."""

    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        self.fitted_, self.length_ = data.calibration, data.num_nodes

    def _temperatures(self, data: Any) -> Any:
        return super()._temperatures(data) + torch.zeros(self.length_)


class Undeclared(Sound):
    name: ClassVar[str] = "broken"

    def __init__(self, *, width: Any = 3, strength: float = 1.0, seed: int = 0) -> None:
        self.width, self.strength, self.seed = width, strength, seed


class LeftOut(Remembering):
    """Class frequencies without the node's own label: what is missing names it."""

    def _predict(self, data: Any) -> Any:
        index, y = self.fitted_.index, self.fitted_.y
        counts = torch.bincount(y, minlength=data.num_classes).double().repeat(data.num_nodes, 1)
        counts[index, y] -= 1.0
        return torch.softmax(-3.0 * counts.to(data.logits.dtype), dim=1)


def needs_two_classes(_: Any, data: Any) -> None:
    if len(data.calibration.y.unique()) < 2:
        raise ZeroDivisionError("only one class")


def where_flat(value: float) -> Any:
    """Rows of ``value`` where all logits are equal."""

    def predict(self: Any, data: Any) -> Any:
        flat = data.logits.std(dim=1, keepdim=True) == 0
        return torch.where(flat, value, Sound._predict(self, data))

    return predict


def takes_any_classes(self: Any, logits: Any, **inputs: Any) -> Any:
    self.num_classes_ = np.shape(logits)[1]
    return Sound._read_fitted(self, logits, **inputs)


def answers_unfitted(sound: Any, logits: Any, inputs: Any) -> Any:
    return sound(logits, **inputs) if vars(sound.args[0]).get("num_classes_") else uniform(logits)


def uniform(logits: Any) -> Any:
    return np.full(np.shape(logits), 1 / np.shape(logits)[1])


def writes(sound: Any, logits: Any, inputs: Any) -> Any:
    if isinstance(logits, np.ndarray):
        logits += 0.0
    return sound(logits, **inputs)


def swaps_classes(sound: Any, logits: Any, inputs: Any) -> Any:
    return sound(logits, **inputs)[:, [0, 1, 2, 3] if abs(logits).max() < 100 else [1, 0, 2, 3]]


testing_edges: list[Any] = []
Peeking = fitting(peeks)

BREAKERS = {
    "it says what it is": [broken(version="new")],
    "rows are probabilities also on another graph": [
        broken(_predict=lambda self, d: 0.999 * Sound._predict(self, d)),
        Remembering,
    ],
    "no label outside the masks is read": [Peeking],
    "no node sees its own label": [
        broken(_temperatures=gossips, optional_inputs=frozenset({"known"}))
    ],
    "labels of the mask are enough": [fitting(wants_all_labels)],
    "same seed gives the same bits": [learning(lambda cal, _: hotter(cal, torch.rand(()).item()))],
    "an offset of logits does not matter or it says so": [
        heated(lambda _, data: data.logits.abs().mean(dim=1))
    ],
    "prediction follows a renaming of nodes": [
        heated(lambda _, data: torch.arange(data.num_nodes) / data.num_nodes)
    ],
    "fit follows a renaming of nodes": [
        learning(lambda cal, data: hotter(cal, float(data.logits[0].abs().max())))
    ],
    "order and direction of edges do not matter": [
        fitting(lambda cal, *_: hotter(cal, float(testing_edges[-1][0, 0]) / 1000))
    ],
    "odd problems have an answer": [
        learning(needs_two_classes),
        broken(_predict=where_flat(torch.nan)),
    ],
    "output is of the kind of the input": [
        predicting(lambda sound, logits, inputs: np.asarray(sound(logits, **inputs)))
    ],
    "inputs are left alone": [predicting(writes)],
    "saved and loaded gives the same bits": [
        broken(  # what it has learned is not in its file
            _fit=lambda self, data: (Sound._fit(self, data), setattr(self, "shift", 0.5)),
            _temperatures=lambda self, d: Sound._temperatures(self, d) + getattr(self, "shift", 0),
        )
    ],
    "predicted classes stay where that is guaranteed": [predicting(swaps_classes)],
    "temperatures say what the probabilities are": [
        broken(_predict=lambda self, d: scaled_softmax(d.logits, 1.01 * self._temperatures(d))),
        broken(_predict=where_flat(0.3)),
    ],
    "nothing is predicted or saved without a fit that ended": [
        predicting(answers_unfitted),
        broken(_forget=lambda self: None),
    ],
    "parameters are stored untouched": [learning(lambda cal, _: setattr(cal, "strength", 2.0))],
    "each parameter refuses what it is not": [Undeclared],
    "permuted labels tell nothing": [LeftOut],
    "missing inputs are named and other classes refused": [
        predicting(lambda sound, z, given: sound(z, **given) if "graph" in given else uniform(z)),
        broken(_read_fitted=takes_any_classes),
    ],
    "probabilities are read as their logarithms": [
        broken(fit=lambda self, z, y, input_type="logits", **given: Sound.fit(self, z, y, **given))
    ],
}


@pytest.fixture(autouse=True)
def edges_as_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods see edges sorted already; this is the only way to be wrong about their order."""
    original = testing.CheckProblem.inputs

    def inputs(self: testing.CheckProblem, needs: frozenset[str]) -> dict[str, Any]:
        testing_edges[:] = [self.edges] if self.edges.size else [np.zeros((2, 1))]
        return original(self, needs)

    monkeypatch.setattr(testing.CheckProblem, "inputs", inputs)


def test_a_sound_method_from_outside_passes_and_stays_outside() -> None:
    testing.check_calibrator(Sound, strength=2.0)
    testing.check_calibrator(Sound(strength=3.0))
    assert "sound" not in calibrators.names()


def test_every_check_has_one_who_breaks_it() -> None:
    assert set(BREAKERS) == set(testing.CHECKS)


@pytest.mark.parametrize(
    ("check", "method"), [(name, method) for name, broken in BREAKERS.items() for method in broken]
)
def test_a_broken_check_is_named_with_its_remedy(check: str, method: type[Calibrator]) -> None:
    with pytest.raises(AssertionError, match=f"fails the check '{check}': .*\nRemedy: .") as found:
        testing.run_check(testing.Case(method), check)
    assert found.value.__cause__ is not None


@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        (Peeking, AssertionError, r"^Broken fails the check 'no label outside"),
        (broken(name="temperature"), AssertionError, "'temperature' belongs to TemperatureScaling"),
        (dict, TypeError, "subclass of Calibrator, got <class 'dict'>"),
    ],
)
def test_the_first_broken_check_ends_it(method: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        testing.check_calibrator(method)
