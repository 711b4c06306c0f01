"""A table that needs no data: the same comparison on the built-in graph of digits."""

from __future__ import annotations

from simi_mailbox.experiments.tables.calibration import CalibrationTable
from simi_mailbox.experiments.tables.paper import FIXED, PLAIN, THREE_READINGS
from simi_mailbox.experiments.tables.registry import register

DIGITS = CalibrationTable(
    name="digits",
    shows="a quick look: the built-in digits graph, nothing to download, not in the paper",
    datasets=("Digits",),
    backbones=("gcn", "mlp"),
    columns=(*PLAIN, *THREE_READINGS),
    protocol="sparse",
    caption=(FIXED,),
)

register(DIGITS)
