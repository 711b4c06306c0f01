"""What other graphs know about miscalibration: a prior, learned from past graphs."""

from simi_mailbox.prior.corpus import Corpus, Setting
from simi_mailbox.prior.files import read, write
from simi_mailbox.prior.model import Prior
from simi_mailbox.prior.past import PastRun, gather
from simi_mailbox.prior.runfile import read_run, write_run
from simi_mailbox.prior.shipped import corpus, learned, leave_out, resolve

__all__ = [
    "Corpus",
    "PastRun",
    "Prior",
    "Setting",
    "corpus",
    "gather",
    "learned",
    "leave_out",
    "read",
    "read_run",
    "resolve",
    "write",
    "write_run",
]
