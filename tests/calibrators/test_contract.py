"""One contract, every calibrator of the registry: what must hold whatever the method does."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from simi_mailbox import calibrators, testing
from simi_mailbox.calibrators.registry import METHODS

QUICK = {"epochs": 10, "patience": 10, "partitions": 2}
every = pytest.mark.parametrize("name", METHODS)


@functools.cache
def case(name: str) -> testing.Case:
    """The method as it comes, with a short training."""
    cls = calibrators.get(name)
    known = cls().get_params()
    return testing.Case(cls, **{key: QUICK[key] for key in QUICK if key in known})


@every
@pytest.mark.parametrize("law", testing.LAWS)
def test_law(name: str, law: str) -> None:
    testing.check_law(case(name), law)


def test_every_method_is_in_the_one_table() -> None:
    classes = [calibrators.get(name) for name in METHODS]
    assert [cls.name for cls in classes] == list(METHODS) == sorted(METHODS)
    bases = {"Calibrator", "NodeTemperatures", "TemperatureCalibrator"}
    exported = {title for title in calibrators.__all__ if title[0].isupper()} - bases
    assert exported == {cls.__name__ for cls in classes}


def test_a_method_from_outside_can_be_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrators.registry, "_FROM_OUTSIDE", {})

    @calibrators.register("mine")
    class Mine(calibrators.Uncalibrated):
        pass

    assert calibrators.get("mine") is Mine
    assert Mine.name == "mine"
    for taken in ("mine", "temperature"):
        with pytest.raises(ValueError, match=f"two calibrators are called '{taken}'"):
            calibrators.register(taken)(Mine)


@every
def test_documentation_says_what_the_class_declares(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "methods.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `{name}`")]
    needs, keeps, holdout = (cell.strip() for cell in row.split("|")[4:7])
    cls = calibrators.get(name)
    assert cls.needs == (frozenset() if needs == "–" else frozenset(needs.split(", ")))
    assert keeps == ("yes" if cls.preserves_accuracy else "no")
    uses = {"training": ("stops on it", "trains on it"), "separate": ("second stage",)}
    assert holdout in uses.get(cls.holdout or "", ("unused",))
