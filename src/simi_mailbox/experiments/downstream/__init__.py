"""Tables on what calibrated confidence is good for: self-training, detection, posterior networks.

Importing this package registers them.
"""

# Tables are listed in the order in which they register: those of calibration come first, whoever
# is imported first.
from simi_mailbox.experiments.tables import paper  # noqa: F401  isort: skip
from simi_mailbox.experiments.tables import timing  # noqa: F401  isort: skip
from simi_mailbox.experiments.tables import builtin  # noqa: F401  isort: skip

# isort: split
from simi_mailbox.experiments.downstream import gpn, ood, selftraining

__all__ = ["gpn", "ood", "selftraining"]
