"""A small problem, a method on trial, and what checks are put together from."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators import Calibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.graph import Graph


@dataclass(frozen=True)
class CheckProblem:
    """A small graph with everything that any method may need."""

    logits: Any
    y: Array
    edges: Ints
    features: Array
    mask: Ints
    holdout: Ints

    @classmethod
    def random(cls, n: int = 90, seed: int = 0) -> CheckProblem:
        """Overconfident logits on a random graph; its last five nodes have no neighbour."""
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(n, 4)) * 2
        y = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(1)
        edges = rng.integers(0, n - 5, size=(2, 3 * n))
        features = np.concatenate([logits, rng.normal(size=(n, 2))], axis=1).astype(np.float32)
        # Isolated nodes stand in both masks and outside.
        return cls(logits, y, edges, features, np.arange(0, n, 2), np.arange(1, n, 4))

    def inputs(self, needs: frozenset[str]) -> dict[str, Any]:
        """What a method needs besides logits and labels."""
        graph = Graph.from_edges(self.edges, len(self.logits))
        offered = {"graph": graph, "features": self.features, "forward": self._forward(graph)}
        return {key: offered[key] for key in sorted(needs)}

    def permuted(self, order: Ints) -> CheckProblem:
        """The same problem with node ``order[k]`` renamed to ``k``."""
        place = np.argsort(order)
        of_nodes = (self.logits[order], self.y[order], place[self.edges], self.features[order])
        return CheckProblem(*of_nodes, np.sort(place[self.mask]), np.sort(place[self.holdout]))

    def _forward(self, graph: Graph) -> Any:
        """A frozen GNN: each node adds a tenth of what arrives over the weighted edges."""
        z, rows = torch.from_numpy(np.asarray(self.logits).copy()), graph.rows()

        def run(edge_weight: torch.Tensor) -> torch.Tensor:
            received = z[graph.indices] * edge_weight.to(z.dtype).reshape(-1, 1)
            return z + 0.1 * torch.zeros_like(z).index_add(0, rows, received)

        return run


PROBLEM = CheckProblem.random()


class Case:
    """A method on trial: its class, and settings under which it is quick."""

    def __init__(self, cls: type[Calibrator], **params: Any) -> None:
        self.cls, self.params = cls, params

    def make(self) -> Any:
        """The method, unfitted."""
        return self.cls(**self.params)

    @property
    def knows(self) -> bool:
        """Whether the method takes known labels as evidence."""
        return "known" in self.cls.optional_inputs

    def inputs(self, problem: CheckProblem) -> dict[str, Any]:
        """What the method needs or takes besides logits and labels."""
        hidden = {"hidden": problem.features} if "hidden" in self.cls.optional_inputs else {}
        return {**problem.inputs(self.cls.required_inputs), **hidden}

    def masks(self, problem: CheckProblem) -> dict[str, Any]:
        """Further labelled nodes, under the names by which the method takes them."""
        trained = {"train_mask": problem.holdout} if self.knows else {}
        return {"early_stopping_mask": problem.holdout, **trained}

    def fit(self, problem: CheckProblem, *, holdout: bool = True, **changes: Any) -> Any:
        """The method fitted on a problem, with changed parameters."""
        given = self.masks(problem) if holdout else {}
        return self.refit(self.make().set_params(**changes), problem, **given)

    def refit(self, cal: Any, problem: CheckProblem, **given: Any) -> Any:
        """The calibrator ``cal``, fitted on a problem with ``given`` arguments of ``fit``."""
        given = {"y": problem.y, "mask": problem.mask, **self.inputs(problem), **given}
        with without_warnings():
            return cal.fit(problem.logits, given.pop("y"), **given)

    @functools.cached_property
    def fitted(self) -> Any:
        """The method fitted on `PROBLEM`, once for all checks that only look at it."""
        return self.fit(PROBLEM)

    def predict(self, cal: Any, problem: CheckProblem, **more: Any) -> Any:
        """Probabilities of a problem's nodes."""
        with without_warnings():
            return cal.predict_proba(problem.logits, **self.inputs(problem), **more)

    def refitted(self, problem: CheckProblem, **changes: Any) -> Any:
        """Probabilities of the nodes that the method is fitted on."""
        return self.predict(self.fit(problem, **changes), problem)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Hear no `CalibrationWarning`: problems are odd on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        yield


def require(holds: Any, told: str) -> None:
    """``assert``, which `python -O` does not take out."""
    if not holds:
        raise AssertionError(told)


def same(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Require equal probabilities."""
    gap = np.abs(np.asarray(found) - np.asarray(expected))
    far = ~(gap <= tolerance)  # NaN differs, too
    told = f"{far.sum()} of {far.size} probabilities differ, by up to {gap.max():.2g}"
    require(not far.any(), told)


def probabilities(found: Any, problem: CheckProblem, tolerance: float = 1e-9) -> None:
    """Require rows that sum to one, a row for each node."""
    probs, shape = np.asarray(found), tuple(problem.logits.shape)
    require(probs.shape == shape, f"shape {probs.shape}, expected {shape}")
    require((probs >= 0).all(), f"a probability is {probs.min():.3g}")
    gap = float(np.abs(probs.sum(axis=1) - 1).max())
    require(gap <= tolerance, f"a row sums to one only within {gap:.2g}")


@contextlib.contextmanager
def raises(kind: type[Exception], words: str, doing: str) -> Iterator[None]:
    """Require an error of a kind that says some words."""
    try:
        yield
    except kind as error:
        require(words in str(error), f"{doing}: the error does not say {words!r}: {error}")
    except Exception as error:
        raise AssertionError(f"{doing} raised {error!r}, expected {kind.__name__}") from error
    else:
        raise AssertionError(f"{doing} raised nothing, expected {kind.__name__}")
