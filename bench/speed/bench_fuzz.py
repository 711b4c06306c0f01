"""Random problems of every unpleasant kind × every method: what must hold whatever comes in.

    python bench/speed/bench_fuzz.py                  # 10,000 fits
    python bench/speed/bench_fuzz.py --fits 500 --seed 7

Logits are tied, tiny, huge, constant, one-sided, of few nodes or classes; graphs are empty, stars,
full of loops; labels are few, all alike, or chance. A fit may refuse a problem with an error of its
own (`ValueError`, `SolverError`); everything else counts as a failure: another error, a number that
is none, rows that do not sum to one, or a changed class where classes are kept.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import torch

from simi_mailbox import Graph, SolverError, calibrators

QUICK = {"epochs": 3, "patience": 3, "partitions": 2, "steps": 20}
ROWS = 1e-5


def problem(rng: np.random.Generator) -> dict[str, Any]:
    """A small problem, unpleasant in several ways at once."""
    n, k = int(rng.integers(2, 60)), int(rng.integers(2, 8))
    z = rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-6, 6)
    kind = rng.integers(8)
    if kind == 0:
        z = np.round(z / np.abs(z).max() * 2)  # ties
    elif kind == 1:
        z[:] = z[0]
    elif kind == 2:
        z[:, rng.integers(k)] += 10.0 ** rng.uniform(0, 6)
    elif kind == 3:
        z[rng.random(n) < 0.2] *= 10.0 ** rng.uniform(-6, 6)
    elif kind == 4:
        z[:] = 0
    elif kind == 5:
        z += 10.0 ** rng.uniform(0, 8)
    z = z.astype(rng.choice([np.float32, np.float64]))
    label = rng.integers(4)
    if label == 0:
        y = z.argmax(1)
    elif label == 1:
        y = np.full(n, rng.integers(k))
    elif label == 2:
        y = rng.integers(k, size=n)
    else:
        y = (z / (np.abs(z).mean() + 1e-300) * 2 + rng.gumbel(size=z.shape)).argmax(1)
    ends = rng.integers(n, size=(2, int(rng.integers(0, 4 * n))))
    if rng.random() < 0.2:
        ends[0] = 0  # a star
    mask = rng.choice(n, int(rng.integers(1, n + 1)), replace=False)
    features = rng.normal(size=(n, int(rng.integers(1, 5)))) * 10.0 ** rng.uniform(-3, 3)
    return {
        "logits": z, "y": y, "mask": np.sort(mask), "features": features,
        "graph": Graph.from_edges(ends, n),
    }  # fmt: skip


def forward_of(logits: Any, graph: Graph) -> Any:
    """A frozen GNN: each node adds a tenth of what it hears over the weighted edges."""
    z, rows = torch.from_numpy(np.array(logits)), graph.rows()

    def forward(edge_weight: Any) -> Any:
        received = z[graph.indices] * edge_weight.to(z.dtype).reshape(-1, 1)
        return z + 0.1 * torch.zeros_like(z).index_add(0, rows, received)

    return forward


def check(name: str, given: dict[str, Any]) -> str:
    """What became of one fit: ``"fine"``, ``"refused: …"`` or what went wrong."""
    method = calibrators.get(name)
    settings = {key: QUICK[key] for key in QUICK if key in method().get_params()}
    z = given["logits"]
    offered = given | {"forward": forward_of(z, given["graph"])}
    inputs = {key: offered[key] for key in method.required_inputs}
    try:
        cal = method(**settings).fit(z, given["y"], mask=given["mask"], **inputs)
        probs = cal.predict_proba(z, **inputs)
    except (ValueError, SolverError) as error:
        return f"refused: {str(error)[:40]}"
    except Exception as error:
        return f"CRASH {type(error).__name__}: {str(error)[:60]}"
    if not np.isfinite(probs).all():
        return "NOT A NUMBER"
    if (probs < 0).any() or np.abs(probs.astype(np.float64).sum(1) - 1).max() > ROWS:
        return "ROWS DO NOT SUM TO ONE"
    if method.keep_classes and (probs.argmax(1) != z.argmax(1)).any():
        return "CHANGED CLASS"
    return "fine"


def main() -> int:
    """Fit until enough has been fitted, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names, outcomes, fits, start = calibrators.names(), Counter[str](), 0, time.time()
    while fits < options.fits:
        given = problem(np.random.default_rng([options.seed, fits]))
        for name in names:
            outcome = check(name, given)
            if outcome.isupper() or outcome.startswith("CRASH"):
                print(f"{name}, problem [{options.seed}, {fits}]: {outcome}", flush=True)
                outcome = "WRONG: " + outcome.split(":")[0]
            outcomes[outcome] += 1
        fits += len(names)
    for what, count in outcomes.most_common():
        print(f"{count:6d} {what}")
    print(f"{fits} fits in {time.time() - start:.0f} s")
    return 1 if any(what.startswith("WRONG") for what in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
