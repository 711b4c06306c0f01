"""The contract of calibrators: checks that any method is held to, also one from outside."""

import inspect
from typing import Any

from simi_mailbox.calibrators import Calibrator
from simi_mailbox.testing.checks import CHECKS as CHECKS
from simi_mailbox.testing.checks import PROBLEM as PROBLEM
from simi_mailbox.testing.checks import Case as Case
from simi_mailbox.testing.checks import CheckProblem as CheckProblem

__all__ = ["check_calibrator"]


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
