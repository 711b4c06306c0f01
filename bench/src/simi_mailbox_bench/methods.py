"""A method as the tables use it: its class, its settings on a graph, and what it is given."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from simi_mailbox import calibrators
from simi_mailbox.calibrators.simi_mailbox.prior import leave_out
from simi_mailbox.plain_text import unknown
from simi_mailbox_bench.ablation import ABLATED, SimiMailboxAblated
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.label_rivals import LABEL_RIVALS
from simi_mailbox_bench.oracle import ORACLE, SimiMailboxOracle
from simi_mailbox_bench.rivals import RIVALS

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
    if name == ORACLE:
        return SimiMailboxOracle
    if name == ABLATED:
        return SimiMailboxAblated
    if name in RIVALS or name in LABEL_RIVALS:
        return (RIVALS | LABEL_RIVALS)[name]
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


# Published settings of the compared methods. Sources: the configuration files of
# hans66hsu/GATS @80cfd00 (GATS, CaGCN as used in its tables) and ZhuangDingyi/GETS @4403410. What
# is not listed here is the default of the method's class.
# Weight decay of GATS with (GCN, GAT). Eight heads and T0 = 1 everywhere, but for CoraFull.
_GATS_WEIGHT_DECAY = {
    "Cora": (0.005, 0.01),
    "Citeseer": (0.005, 0.01),
    "Pubmed": (0.0, 0.2),
    "Computers": (0.0, 0.0),
    "Photo": (0.0, 0.0),
    "CS": (0.001, 0.001),
    "Physics": (0.001, 0.001),
    "CoraFull": (0.01, 0.005),
}
_GATS_INITIAL = {"CoraFull": 1.5}
_CAGCN_WEIGHT_DECAY = {"CoraFull": 0.03}

# GETS: learning rate, weight decay, dropout, experts kept, hidden, feature and degree widths.
_GETS_NAMES = (
    "lr", "weight_decay", "dropout", "select", "hidden", "feature_hidden", "degree_hidden",
)  # fmt: skip
_GETS = {
    "Citeseer": (0.1, 0.01, 0.2, 2, 16, 32, 64),
    "Computers": (0.1, 0.0, 0.8, 2, 16, 64, 16),
    "CoraFull": (0.1, 0.0, 0.8, 1, 16, 64, 16),
    "Cora": (0.001, 0.0, 0.5, 2, 16, 16, 16),
    "CS": (0.1, 0.0, 0.8, 1, 16, 64, 32),
    "Arxiv": (0.1, 0.01, 0.2, 2, 16, 64, 64),
    "Photo": (0.1, 0.001, 0.8, 2, 32, 64, 32),
    "Physics": (0.1, 0.001, 0.2, 1, 16, 64, 64),
    "Pubmed": (0.1, 0.0, 0.8, 1, 16, 64, 64),
    "Reddit2": (0.01, 0.001, 0.8, 2, 64, 64, 32),
}
_GETS_BALANCE = {"Photo": 0.1}

# What a method that needs features is given: the graph's node features, as the backbone saw them,
# or the backbone's hidden representation (the output of its first layer).
FEATURES = {
    "gets": "nodes",
    "retrained": "retrained",
    "group-calibration": "hidden",
    "simcalib": "hidden",
}

# How often what a method is given has changed; part of a row's identity.
# gets: once, from raw features to those the backbone saw.
REVISED = {"gets": 1}


def published_settings(method: str, dataset: str, backbone: str) -> dict[str, Any]:
    """Published settings of a method on a graph; empty where its defaults are used.

    Backbones other than GCN and GAT take the GCN's settings.
    """
    if method == "vector":
        # The optimiser behind the published tables is handed the scales and not the biases.
        return {"bias": False}
    if method == "gats" and dataset in _GATS_WEIGHT_DECAY:
        decay = {"weight_decay": _GATS_WEIGHT_DECAY[dataset][backbone == "gat"]}
        return decay | ({"start": _GATS_INITIAL[dataset]} if dataset in _GATS_INITIAL else {})
    if method == "cagcn" and dataset in _CAGCN_WEIGHT_DECAY:
        return {"weight_decay": _CAGCN_WEIGHT_DECAY[dataset]}
    if method == "gets" and dataset in _GETS:
        chosen = dict(zip(_GETS_NAMES, _GETS[dataset], strict=True))
        return chosen | ({"balance": _GETS_BALANCE[dataset]} if dataset in _GETS_BALANCE else {})
    return {}
