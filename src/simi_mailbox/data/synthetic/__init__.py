"""Synthetic graphs and calibration problems whose truth is known."""

from simi_mailbox.data.synthetic.block_model import BlockModel, stream_edges
from simi_mailbox.data.synthetic.copies import CopiedPages, copied_pages
from simi_mailbox.data.synthetic.csbm import SyntheticGraph, csbm
from simi_mailbox.data.synthetic.problem import CalibrationProblem, calibration_problem

__all__ = [
    "BlockModel",
    "CalibrationProblem",
    "CopiedPages",
    "SyntheticGraph",
    "calibration_problem",
    "copied_pages",
    "csbm",
    "stream_edges",
]
