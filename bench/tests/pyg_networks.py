"""The backbones from PyG's layers, with the weights of ours."""

from itertools import pairwise

import pytest
import torch
from torch import nn

pyg = pytest.importorskip("torch_geometric.nn", reason="PyG is the reference here")


def gin(wide, narrow):
    return pyg.GINConv(nn.Sequential(nn.Linear(wide, 64), nn.ReLU(), nn.Linear(64, narrow)))


def gat(wide, narrow):
    if narrow == 64:
        return pyg.GATConv(wide, 8, heads=8)
    return pyg.GATConv(wide, narrow, heads=1, concat=False)


# Kind of layer, and what our networks call its parameters; {} is the number of the layer.
LAYERS = {
    "gcn": (pyg.GCNConv, {"lin.weight": "weight{}", "bias": "bias{}"}),
    "gat": (
        gat,
        {"lin.weight": "weight{}", "bias": "bias{}", "att_src": "source{}", "att_dst": "target{}"},
    ),
    "sage": (
        pyg.SAGEConv,
        {"lin_l.weight": "weight{}", "lin_l.bias": "bias{}", "lin_r.weight": "own{}"},
    ),
    "gin": (
        gin,
        {f"nn.{2 * k}.{name}": f"{name}{{}}{k}" for k in (0, 1) for name in ("weight", "bias")},
    ),
}


def pyg_network(backbone, model, widths):
    """Function of features, edges and edge weights, and its layers."""
    kind, names = LAYERS[backbone]
    layers = nn.ModuleList(kind(*ends) for ends in pairwise(widths))
    with torch.no_grad():
        for depth, layer in enumerate(layers):
            for name, ours in names.items():
                parameter = layer.get_parameter(name)
                value = model.get_parameter(ours.format(depth))
                value = value.T if name.endswith("weight") else value
                parameter.copy_(value.reshape(parameter.shape))
    activation = nn.functional.elu if backbone == "gat" else torch.relu

    def forward(x, edges, *weight):
        for depth, layer in enumerate(layers):
            x = layer(activation(x) if depth else x, edges, *weight)
        return x

    return forward, layers
