"""The default method with one part left out: for the table `ablation`, not for use."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar
from unittest.mock import patch

import torch

from simi_mailbox._arrays import Ints
from simi_mailbox.calibrators.simi_mailbox import model
from simi_mailbox.calibrators.simi_mailbox.calibrator import SimiMailbox
from simi_mailbox.calibrators.simi_mailbox.evidence import CLASSES
from simi_mailbox.calibrators.simi_mailbox.model import EXPONENTS, Coefficients, Nodes
from simi_mailbox.calibrators.simi_mailbox.prior import MODES, Prior
from simi_mailbox.parameters import hyperparameters

ABLATED = "simi-mailbox-ablated"
TERMS = {
    "degree": EXPONENTS,
    "neighbours": ("neighbours",),
    "neighbours_2_steps": ("neighbours_2_steps",),
    "both neighbour terms": ("neighbours", "neighbours_2_steps"),
    "labels": ("labels",),
    "labels_2_steps": ("labels_2_steps",),
    "both label terms": ("labels", "labels_2_steps"),
}
PARTS = (*TERMS, "intercepts", "uniform mixture", "selection bias")


@hyperparameters
class SimiMailboxAblated(SimiMailbox):
    """`SimiMailbox` without one of its `PARTS`; ``without=""`` leaves none out."""

    name: ClassVar[str] = ABLATED

    without: str = ""

    def _fit_model(self, nodes: Nodes, y: Ints, prior: Prior, **options: Any) -> None:
        if self.without not in ("", *PARTS):
            raise ValueError(f"without must be one of {', '.join(PARTS)}, got {self.without!r}")
        if self.without == "selection bias":
            prior = replace(prior, bias=dict.fromkeys(MODES, 0.0))
        if self.without == "uniform mixture":
            prior = replace(prior, plain=_unmixed(prior.plain), hidden=_unmixed(prior.hidden))
        terms = TERMS.get(self.without, ())
        # A term that is zero on every node changes no likelihood, whatever its coefficient.
        nodes = replace(
            nodes,
            exponents=nodes.exponents * torch.tensor([name not in terms for name in EXPONENTS]),
            classes=[
                torch.zeros_like(part) if name in terms else part
                for name, part in zip(CLASSES, nodes.classes, strict=False)
            ],
        )
        narrow = patch.multiple(model, INTERCEPT_WIDTHS=(1e-4,), INTERCEPTS_TYPICAL=1e-4)
        with narrow if self.without == "intercepts" else nullcontext():
            super()._fit_model(nodes, y, prior, **options)
        self.coefficients_ |= dict.fromkeys(terms, 0.0)


def _unmixed(belief: Coefficients) -> Coefficients:
    return Coefficients(
        {**belief.location, "uniform": -torch.inf}, {**belief.spread, "uniform": model.EXACT}
    )
