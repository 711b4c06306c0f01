"""Declared parameters: what is refused, what is not, and in which words."""

from typing import Any, Literal

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from simi_mailbox import parameters


@parameters.hyperparameters
class Parent(BaseEstimator):
    epochs: parameters.Count = 10
    seed: parameters.Whole = 0


@parameters.hyperparameters
class Child(Parent):
    epochs: parameters.Count = 20
    rate: parameters.Positive | None = None
    decay: parameters.NonNegative = 0.0
    dropout: parameters.Share = 0.5
    solver: Literal["exact", "adam"] = "exact"
    strict: bool = False
    path: str | None = None
    extra: Any = None


def test_arguments_are_keywords_with_the_defaults_of_the_nearest_class() -> None:
    assert Child().get_params() == {
        "epochs": 20, "seed": 0, "rate": None, "decay": 0.0, "dropout": 0.5,
        "solver": "exact", "strict": False, "path": None, "extra": None,
    }  # fmt: skip
    assert Parent().epochs == 10
    with pytest.raises(TypeError, match="positional"):
        Child(5)  # type: ignore[misc]
    assert repr(Child(epochs=3)) == "Child(epochs=3)"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epochs": 0}, "epochs must be a whole number ≥ 1, got 0"),
        ({"epochs": 2.0}, "epochs must be a whole number ≥ 1, got 2.0"),
        ({"epochs": True}, "epochs must be a whole number ≥ 1, got True"),
        ({"epochs": "5"}, "epochs must be a whole number ≥ 1, got '5'"),
        ({"seed": -1}, "seed must be a whole number ≥ 0, got -1"),
        ({"rate": 0}, "rate must be a finite number > 0 or None, got 0"),
        ({"rate": float("nan")}, "rate must be a finite number > 0 or None, got nan"),
        ({"decay": float("inf")}, "decay must be a finite number ≥ 0, got inf"),
        ({"dropout": 1.0}, "dropout must be a finite number in [0, 1), got 1.0"),
        ({"solver": "sgd"}, "solver must be 'exact' or 'adam', got 'sgd'"),
        ({"strict": 1}, "strict must be True or False, got 1"),
        ({"path": 3}, "path must be a str or None, got 3"),
    ],
)
def test_what_was_given_and_what_was_expected_is_one_line(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match="must be") as refused:
        parameters.check_parameters(Child(**given))
    assert str(refused.value) == words


def test_numbers_of_numpy_are_numbers_and_what_is_not_declared_is_free() -> None:
    parameters.check_parameters(
        Child(epochs=np.int32(3), rate=np.float32(0.5), decay=1, extra=object())
    )

    class Plain(BaseEstimator):
        def __init__(self, *, size=1):
            self.size = size

    parameters.check_parameters(Plain(size="any"))
