"""What is looked at in a past run when a prior is learned from it, small enough to be kept."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Arrays, Floats, Ints
from simi_mailbox.calibrators.simi_mailbox import closeness
from simi_mailbox.files import open_archive, whole_file
from simi_mailbox.prior.baseline import error_rate
from simi_mailbox.prior.evidence import CLASSES, Evidence, Known
from simi_mailbox.prior.model import INPUTS
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import Labelled
from simi_mailbox_bench.prior.past_runs import PastRun, checked, unseen

MOST_NODES = 8000
"""Nodes of a run that are looked at: drawn from those whose labels nobody had."""
_ARRAYS = ("gaps", "terms", "y", "similarity", "degree")
_NUMBERS = ("labels", "error", "wrong", "elsewhere")


@dataclass(frozen=True, eq=False)
class Look:
    """Evidence on the calibration nodes of a run and on nodes whose labels nobody had.

    Attributes
    ----------
    gaps, terms, y, similarity, degree : arrays
        (z − max z) / T, terms of the exponent, labels, overlap with the neighbours, number of
        neighbours: first of the calibration nodes, then of the others.
    classes : dict of array [nodes, K]
        Terms of the classes; "shift alone" is the shift without training labels.
    labels : int
        Number of calibration nodes.
    error : float
        Their error rate, as expected after temperature scaling.
    wrong, elsewhere : float
        Shares of the calibration nodes, and of all others, that are predicted wrongly.
    """

    gaps: Floats
    terms: Floats
    y: Ints
    similarity: Floats
    degree: Ints
    classes: Mapping[str, Floats]
    labels: int
    error: float
    wrong: float
    elsewhere: float

    @property
    def inputs(self) -> tuple[str, ...]:
        """What baselines can be made from here, as `simi_mailbox.prior.model.INPUTS` names it."""
        there = {"hidden": "hidden" in self.classes, "trained": "trained_near" in self.classes}
        return tuple(x for x in INPUTS if all(there.get(word, True) for word in x.split()))

    def terms_of(self, inputs: str) -> tuple[str, ...]:
        """Terms of classes that these inputs allow."""
        return tuple(
            name
            for name in CLASSES
            if (name != "hidden" or "hidden" in inputs)
            and (not name.startswith("trained") or "trained" in inputs)
        )

    def evidence(self, inputs: str, rows: slice) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Gaps, terms of the exponent and terms of the classes of some nodes."""
        own = "shift" if "trained" in inputs else "shift alone"
        names = {name: own if name == "shift" else name for name in self.terms_of(inputs)}
        parts = {name: torch.from_numpy(self.classes[kept][rows]) for name, kept in names.items()}
        return torch.from_numpy(self.gaps[rows]), torch.from_numpy(self.terms[rows]), parts

    def save(self, path: Path) -> None:
        """Write it as an npz file; it appears whole or not at all."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: np.array(getattr(self, name)) for name in _NUMBERS}
        arrays |= {f"class {name}": part for name, part in self.classes.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        with whole_file(path) as unfinished:
            unfinished.write_bytes(buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Look:
        """Read what `save` wrote."""
        with open_archive(path) as archive:
            kept: Arrays = dict(archive)
        classes = {n.removeprefix("class "): a for n, a in kept.items() if n.startswith("class ")}
        numbers: dict[str, Any] = {name: float(kept[name]) for name in _NUMBERS}
        numbers["labels"] = int(numbers["labels"])
        numbers |= {name: kept[name] for name in _ARRAYS}
        return cls(**numbers, classes=classes)


def look_at(run: PastRun) -> Look:
    """Look at one run.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> look = look_at(PastRun("a", "gcn", p.logits, p.y, p.graph, range(100)))
    >>> look.labels, len(look.y), look.inputs
    (100, 500, ('plain',))
    """
    run = checked(run)
    z, y = run.logits, torch.from_numpy(run.y)
    mine = Labelled(torch.from_numpy(run.calibration), y[run.calibration])
    theirs = None
    if run.train is not None:
        known = run.train[run.y[run.train] >= 0]
        theirs = Labelled(torch.from_numpy(known), y[known])
    temperature = global_temperature(z[mine.index], mine.y)[0]
    evidence = Evidence(z, run.graph, temperature)
    others = np.flatnonzero(unseen(run))
    chosen = np.sort(np.random.default_rng(0).permutation(others)[:MOST_NODES])
    rows = torch.from_numpy(np.concatenate([run.calibration, chosen]))
    evidence.hear(Known(mine))
    classes = {"shift alone": evidence.classes(rows, ("shift",))["shift"]}
    wanted = tuple(name for name in CLASSES if name != "hidden" and not name.startswith("trained"))
    if theirs is not None:
        evidence.hear(Known(mine, theirs))
        wanted = tuple(name for name in CLASSES if name != "hidden")
    if run.hidden is not None:
        evidence.closeness = closeness(run.hidden, evidence.probs)[1]
        wanted = (*wanted, "hidden")
    classes |= evidence.classes(rows, wanted)
    right = (z.argmax(dim=1) == y).numpy()
    wrong = (~right[others]).sum()
    return Look(
        gaps=evidence.gaps(rows).numpy(),
        terms=evidence.terms[rows].numpy(),
        y=run.y[rows.numpy()],
        similarity=evidence.similarity[rows].numpy(),
        degree=run.graph.degree[rows].numpy(),
        classes={name: part.numpy() for name, part in classes.items()},
        labels=len(mine),
        error=error_rate(evidence.sure[mine.index]),
        wrong=float((~right[run.calibration]).mean()),
        # As if one right and one wrong node had been added: no graph is without errors.
        elsewhere=float((wrong + 1.0) / (len(others) + 2.0)),
    )


def refreshed(run: PastRun) -> PastRun:
    """The same run with as many calibration nodes that had no part in choosing the checkpoint."""
    run = checked(run)
    others = np.flatnonzero(unseen(run))
    count = min(len(run.calibration), len(others) // 2)
    drawn = np.random.default_rng(1).permutation(others)[: max(count, 1)]
    y = run.y.copy()
    y[run.calibration] = -1  # not looked at either way
    return replace(run, y=y, calibration=np.sort(drawn))
