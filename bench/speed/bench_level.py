"""How much ECE is left when only the level is unknown: an oracle shape, its level from few labels.

    python bench/speed/bench_level.py

For every cached run of the main table the model of the default is fitted to the test labels
themselves (the oracle shape: no calibrator can have it); then one common factor of all scores is
estimated from the calibration labels, as temperature scaling does. Its test ECE is what the number
of calibration labels, and their part in choosing the checkpoint, leave to anybody. Beside it the
same shape with its level from the test labels. Only cached runs are read; test labels are used as
said, for this diagnosis alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from simi_mailbox.calibrators.simi_mailbox import model
from simi_mailbox.calibrators.simi_mailbox.evidence import term_names
from simi_mailbox.calibrators.simi_mailbox.model import Coefficients, Model, Nodes
from simi_mailbox.metrics import ece
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey
from simi_mailbox_bench.prior.learning import Look, look_at, past_run

GRAPHS = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")
SPLITS = 5
TERMS = term_names(hidden=False)


def levelled(found: Model, nodes: Nodes, y: np.ndarray) -> Model:
    """The same model, its scores multiplied by the factor that fits these labels best."""
    scores, rows = found.scores(nodes).double().numpy(), np.arange(len(y))

    def loss(factor: float) -> float:
        return -float(log_softmax(np.exp(factor) * scores, axis=1)[rows, y].sum())

    best = minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x
    return replace(found, level=float(np.exp(best)))


def plain(nodes: Nodes) -> Nodes:
    """Without the hidden layer."""
    return replace(nodes, classes=nodes.classes[: len(TERMS) - len(model.EXPONENTS)])


def judged(look: Look) -> Iterator[float]:
    """ECE in % of temperature scaling, of the oracle shape with either level."""
    own, others = plain(look.own), plain(look.others)
    yield 100 * ece(others.gaps.softmax(dim=1).double().numpy(), look.others_y)
    found = model.fit(others, look.others_y, TERMS, Coefficients.vague(TERMS))
    for nodes, y in ((own, look.own_y), (others, look.others_y)):
        probs = levelled(found, nodes, y).probabilities(others).double()
        yield 100 * ece((probs / probs.sum(dim=1, keepdim=True)).numpy(), look.others_y)


def main() -> None:
    """Print a line for each setting."""
    cache = RunCache()
    print(
        "graph      backbone runs  temperature  oracle shape: level of calibration, of test labels"
    )
    for graph in GRAPHS:
        for backbone in ("gcn", "gat"):
            keys = [RunKey(graph, backbone, "folds", split) for split in range(SPLITS)]
            runs = [cache.find(key) for key in keys if key in cache]
            rows = [list(judged(look_at(past_run(run)))) for run in runs if run is not None]
            if rows:
                means = np.mean(rows, axis=0)
                print(
                    f"{graph:10s} {backbone:8s} {len(rows):4d}  {means[0]:11.2f}  "
                    f"{means[1]:31.2f}  {means[2]:10.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
