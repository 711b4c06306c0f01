"""Proof that a calibrator or a decision rule reads no label outside its masks."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simi_mailbox.inputs import read_index

DRAWS = 3
OUTPUTS = ("predict_proba", "predict_sets", "accepts")
"""What calibrators, prediction sets and acceptance rules answer with."""


@dataclass(frozen=True)
class Audit:
    """Outcome of an audit; true in a condition if it passed."""

    passed: bool
    detail: str

    def __bool__(self) -> bool:
        return self.passed


def reads_only(
    calibrator: Any,
    logits: Any,
    y: Any,
    *,
    mask: Any,
    holdout_mask: Any = None,
    seed: int = 0,
    **inputs: Any,
) -> Audit:
    """Change every label outside the masks and require bit-identical probabilities.

    A fresh copy of ``calibrator`` is fitted once with the labels as they are, then with the labels
    outside the masks permuted, drawn anew, and replaced by −1. Any difference in the output of
    ``predict_proba``, however small, fails the audit. ``inputs`` are passed on (``graph=…``). Rules
    of `simi_mailbox.decide` are audited in the same way: they take probabilities for logits, and
    answer with sets or decisions.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox import TemperatureScaling
    >>> logits = np.random.default_rng(0).normal(size=(40, 3))
    >>> reads_only(TemperatureScaling(), logits, logits.argmax(1) // 2, mask=range(20)).passed
    True
    """
    labels = np.array(y)
    n, k = np.shape(logits)
    if len(labels) != n:
        raise ValueError(f"an audit needs labels of full length {n}, got {len(labels)}")
    allowed = np.zeros(n, dtype=bool)
    for name, nodes in (("mask", mask), ("holdout_mask", holdout_mask)):
        if nodes is not None:
            allowed[read_index(nodes, n, name)] = True
    outside = np.flatnonzero(~allowed)
    if outside.size == 0:
        raise ValueError("every node is in a mask: there is no label to hide")

    output = next(name for name in OUTPUTS if hasattr(calibrator, name))
    holdout = {} if holdout_mask is None else {"holdout_mask": holdout_mask}

    def run(these: Any) -> Any:
        fresh = copy.deepcopy(calibrator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh.fit(logits, these, mask=mask, **holdout, **inputs)
            return torch.as_tensor(getattr(fresh, output)(logits, **inputs))

    expected = run(labels)
    rng = np.random.default_rng(seed)
    changes = [("permuted", rng.permutation(labels[outside])) for _ in range(DRAWS)]
    changes += [("drawn anew", rng.integers(0, k, outside.size)) for _ in range(DRAWS)]
    changes += [("replaced by −1", np.full(outside.size, -1))]
    for how, values in changes:
        changed = labels.copy()
        changed[outside] = values
        try:
            found = run(changed)
        except Exception as error:
            return Audit(False, f"labels outside the masks {how}: fit raised {error!r}")
        if not torch.equal(found, expected):
            rows = int((found != expected).reshape(n, -1).any(dim=1).sum())
            return Audit(False, f"labels outside the masks {how}: {rows} of {n} rows changed")
    return Audit(True, f"{outside.size} hidden labels changed in {len(changes)} ways, same bits")
