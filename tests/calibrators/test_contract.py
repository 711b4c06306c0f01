"""One contract, every calibrator of the registry: what must hold whatever the method does."""

import functools
from pathlib import Path
from typing import Any

import pytest

from simi_mailbox import calibrators, testing
from simi_mailbox.calibrators.registry import METHODS

QUICK = {"epochs": 10, "patience": 10, "partitions": 2}
every = pytest.mark.parametrize("name", METHODS)


@functools.cache
def case(name):
    """The method as it comes, with a short training."""
    cls = calibrators.get(name)
    known = cls().get_params()
    return testing.Case(cls, **{key: QUICK[key] for key in QUICK if key in known})


@every
@pytest.mark.parametrize("check", testing.CHECKS)
def test_check(name, check):
    testing.run_check(case(name), check)


NO_COUNT = (-1, 0.5, None)
SENSELESS: dict[str, dict[str, Any]] = {
    "cagcn": {"hidden": 0, "dropout": 1.0, "margin": -1.0, "lr": -0.1, "patience": 0},
    "dcgc": {"alpha": 0.0, "beta": -1.0, "dropout": 1.0},
    "dirichlet": {"penalty": 0.0, "intercept_penalty": 0.0},
    "gats": {"heads": NO_COUNT, "start": 0.0, "epochs": 0},
    "gets": {"select": 8, "hidden": 0, "dropout": 1.0, "noise": -1.0, "balance": -1.0}
    | {"seed": NO_COUNT},
    "group-calibration": {"base": "vector", "n_groups": 0, "penalty": -1.0}
    | {"partitions": (0, *NO_COUNT), "steps": (0, *NO_COUNT)},
    "histogram": {"bins": (0, *NO_COUNT)},
    "isotonic": {"prior_strength": -1.0},
    "ratio-binned": {"bins": (0, *NO_COUNT)},
    "simcalib": {"hidden": 0, "lr": -1.0, "epochs": 0},
    "simi-mailbox": {"n_groups": (0, *NO_COUNT), "scaling": "log"},
    "simi-mailbox-paper": {"n_groups": NO_COUNT, "penalty": -1, "solver": "sgd"},
    "vector": {"penalty": (0.0, -1.0)},
    "wats": {"order": -1, "scale": -1.0, "kernel": "x", "hidden": 0, "dropout": 1.0}
    | {"patience": NO_COUNT},
}


@pytest.mark.parametrize("name", SENSELESS)
def test_settings_that_make_no_sense_are_named(name):
    for key, values in SENSELESS[name].items():
        for value in values if isinstance(values, tuple) else (values,):
            with pytest.raises(ValueError, match=f"^{key} must be .*, got "):
                case(name).fit(testing.PROBLEM, **{key: value})


def test_every_method_is_in_the_one_table():
    classes = [calibrators.get(name) for name in METHODS]
    assert [cls.name for cls in classes] == list(METHODS) == sorted(METHODS)
    bases = {"Calibrator", "TemperatureCalibrator"}
    exported = {title for title in calibrators.__all__ if title[0].isupper()} - bases
    assert exported == {cls.__name__ for cls in classes}


@every
def test_documentation_says_what_the_class_declares(name):
    page = Path(__file__).parents[2] / "docs" / "methods.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `{name}`")]
    needs, keeps, holdout = (cell.strip() for cell in row.split("|")[4:7])
    cls = calibrators.get(name)
    assert cls.required_inputs == (frozenset() if needs == "–" else frozenset(needs.split(", ")))
    assert keeps == ("yes" if cls.keep_classes else "no")
    uses = {"training": ("stops on it", "trains on it"), "separate": ("second stage",)}
    assert holdout in uses.get(cls.holdout or "", ("unused",))
