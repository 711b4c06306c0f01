"""Whether probabilities can still be trusted on nodes whose labels are not known yet."""

from simi_mailbox.monitor.check import Check, Monitor
from simi_mailbox.monitor.stream import Stream

__all__ = ["Check", "Monitor", "Stream"]
