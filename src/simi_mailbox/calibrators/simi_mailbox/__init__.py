"""The method: `SimiMailbox` with its evidence, model, groups and prior, and the paper's own."""

from simi_mailbox.calibrators.simi_mailbox.calibrator import SimiMailbox, SimiMailboxFree
from simi_mailbox.calibrators.simi_mailbox.paper import SimiMailboxPaper

__all__ = ["SimiMailbox", "SimiMailboxFree", "SimiMailboxPaper"]
