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
    return type("Broken", (Sound,), {"name": "broken", **changes})


class Peeking(Sound):
    name: ClassVar[str] = "broken"

    def fit(self, logits: Any, y: Any, **inputs: Any) -> Any:
        super().fit(logits, y, **inputs)
        self.temperature_ += 1e-6 * float(np.mean(np.asarray(y) == 0)) * (len(y) == len(logits))
        return self


class Restless(Sound):
    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        self.temperature_ += torch.rand(()).item()


class Counting(Sound):
    """Later nodes are trusted less."""

    name: ClassVar[str] = "broken"

    def _temperatures(self, data: Any) -> Any:
        return super()._temperatures(data) + torch.arange(data.num_nodes) / data.num_nodes


class Absolute(Sound):
    """Takes a logit for more than its difference to the others."""

    name: ClassVar[str] = "broken"

    def _temperatures(self, data: Any) -> Any:
        return super()._temperatures(data) + data.logits.abs().mean(dim=1)


class FirstNode(Sound):
    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        self.temperature_ += float(data.logits[0].abs().max())


class Remembering(Sound):
    """Keeps a temperature for every node of the graph it was fitted on."""

    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        self.length_ = data.num_nodes

    def _temperatures(self, data: Any) -> Any:
        if data.num_nodes != self.length_:
            raise RuntimeError(f"size mismatch: {data.num_nodes} and {self.length_}")
        return super()._temperatures(data)


class Needy(Sound):
    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        if len(data.calibration.y.unique()) < 2:
            raise ZeroDivisionError("only one class")


class Constant(Sound):
    """Gives the calibration share of each class, whatever the logits say."""

    name: ClassVar[str] = "broken"

    def _predict(self, data: Any) -> Any:
        probs = super()._predict(data).clone()
        flat = data.logits.std(dim=1) == 0
        probs[flat] = torch.nn.functional.one_hot(torch.tensor(0), probs.shape[1]).to(probs.dtype)
        return probs


class AlwaysArray(Sound):
    name: ClassVar[str] = "broken"

    def predict_proba(self, logits: Any, **inputs: Any) -> Any:
        return np.asarray(super().predict_proba(logits, **inputs))


class Writing(Sound):
    name: ClassVar[str] = "broken"

    def predict_proba(self, logits: Any, **inputs: Any) -> Any:
        if isinstance(logits, np.ndarray):
            logits += 0.0
        return super().predict_proba(logits, **inputs)


class Hiding(Sound):
    """What it has learned is not in its file."""

    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        self.shift = 0.5 if self.temperature_ > 1 else 0.0

    def _temperatures(self, data: Any) -> Any:
        return super()._temperatures(data) + getattr(self, "shift", 0.0)


class Shuffling(Sound):
    """A temperature for every class, under the promise to keep them."""

    name: ClassVar[str] = "broken"

    def predict_proba(self, logits: Any, **inputs: Any) -> Any:
        probs = super().predict_proba(logits, **inputs)
        return probs if abs(logits).max() < 100 else probs[:, [1, 0, 2, 3]]


class Lying(Sound):
    name: ClassVar[str] = "broken"

    def _predict(self, data: Any) -> Any:
        return scaled_softmax(data.logits, 1.01 * self._temperatures(data))


class Eager(Sound):
    name: ClassVar[str] = "broken"

    def predict_proba(self, logits: Any, **inputs: Any) -> Any:
        if not hasattr(self, "num_classes_"):
            return np.full(np.shape(logits), 1 / np.shape(logits)[1])
        return super().predict_proba(logits, **inputs)


class Clinging(Sound):
    """Is still fitted after a fit that failed."""

    name: ClassVar[str] = "broken"

    def _forget(self) -> None:
        pass


class Tuning(Sound):
    """Writes what it has found over what it was given."""

    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        self.strength = 2.0


class Undeclared(Sound):
    name: ClassVar[str] = "broken"

    def __init__(self, *, width: Any = 3, strength: float = 1.0, seed: int = 0) -> None:
        self.width, self.strength, self.seed = width, strength, seed


class Modest(Sound):
    """Uses the graph and does not say so."""

    name: ClassVar[str] = "broken"

    def predict_proba(self, logits: Any, **inputs: Any) -> Any:
        if "graph" not in inputs:
            return np.full(np.shape(logits), 0.25)
        return super().predict_proba(logits, **inputs)


class AnyClasses(Sound):
    name: ClassVar[str] = "broken"

    def _read_fitted(self, logits: Any, **inputs: Any) -> Any:
        self.num_classes_ = np.shape(logits)[1]
        return super()._read_fitted(logits, **inputs)


class Unsummed(Sound):
    name: ClassVar[str] = "broken"

    def _predict(self, data: Any) -> Any:
        return super()._predict(data) * 0.999


