"""Graphs beyond memory: the default on blocks of nodes and tiles of the graph.

The functions of `simi_mailbox.scale.default` are called by this process, with blocks in memory or
on disk, or by the workers of a Dask cluster: see ``docs/scale.md``.
"""

from simi_mailbox.scale.run import Calibrated, FolderMetrics, apply, calibrate, evaluate

__all__ = ["Calibrated", "FolderMetrics", "apply", "calibrate", "evaluate"]
