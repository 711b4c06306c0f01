"""Tables on what calibrated confidence is good for: self-training, detection, posterior networks.

Importing this package registers them.
"""

from simi_mailbox.experiments.downstream import gpn, ood, selftraining

__all__ = ["gpn", "ood", "selftraining"]
