"""A method as the tables use it: its class, its settings on a graph, and what it is given."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from simi_mailbox import calibrators
from simi_mailbox.calibrators.simi_mailbox.prior import leave_out
from simi_mailbox.plain_text import unknown
from simi_mailbox_bench.ablation import ABLATED, SimiMailboxAblated
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.oracle import ORACLE, SimiMailboxOracle
from simi_mailbox_bench.rivals import LABEL_RIVALS, RIVALS

# Methods whose seed decides about k-means only: the published code fixes it.
_FIXED_SEED = ("simi-mailbox", "simi-mailbox-free", "simi-mailbox-paper", ABLATED, ORACLE)

WITH_HIDDEN = "+hidden"
"""Behind a method's name: it is also given the hidden layer, which it takes but does not need."""
HIDDEN = tuple(f"{name}{WITH_HIDDEN}" for name in ("simi-mailbox", "simi-mailbox-free"))

NOTES = {
    ORACLE: "reads test labels",
    "simcalib": "reimplementation",
    **dict.fromkeys(HIDDEN, "with hidden"),
    **dict.fromkeys(RIVALS, "probmetrics"),
    **dict.fromkeys(LABEL_RIVALS, "also training labels"),
}


@dataclass(frozen=True)
class Method:
    """A method and the settings that a table gives it beyond the published ones."""

    name: str
    overrides: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, **overrides: Any) -> Method:
        """A method with overrides given as keywords."""
        return cls(name, tuple(sorted(overrides.items())))

    @classmethod
    def as_shipped(cls, name: str, **overrides: Any) -> Method:
        """A method with the defaults of its class, as users meet it, whatever was published."""
        return cls.of(name, **{**_defaults(find(name)), **overrides})

    def __str__(self) -> str:
        return self.name

    def settings(self, run: RunKey) -> dict[str, Any]:
        """All parameters on a run: defaults, published settings, then the overrides.

        Whoever takes a prior gets the one learned without the run's graph and its relatives.
        """
        chosen = _defaults(find(self.name))
        name = self.name.removesuffix(WITH_HIDDEN)
        given = published_settings(name, run.dataset, run.backbone) | dict(self.overrides)
        if "prior" in chosen and "prior" not in given:
            given["prior"] = leave_out(run.dataset)
        if "seed" in chosen and name not in _FIXED_SEED:
            given.setdefault("seed", seed_of(run))
        return {**chosen, **given}

    def build(self, run: RunKey) -> Any:
        """The unfitted calibrator for one run."""
        return find(self.name)(**self.settings(run))

    def identity(self, run: RunKey) -> dict[str, Any]:
        """What decides about this method's result on a run, in plain words and numbers."""
        return {
            "method": self.name,
            "revision": find(self.name).version + REVISED.get(self.name, 0),
            "settings": {name: describe(value) for name, value in self.settings(run).items()},
        }


@functools.cache
def _defaults(cls: Any) -> Mapping[str, Any]:
    """Worked out once for each class, because a table asks thousands of times."""
    return MappingProxyType(cls().get_params())


def seed_of(run: RunKey) -> int:
    """Seed of whatever a method draws on a run: different for every run, the same for ever."""
    return run.init + 10 * (run.fold + 10 * run.split)


def names() -> list[str]:
    """Every method of a table: the registry's, probmetrics', the oracle and ablations."""
    return [*calibrators.names(), *HIDDEN, *RIVALS, *LABEL_RIVALS, ABLATED, ORACLE]


def find(name: str) -> Any:
    """Class of a method by its name; an unknown name lists the choices."""
    name = name.removesuffix(WITH_HIDDEN) if name in (*HIDDEN, ABLATED + WITH_HIDDEN) else name
    others = {ORACLE: SimiMailboxOracle, ABLATED: SimiMailboxAblated} | RIVALS | LABEL_RIVALS
    if name in others:
        return others[name]
    try:
        return calibrators.get(name)
    except ValueError:
        if name in names():
            raise
        raise ValueError(unknown("method", name, names())) from None


def describe(value: Any) -> Any:
    """A setting as something JSON can hold and a reader can compare."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    return repr(value)


# What a method that needs features is given: the graph's node features, as the backbone saw them,
# or the backbone's hidden representation (the output of its first layer).
FEATURES = {
    "retrained": "retrained",
    "group-calibration": "hidden",
    "simcalib": "hidden",
}

# How often what a method is given has changed; part of a row's identity.
# gets: once, from raw features to those the backbone saw.
REVISED = {"gets": 1}


_PUBLISHED = tomllib.loads((files(__package__) / "published.toml").read_text(encoding="utf-8"))


def published_settings(method: str, dataset: str, backbone: str) -> dict[str, Any]:
    """Published settings of a method on a graph; empty where its defaults are used."""
    graphs = _PUBLISHED.get(method, {})
    found = graphs.get(dataset, graphs.get("", {}))
    return {
        name: value[backbone == "gat"] if isinstance(value, list) else value
        for name, value in found.items()
    }
