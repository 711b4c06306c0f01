"""Decide with probabilities: prediction sets, acceptance rules and costs with guarantees.

What each guarantees, and how well it held where it was measured: ``docs/decide.md``.
"""

from simi_mailbox.decide.base import load_rule
from simi_mailbox.decide.costs import Costs
from simi_mailbox.decide.scores import APS, DAPS, LAC, RAPS, SNAPS, Score
from simi_mailbox.decide.sets import PredictionSets
from simi_mailbox.decide.thresholds import Accept, Alert, Workload

__all__ = [
    "APS",
    "DAPS",
    "LAC",
    "RAPS",
    "SNAPS",
    "Accept",
    "Alert",
    "Costs",
    "PredictionSets",
    "Score",
    "Workload",
    "load_rule",
]
