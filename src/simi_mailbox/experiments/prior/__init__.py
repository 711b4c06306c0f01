"""How a prior is learned from past runs, and judged on graphs it was not learned on."""

from simi_mailbox.experiments.prior.judged_table import judged
from simi_mailbox.experiments.prior.learning import gather
from simi_mailbox.experiments.prior.past_runs import PastRun, read_run, write_run

__all__ = ["PastRun", "gather", "judged", "read_run", "write_run"]
