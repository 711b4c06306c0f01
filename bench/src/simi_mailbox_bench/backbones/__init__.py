"""Backbones in plain PyTorch, their training, and the cache of trained logits."""

from simi_mailbox_bench.backbones.cached_runs import CachedRun, RunCache, RunKey
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.networks import GAT, GCN, GIN, MLP, SAGE, Backbone
from simi_mailbox_bench.backbones.settings import Settings, settings_for
from simi_mailbox_bench.backbones.training import TrainedRun, build, train

__all__ = [
    "GAT",
    "GCN",
    "GIN",
    "MLP",
    "SAGE",
    "Backbone",
    "CachedRun",
    "Features",
    "RunCache",
    "RunKey",
    "Settings",
    "TrainedRun",
    "build",
    "settings_for",
    "train",
]
