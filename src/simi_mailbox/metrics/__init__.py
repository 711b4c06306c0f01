"""Metrics of probabilistic node classification: plain functions ``(probs, y) -> float``.

Definitions, conventions and what each metric is for: ``docs/metrics.md``.
"""

from simi_mailbox.metrics.calibration_error import (
    Reliability,
    classwise_ece,
    debiased_ece,
    ece,
    kde_ece,
    reliability,
    smooth_ece,
)
from simi_mailbox.metrics.one_class import (
    Alerts,
    alerts,
    auroc,
    average_precision,
    class_ece,
    class_reliability,
    positives,
)
from simi_mailbox.metrics.sampling import Interval as Interval
from simi_mailbox.metrics.sampling import NoiseFloor as NoiseFloor
from simi_mailbox.metrics.sampling import bootstrap_interval, noise_floor
from simi_mailbox.metrics.scores import (
    RiskCoverage,
    accuracy,
    aurc,
    brier,
    edgewise_brier,
    edgewise_ece,
    edgewise_nll,
    error_at_share,
    excess_aurc,
    nll,
    risk_coverage,
)
from simi_mailbox.metrics.sets import (
    GroupCoverage,
    coverage,
    coverage_by_group,
    mean_set_size,
    singleton_share,
)
from simi_mailbox.metrics.streaming import StreamingMetrics, evaluate

__all__ = [
    "Alerts",
    "GroupCoverage",
    "Reliability",
    "RiskCoverage",
    "StreamingMetrics",
    "accuracy",
    "alerts",
    "aurc",
    "auroc",
    "average_precision",
    "bootstrap_interval",
    "brier",
    "class_ece",
    "class_reliability",
    "classwise_ece",
    "coverage",
    "coverage_by_group",
    "debiased_ece",
    "ece",
    "edgewise_brier",
    "edgewise_ece",
    "edgewise_nll",
    "error_at_share",
    "evaluate",
    "excess_aurc",
    "kde_ece",
    "mean_set_size",
    "nll",
    "noise_floor",
    "positives",
    "reliability",
    "risk_coverage",
    "singleton_share",
    "smooth_ece",
]
