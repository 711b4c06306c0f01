"""What the model of `SimiMailbox` sees of a past run, small enough to be kept."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simi_mailbox import grouping
from simi_mailbox._arrays import Arrays, Ints
from simi_mailbox.calibrators.simi_mailbox import calibrator, evidence, model
from simi_mailbox.calibrators.simi_mailbox.model import Nodes
from simi_mailbox.files import open_archive, whole_file
from simi_mailbox.validation import CalibrationData, Labelled
from simi_mailbox_bench.prior.past_runs import PastRun, checked, unseen


@dataclass(frozen=True, eq=False)
class Look:
    """Calibration nodes of a run, and the nodes that were neither trained nor calibrated on.

    Attributes
    ----------
    own, others : Nodes
        With the term "hidden" where the run has a hidden layer.
    own_y, others_y : arrays
    labels : int
        Number of calibration nodes, of which ``own`` are the first few thousand.
    error, error_elsewhere : float
        Shares of calibration nodes and of others that are predicted wrongly; the latter not zero.
    """

    own: Nodes
    others: Nodes
    own_y: Ints
    others_y: Ints
    labels: int
    error: float
    error_elsewhere: float

    @property
    def hidden(self) -> bool:
        """Whether the run has a hidden layer."""
        return len(self.own.classes) == len(evidence.CLASSES)

    def save(self, path: Path) -> None:
        """Write it as an npz file; it appears whole or not at all."""
        numbers = [self.labels, self.error, self.error_elsewhere]
        arrays: dict[str, Any] = {
            "own_y": self.own_y,
            "others_y": self.others_y,
            "n": np.array(numbers),
        }
        for name in ("own", "others"):
            nodes: Nodes = getattr(self, name)
            arrays |= {f"{name} gaps": nodes.gaps.numpy(), f"{name} groups": nodes.groups}
            arrays |= {f"{name} exponents": nodes.exponents.numpy()}
            arrays |= {f"{name} {i}": part.numpy() for i, part in enumerate(nodes.classes)}
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
        labels, *errors = kept["n"].tolist()
        own, others = (_nodes(kept, name) for name in ("own", "others"))
        return cls(own, others, kept["own_y"], kept["others_y"], int(labels), *errors)


def _nodes(kept: Arrays, name: str) -> Nodes:
    classes = sorted(key for key in kept if key.startswith(f"{name} ") and key[-1].isdigit())
    gaps, exponents, *terms = (
        torch.from_numpy(kept[key]) for key in (f"{name} gaps", f"{name} exponents", *classes)
    )
    return Nodes(gaps, exponents, terms, kept[f"{name} groups"])


@functools.cache
def version() -> str:
    """Digest of the code that decides what a look holds: looks of other code are made again."""
    text = "".join(inspect.getsource(part) for part in (calibrator, evidence, grouping, model))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def look_at(run: PastRun) -> Look:
    """Look at one run.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> look = look_at(PastRun("a", "gcn", p.logits, p.y, p.graph, range(100)))
    >>> look.labels, len(look.others_y), look.hidden
    (100, 400, False)
    """
    run = checked(run)
    z, y = run.logits, torch.from_numpy(run.y)
    mine = Labelled(torch.from_numpy(run.calibration), y[run.calibration])
    chosen = calibrator.enough(mine, z[mine.index])
    data = CalibrationData(logits=z, graph=run.graph, hidden=run.hidden, calibration=mine)
    seen = calibrator.SimiMailbox()._prepare(data, chosen)
    others = torch.from_numpy(np.flatnonzero(unseen(run)))
    wrong = z.argmax(dim=1) != y
    return Look(
        seen(chosen.index),
        seen(others),
        chosen.y.numpy(),
        run.y[others.numpy()],
        len(mine),
        float(wrong[mine.index].double().mean()),
        max(float(wrong[others].double().mean()), 1.0 / (len(others) + 2.0)),
    )


def redrawn(run: PastRun) -> PastRun:
    """The same run with as many calibration nodes that had no part in choosing the checkpoint."""
    run = checked(run)
    others = np.flatnonzero(unseen(run))
    count = max(min(len(run.calibration), len(others) // 2), 1)
    drawn = np.random.default_rng(0).choice(others, count, replace=False)
    y = run.y.copy()
    y[run.calibration] = -1  # not looked at either way
    return replace(run, y=y, calibration=np.sort(drawn), hidden=None)
