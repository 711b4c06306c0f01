"""Out-of-distribution detection: which nodes does the model know nothing about?

Scores turn a model's outputs into one number per node, `evaluate` says how well a score separates
known from unknown nodes, and the perturbations make unknown nodes to test with.
"""

from simi_mailbox_bench.ood.classifier import (
    ClassifierSettings,
    TrainedClassifier,
    train_classifier,
)
from simi_mailbox_bench.ood.metrics import Detection, evaluate
from simi_mailbox_bench.ood.perturb import (
    LeftOut,
    interpolated_features,
    leave_out_classes,
    random_blocks,
)
from simi_mailbox_bench.ood.scores import (
    calibrated_confidence,
    energy,
    evidence,
    max_probability,
    propagated_energy,
)

__all__ = [
    "ClassifierSettings",
    "Detection",
    "LeftOut",
    "TrainedClassifier",
    "calibrated_confidence",
    "energy",
    "evaluate",
    "evidence",
    "interpolated_features",
    "leave_out_classes",
    "max_probability",
    "propagated_energy",
    "random_blocks",
    "train_classifier",
]
