"""Published settings of the compared methods, per graph and backbone, as data.

Sources: the configuration files of hans66hsu/GATS @80cfd00 (GATS, CaGCN as used in its tables) and
ZhuangDingyi/GETS @4403410. What is not listed here is the default of the method's class.
"""

from __future__ import annotations

from typing import Any

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
FEATURES = {"gets": "nodes", "group-calibration": "hidden", "simcalib": "hidden"}

# How often what a method is given has changed; part of a row's identity.
# gets: once, from raw features to those the backbone saw.
REVISED = {"gets": 1}


def settings(method: str, dataset: str, backbone: str) -> dict[str, Any]:
    """Published settings of a method on a graph; empty where its defaults are used.

    Backbones other than GCN and GAT take the GCN's settings.

    Examples
    --------
    >>> settings("gats", "Cora", "gat")
    {'weight_decay': 0.01}
    >>> settings("temperature", "Cora", "gat")
    {}
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
