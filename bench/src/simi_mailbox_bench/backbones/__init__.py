"""Backbones in plain PyTorch, their training, and the cache of trained logits."""

from simi_mailbox_bench.backbones.cached_runs import CachedRun, RunCache, RunKey
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.settings import Settings, settings_for
from simi_mailbox_bench.backbones.training import build, train

__all__ = ["CachedRun", "Features", "RunCache", "RunKey", "Settings", "build", "settings_for"]
__all__ += ["train"]
