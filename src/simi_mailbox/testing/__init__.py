"""The contract of calibrators: checks that any method is held to, also one from outside."""

from typing import Any

from simi_mailbox.calibrators import Calibrator
from simi_mailbox.testing import interface_checks, label_checks, result_checks
from simi_mailbox.testing.cases import PROBLEM as PROBLEM
from simi_mailbox.testing.cases import Case
from simi_mailbox.testing.cases import CheckProblem as CheckProblem
from simi_mailbox.testing.checks import ContractCheck

__all__ = ["check_calibrator"]

CHECKS: dict[str, ContractCheck] = {
    **result_checks.CHECKS,
    **label_checks.CHECKS,
    **interface_checks.CHECKS,
}
"""The whole contract, by name of the check."""


def check_calibrator(method: type[Calibrator] | Calibrator, **params: Any) -> None:
    """Hold a calibrator to the whole contract; the first check that it breaks is named.

    Shapes, sums, array kinds and types; determinism; names of nodes and order of edges that must
    not matter; nodes and graphs not seen before; odd problems (one label, one node, no edge);
    files; parameters; errors; kept classes and temperatures where they are guaranteed; and that no
    label outside the masks is read (`simi_mailbox.audit.reads_only`), nor permuted ones believed.

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
        The check that is broken, how, and the remedy.

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
    check = CHECKS[name]
    try:
        check.holds(case)
    except Exception as error:
        told = str(error).strip() if isinstance(error, AssertionError) else repr(error)
        raise AssertionError(
            f"{case.cls.__name__} fails the check {name!r}: {told}\nRemedy: {check.remedy}"
        ) from error
