"""Graph posterior networks: class probabilities with evidence behind them.

A GPN (Stadler et al., NeurIPS 2021) encodes the features of every node, asks one density per class
how often such features were seen in training, and spreads that evidence over the graph by
personalised PageRank.
"""

from simi_mailbox_bench.backbones.gpn.flows import RadialFlows
from simi_mailbox_bench.backbones.gpn.network import (
    GPN,
    GPNPrediction,
    GPNSettings,
    personalised_pagerank,
)
from simi_mailbox_bench.backbones.gpn.training import TrainedGPN, train_gpn

__all__ = [
    "GPN",
    "GPNPrediction",
    "GPNSettings",
    "RadialFlows",
    "TrainedGPN",
    "personalised_pagerank",
    "train_gpn",
]
