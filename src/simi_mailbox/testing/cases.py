"""A small problem, and a method on trial."""

from __future__ import annotations

import functools
import warnings
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
    def random(cls, n: int = 90, classes: int = 4, seed: int = 0) -> CheckProblem:
        """Overconfident logits on a random graph; its last five nodes have no neighbour."""
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(n, classes)) * 2
        y = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(1)
        edges = rng.integers(0, n - 5, size=(2, 3 * n))
        features = np.concatenate([logits, rng.normal(size=(n, 2))], axis=1).astype(np.float32)
        # Isolated nodes stand in both masks and outside.
        return cls(logits, y, edges, features, np.arange(0, n, 2), np.arange(1, n, 4))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of nodes and classes."""
        n, k = self.logits.shape
        return n, k

    def inputs(self, needs: frozenset[str]) -> dict[str, Any]:
        """What a method needs besides logits and labels."""
        graph = Graph.from_edges(self.edges, len(self.logits))
        offered = {"graph": graph, "features": self.features, "forward": self._forward(graph)}
        return {key: offered[key] for key in sorted(needs)}

    def permuted(self, order: Ints) -> CheckProblem:
        """The same problem with node ``order[k]`` renamed to ``k``."""
        place = np.argsort(order)
        return CheckProblem(
            self.logits[order],
            self.y[order],
            place[self.edges],
            self.features[order],
            np.sort(place[self.mask]),
            np.sort(place[self.holdout]),
        )

    def _forward(self, graph: Graph) -> Any:
        """A frozen GNN: each node adds a tenth of what arrives over the weighted edges."""
        given = self.logits
        z = given if isinstance(given, torch.Tensor) else torch.from_numpy(given.copy())
        rows = graph.rows()

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

    def fit(self, problem: CheckProblem, *, holdout: bool = True, **changes: Any) -> Any:
        """The method, fitted on a problem with other parameters.

        Who stops on a hold-out, or takes known labels as evidence, is given the same nodes for it.
        """
        given = self.masks(problem) if holdout else {}
        return self.refit(self.make().set_params(**changes), problem, **given)

    def masks(self, problem: CheckProblem) -> dict[str, Any]:
        """Further labelled nodes, under the names by which the method takes them."""
        trained = {"train_mask": problem.holdout} if self.knows else {}
        return {"early_stopping_mask": problem.holdout, **trained}

    @property
    def knows(self) -> bool:
        """Whether the method takes known labels as evidence."""
        return "known" in self.cls.optional_inputs

    def refit(self, cal: Any, problem: CheckProblem, **given: Any) -> Any:
        """The calibrator ``cal``, fitted on a problem with ``given`` arguments of ``fit``."""
        given = {"y": problem.y, "mask": problem.mask, **self.inputs(problem), **given}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            return cal.fit(problem.logits, given.pop("y"), **given)

    @functools.cached_property
    def fitted(self) -> Any:
        """The method fitted on `PROBLEM`, once for all checks that only look at it."""
        return self.fit(PROBLEM)

    def inputs(self, problem: CheckProblem) -> dict[str, Any]:
        """What the method needs or takes besides logits and labels."""
        hidden = {"hidden": problem.features} if "hidden" in self.cls.optional_inputs else {}
        return {**problem.inputs(self.cls.required_inputs), **hidden}

    def predict(self, cal: Any, problem: CheckProblem, **more: Any) -> Any:
        """Probabilities of a problem's nodes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            return cal.predict_proba(problem.logits, **self.inputs(problem), **more)
