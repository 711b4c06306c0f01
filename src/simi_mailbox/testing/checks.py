"""What a check is, and what checks are put together from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox.testing.cases import Case, CheckProblem


@dataclass(frozen=True)
class ContractCheck:
    """What must hold whatever a method does, and what to do where it does not."""

    name: str
    remedy: str
    holds: Callable[[Case], None]


class Checks(dict[str, ContractCheck]):
    """Checks by name, in the order in which a method is held to them."""

    def check(
        self, name: str, remedy: str
    ) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
        """Make a function, which raises `AssertionError` where a method breaks it, a check."""

        def decorate(holds: Callable[[Case], None]) -> Callable[[Case], None]:
            self[name] = ContractCheck(name, remedy, holds)
            return holds

        return decorate


def require(holds: Any, told: str) -> None:
    """``assert``, which `python -O` does not take out."""
    if not holds:
        raise AssertionError(told)


def same(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    require(found.shape == expected.shape, f"shape {found.shape}, expected {expected.shape}")
    if not tolerance:
        rows = int((found != expected).any(axis=1).sum())
        require(not rows, f"{rows} of {len(found)} rows differ")
    gap = float(np.abs(found - expected).max(initial=0.0))
    require(gap <= tolerance, f"probabilities differ by {gap:.2g}, allowed {tolerance:.2g}")


def raises(kind: type[Exception], words: str, call: Callable[[], Any], doing: str) -> None:
    try:
        call()
    except kind as error:
        require(words in str(error), f"{doing}: the error does not say {words!r}: {error}")
    except Exception as error:
        raise AssertionError(f"{doing} raised {error!r}, expected {kind.__name__}") from error
    else:
        raise AssertionError(f"{doing} raised nothing, expected {kind.__name__}")


def probabilities(found: Any, shape: tuple[int, int], tolerance: float = 1e-9) -> None:
    probs = np.asarray(found)
    require(probs.shape == shape, f"shape {probs.shape}, expected {shape}")
    require(np.isfinite(probs).all(), "not all probabilities are finite")
    require((probs >= 0).all(), f"a probability is {probs.min():.3g}")
    gap = float(np.abs(probs.sum(axis=1) - 1).max())
    require(gap <= tolerance, f"a row sums to one only within {gap:.2g}")


def fits(case: Case, problem: CheckProblem, what: str, *, holdout: bool = True) -> Any:
    """Fit on an odd problem and require probabilities of it."""
    try:
        cal = case.fit(problem, holdout=holdout)
        probs = case.predict(cal, problem)
        probabilities(probs, problem.shape)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    return probs
