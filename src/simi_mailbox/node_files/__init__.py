"""Files of users' own: logits, edges, labels and node sets in, probabilities and decisions out."""

from simi_mailbox.node_files.columns import Columns
from simi_mailbox.node_files.formats import READS, STANDARD, read_file
from simi_mailbox.node_files.problem import NodeNames, Problem, read_problem
from simi_mailbox.node_files.writing import (
    WRITES,
    check_writable,
    write_alerts,
    write_decisions,
    write_probabilities,
)

__all__ = [
    "READS",
    "STANDARD",
    "WRITES",
    "Columns",
    "NodeNames",
    "Problem",
    "check_writable",
    "read_file",
    "read_problem",
    "write_alerts",
    "write_decisions",
    "write_probabilities",
]
