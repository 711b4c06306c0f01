"""`calibration_problem`: logits whose true probabilities are known, to judge calibrators by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.data.synthetic.block_model import BlockModel, draw_graph
from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import mailbox

Temperature = float | Callable[[Floats, Floats], Any]
_LOGITS, _Y = 100, 101


@dataclass(frozen=True, eq=False)
class CalibrationProblem:
    """Logits, labels drawn from them at a known temperature, and the truth.

    Attributes
    ----------
    logits : ndarray, float32 [n, classes]
    y : ndarray, int64 [n]
        Drawn from ``probs``, independently for each node.
    graph : Graph
    probs : ndarray, float64 [n, classes]
        softmax(logits / temperature): the true class probabilities given everything.
    temperature : ndarray, float64 [n]
        True temperature of every node.
    confidence, similarity : ndarray, float64 [n]
        Largest probability before calibration, and the mailbox.

    Examples
    --------
    >>> problem = calibration_problem(200, temperature=2.0, seed=0)
    >>> bool((problem.probs.max(axis=1) < problem.confidence).all())
    True
    """

    logits: npt.NDArray[np.float32]
    y: Ints
    graph: Graph
    probs: Floats
    temperature: Floats
    confidence: Floats
    similarity: Floats


def calibration_problem(
    n: int,
    classes: int = 5,
    *,
    temperature: Temperature = 1.0,
    sharpness: float = 1.0,
    mean_degree: float = 8.0,
    homophily: float = 0.7,
    seed: int = 0,
) -> CalibrationProblem:
    """Draw a calibration problem with known truth.

    Each node favours one class, the same as most of its neighbours', with a strength of its own;
    Gaussian noise is added. The label is drawn from ``softmax(logits / T)``: a calibrator that
    finds T is perfect, and its error can be measured without sampling noise.

    Parameters
    ----------
    n, classes
        Number of nodes and of classes.
    temperature
        One number, or a function of (confidence [n], mailbox similarity [n]) that returns T [n].
        Above 1, the logits are overconfident.
    sharpness
        Factor on all logits.
    mean_degree, homophily
        Of the graph; homophily refers to the favoured classes.
    seed
        Same seed, same problem. The labels' randomness does not depend on ``temperature``.

    Examples
    --------
    >>> problem = calibration_problem(1000, temperature=lambda conf, sim: 1 + 2 * sim, seed=0)
    >>> problem.probs.shape, bool(problem.temperature.min() > 1)
    ((1000, 5), True)
    """
    model = BlockModel(n, classes, mean_degree=mean_degree, homophily=homophily, seed=seed)
    favoured = model.labels()
    graph = draw_graph(model, favoured)
    rng = model.rng(_LOGITS)
    values = rng.standard_normal((n, classes))
    values[np.arange(n), favoured] += 3 * rng.lognormal(0.0, 0.5, size=n)
    # Truth is computed from the rounded logits, the ones that a calibrator sees.
    logits = (sharpness * values).astype(np.float32)
    exact = logits.astype(np.float64)
    confidence = softmax(exact, axis=1).max(axis=1)
    similarity = mailbox(torch.from_numpy(exact), graph).numpy()
    nodes = _node_temperatures(temperature, confidence, similarity)
    probs = softmax(exact / nodes[:, None], axis=1)
    uniform = model.rng(_Y).random(n)
    below = (np.cumsum(probs, axis=1) <= uniform[:, None]).sum(axis=1)
    # Rounding may leave the last cumulative sum a hair below 1.
    y = np.minimum(below, classes - 1).astype(np.int64)
    return CalibrationProblem(logits, y, graph, probs, nodes, confidence, similarity)


def _node_temperatures(temperature: Temperature, confidence: Floats, similarity: Floats) -> Floats:
    given = temperature(confidence, similarity) if callable(temperature) else temperature
    nodes = np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), confidence.shape))
    if not (np.isfinite(nodes).all() and (nodes > 0).all()):
        raise ValueError(
            f"temperatures must be positive and finite, got {nodes.min():g} to {nodes.max():g}"
        )
    return nodes