class FullLabels(Sound):
    name: ClassVar[str] = "broken"

    def fit(self, logits: Any, y: Any, **inputs: Any) -> Any:
        if len(y) != len(logits):
            raise ValueError("labels of all nodes, please")
        return super().fit(logits, y, **inputs)


class OneKind(Sound):
    """Takes probabilities for logits, whatever it is told."""

    name: ClassVar[str] = "broken"

    def fit(self, logits: Any, y: Any, *, input_type: str = "logits", **inputs: Any) -> Any:
        return super().fit(logits, y, **inputs)


class EdgeOrder(Sound):
    """Reads the edges as they were passed."""

    name: ClassVar[str] = "broken"

    def fit(self, logits: Any, y: Any, **inputs: Any) -> Any:
        super().fit(logits, y, **inputs)
        self.temperature_ += float(testing_edges[-1][0, 0]) / 1000
        return self


class Gossip(Sound):
    """Is less sure of a node whose own label is known to be of the last class."""

    name: ClassVar[str] = "broken"
    optional_inputs: ClassVar[frozenset[str]] = frozenset({"known"})

    def _temperatures(self, data: Any) -> Any:
        temperatures = super()._temperatures(data).clone()
        if data.known is not None:
            temperatures[data.known.index[data.known.y == data.num_classes - 1]] *= 2.0
        return temperatures


class LeftOut(Sound):
    """Class frequencies without the node's own label: what is missing names it."""

    name: ClassVar[str] = "broken"

    def _fit(self, data: Any) -> None:
        super()._fit(data)
        self.labels_ = data.calibration

    def _predict(self, data: Any) -> Any:
        index, y = self.labels_.index, self.labels_.y
        counts = torch.bincount(y, minlength=data.num_classes).double().repeat(data.num_nodes, 1)
        counts[index, y] -= 1.0
        return torch.softmax(-3.0 * counts.to(data.logits.dtype), dim=1)


testing_edges: list[Any] = []

BREAKERS = {
    "says what it is": broken(version="new"),
    "rows are probabilities": Unsummed,
    "no label outside the masks is read": Peeking,
    "no node sees its own label": Gossip,
    "labels of the mask are enough": FullLabels,
    "same seed, same bits": Restless,
    "an offset of logits does not matter, or it says so": Absolute,
    "prediction follows a renaming of nodes": Counting,
    "fit follows a renaming of nodes": FirstNode,
    "order and direction of edges do not matter": EdgeOrder,
    "nodes and graphs not seen before": Remembering,
    "odd problems have an answer": Needy,
    "constant logits have an answer": Constant,
    "output is of the kind of the input": AlwaysArray,
    "inputs are left alone": Writing,
    "saved and loaded gives the same bits": Hiding,
    "predicted classes stay where that is guaranteed": Shuffling,
    "temperatures say what the probabilities are": Lying,
    "nothing is predicted or saved before fit": Eager,
    "a failed fit leaves nothing": Clinging,
    "parameters are stored untouched": Tuning,
    "each parameter refuses what it is not": Undeclared,
    "permuted labels tell nothing": LeftOut,
    "missing inputs are named": Modest,
    "another number of classes is refused": AnyClasses,
    "probabilities are read as their logarithms": OneKind,
}


@pytest.fixture(autouse=True)
def edges_as_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods see edges sorted already; this is the only way to be wrong about their order."""
    original = testing.CheckProblem.inputs

    @functools.wraps(original)
    def inputs(self: testing.CheckProblem, needs: frozenset[str]) -> dict[str, Any]:
        testing_edges[:] = [self.edges] if self.edges.size else [np.zeros((2, 1))]
        return original(self, needs)

    monkeypatch.setattr(testing.CheckProblem, "inputs", inputs)


def test_a_sound_method_from_outside_passes_and_stays_outside() -> None:
    testing.check_calibrator(Sound, strength=2.0)
    testing.check_calibrator(Sound(strength=3.0))
    assert "sound" not in calibrators.names()


def test_every_law_has_one_who_breaks_it() -> None:
    assert set(BREAKERS) == set(testing.CHECKS)


@pytest.mark.parametrize("check", BREAKERS)
def test_a_broken_law_is_named_with_its_remedy(check: str) -> None:
    with pytest.raises(AssertionError, match=f"fails the check '{check}': .*\nRemedy: .") as found:
        testing.run_check(testing.Case(BREAKERS[check]), check)
    assert found.value.__cause__ is not None


def test_the_first_broken_law_ends_the_check() -> None:
    with pytest.raises(AssertionError, match=r"^Peeking fails the check 'no label outside"):
        testing.check_calibrator(Peeking)


def test_a_taken_name_is_told() -> None:
    with pytest.raises(AssertionError, match="'temperature' belongs to TemperatureScaling"):
        testing.check_calibrator(broken(name="temperature"))


def test_only_calibrators_can_be_checked() -> None:
    with pytest.raises(TypeError, match="subclass of Calibrator, got <class 'dict'>"):
        testing.check_calibrator(dict)  # type: ignore[arg-type]
