"""What other graphs know about miscalibration: a prior, learned from past graphs.

How it is learned and judged is with the experiments (`simi_mailbox_bench.prior`).
"""

from simi_mailbox.prior.families import relatives
from simi_mailbox.prior.files import corpus, learned, leave_out, read, resolve, write
from simi_mailbox.prior.model import Corpus, Prior, Setting

__all__ = [
    "Corpus",
    "Prior",
    "Setting",
    "corpus",
    "learned",
    "leave_out",
    "read",
    "relatives",
    "resolve",
    "write",
]
