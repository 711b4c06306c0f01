"""A method as the tables use it: its class, its settings on a graph, and what it is given."""

from __future__ import annotations

import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from simi_mailbox.experiments import published
from simi_mailbox.experiments.protocol import Run
from simi_mailbox.suggestions import unknown

# Methods whose seed decides about k-means only: the published code fixes it.
_FIXED_SEED = ("simi-mailbox", "simi-mailbox-paper", "simi-mailbox-oracle")

NOTES = {
    "simi-mailbox-oracle": "reads test labels",
    "simcalib": "our reading",
}


@dataclass(frozen=True)
class Method:
    """A method and the settings that a table gives it beyond the published ones.

    Examples
    --------
    >>> Method.of("simi-mailbox-oracle", n_groups=5)
    Method(name='simi-mailbox-oracle', overrides=(('n_groups', 5),))
    """

    name: str
    overrides: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, **overrides: Any) -> Method:
        """A method with overrides given as keywords."""
        return cls(name, tuple(sorted(overrides.items())))

    def build(self, run: Run) -> Any:
        """The unfitted calibrator for one run."""
        calibrator = self._without_seed(run)
        if _is_seeded(self, calibrator):
            calibrator.set_params(seed=seed_of(run))
        return calibrator

    def identity(self, run: Run) -> dict[str, Any]:
        """What decides about this method's result on a run, in plain words and numbers."""
        known = _identity(self, run.dataset, run.backbone)
        seeded = {"seed": seed_of(run)} if known["seeded"] else {}
        return {
            "method": self.name,
            "revision": known["revision"],
            "settings": {**known["settings"], **seeded},
        }

    def _without_seed(self, run: Run) -> Any:
        cls = find(self.name)
        chosen = published.settings(self.name, run.dataset, run.backbone)
        if "prior" in inspect.signature(cls).parameters:
            prior = prior_for(run.dataset)
            if prior is not None:
                chosen["prior"] = prior
        return cls(**{**chosen, **dict(self.overrides)})


def _is_seeded(method: Method, calibrator: Any) -> bool:
    if method.name in _FIXED_SEED or "seed" in dict(method.overrides):
        return False
    return "seed" in calibrator.get_params()


@functools.cache
def _identity(method: Method, dataset: str, backbone: str) -> dict[str, Any]:
    """What all runs of a cell share; worked out once, because a table asks thousands of times."""
    calibrator = method._without_seed(Run(dataset, backbone, ""))
    return {
        "revision": calibrator.version + published.REVISED.get(method.name, 0),
        "settings": {name: describe(value) for name, value in calibrator.get_params().items()},
        "seeded": _is_seeded(method, calibrator),
    }


def seed_of(run: Run) -> int:
    """Seed of whatever a method draws on a run: different for every run, the same for ever."""
    return run.init + 10 * (run.fold + 10 * run.split)


def names() -> list[str]:
    """Every method that a table can show: the registry's, and the oracle.

    Examples
    --------
    >>> "simi-mailbox-oracle" in names()
    True
    """
    from simi_mailbox import calibrators
    from simi_mailbox.experiments.oracle import ORACLE

    return [*calibrators.names(), ORACLE]


def find(name: str) -> Any:
    """Class of a method by its name; an unknown name lists the choices."""
    from simi_mailbox import calibrators
    from simi_mailbox.experiments.oracle import ORACLE, SimiMailboxOracle

    if name == ORACLE:
        return SimiMailboxOracle
    if name in calibrators.names():
        return calibrators.get(name)
    raise ValueError(unknown("method", name, names()))


def prior_for(dataset: str) -> Any:
    """The prior learned without this graph and its relatives; None while there is none.

    Every table leaves the graph it measures on, and all graphs of its family, out of the prior.
    """
    try:
        prior = importlib.import_module("simi_mailbox.prior")
    except ModuleNotFoundError:
        return None
    leave_out = getattr(prior, "leave_out", None)
    return None if leave_out is None else leave_out(dataset)


def describe(value: Any) -> Any:
    """A setting as something JSON can hold and a reader can compare."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    fingerprint = getattr(value, "fingerprint", None)
    if fingerprint is not None:
        text = fingerprint() if callable(fingerprint) else fingerprint
        return f"{type(value).__name__}:{text}"
    return repr(value)
