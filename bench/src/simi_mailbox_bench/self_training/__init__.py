"""Self-training: a GNN labels the nodes it is sure of, and learns again with their help.

How sure it is decides everything, so confidence is calibrated anew in every stage, on the
validation nodes. Wang et al. (NeurIPS 2021) introduced the scheme for graphs.
"""

from simi_mailbox.validation import NO_LABEL
from simi_mailbox_bench.self_training.models import Trainer
from simi_mailbox_bench.self_training.problem import first_per_class
from simi_mailbox_bench.self_training.record import SelfTraining, Stage
from simi_mailbox_bench.self_training.stages import self_train

__all__ = ["NO_LABEL", "SelfTraining", "Stage", "Trainer", "first_per_class", "self_train"]
