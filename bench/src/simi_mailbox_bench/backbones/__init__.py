"""Backbones in plain PyTorch, their training, and the bank of trained logits."""

from simi_mailbox_bench.backbones.backbones import GCN, GIN, MLP, SAGE, Backbone
from simi_mailbox_bench.backbones.bank import BankedRun, LogitBank, RunKey
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.gat import GAT
from simi_mailbox_bench.backbones.settings import Settings, settings_for
from simi_mailbox_bench.backbones.training import TrainedRun, build, train

__all__ = [
    "GAT",
    "GCN",
    "GIN",
    "MLP",
    "SAGE",
    "Backbone",
    "BankedRun",
    "Features",
    "LogitBank",
    "RunKey",
    "Settings",
    "TrainedRun",
    "build",
    "settings_for",
    "train",
]
