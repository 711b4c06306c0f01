"""How a prior is learned from past runs, and judged on graphs it was not learned on."""

from simi_mailbox_bench.prior.learning import gather
from simi_mailbox_bench.prior.past_runs import PastRun, read_run, write_run

__all__ = ["PastRun", "gather", "read_run", "write_run"]
