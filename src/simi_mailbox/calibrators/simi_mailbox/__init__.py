"""The method of the package: `SimiMailbox`, its evidence, model, groups and prior; the paper's own."""

from simi_mailbox.calibrators.simi_mailbox.calibrator import SimiMailbox, SimiMailboxFree
from simi_mailbox.calibrators.simi_mailbox.paper import SimiMailboxPaper

__all__ = ["SimiMailbox", "SimiMailboxFree", "SimiMailboxPaper"]
