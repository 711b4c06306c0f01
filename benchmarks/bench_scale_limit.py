"""How far the default is from the limit at the size of Reddit2: one compiled look at every pair.

    python benchmarks/bench_scale_limit.py

Processor time of one process, all in one run: what counts are the ratios. The limit is a compiled
loop that multiplies the logits of each pair of neighbours once (`compiled.add_similarities`); it
needs the extra ``fast``. Adam is the paper's solver, 2,000 epochs scaled up from ten. GATS is
scaled up, too: an epoch is measured at full size, and how many it takes until it stops by itself,
on held-out nodes, on a problem of the same kind with a fortieth of the nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from simi_mailbox import Graph, SimiMailbox, fast
from simi_mailbox.adam import fit_adam
from simi_mailbox.calibrators import GATS
from simi_mailbox.inputs import Labelled

NODES, PAIRS, CLASSES, LABELLED, EPOCHS = 232_965, 11_600_000, 41, 23_699, 2000


def spent(work: Callable[[], object], repeats: int = 2) -> float:
    """Processor time, best of a few."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def make_problem(nodes: int, pairs: int, labelled: int) -> tuple[np.ndarray, ...]:
    """Edges with a heavy-tailed degree law, logits, labels at temperature two, labelled nodes."""
    rng = np.random.default_rng(0)
    weight = np.cumsum(rng.pareto(1.5, nodes) + 1)
    ends = np.searchsorted(weight, rng.random(pairs) * weight[-1]), rng.integers(0, nodes, pairs)
    z = (rng.normal(size=(nodes, CLASSES)) * 2).astype(np.float32)
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(1)
    return np.stack(ends), z, y, rng.choice(nodes, labelled, replace=False)


def epochs_of_gats(share: int = 40) -> int:
    """Epochs until GATS stops by itself on a smaller problem of the same degrees."""
    edges, z, y, mask = make_problem(NODES // share, PAIRS // share, 2 * LABELLED // share)
    half = len(mask) // 2
    cal = GATS().fit(z, y, graph=edges, mask=mask[:half], holdout_mask=mask[half:])
    return cal.epochs_


def main() -> None:
    torch.set_num_threads(1)
    edges, z, y, mask = make_problem(NODES, PAIRS, LABELLED)
    build = spent(lambda: Graph.from_edges(edges, NODES), 1)
    graph = Graph.from_edges(edges, NODES)
    kernels, totals = fast.kernels(), np.zeros(NODES)
    given = (0, NODES), graph.indptr.numpy(), graph.indices.numpy(), z, z, totals, totals
    kernels.add_similarities(*given, True, True)
    limit = spent(lambda: kernels.add_similarities(*given, True, True), 5)
    print(f"{graph}, {CLASSES} classes; seconds of one processor")
    print(f"limit, one look at each pair    {limit:7.2f}")
    print(f"Graph.from_edges                {build:7.2f}  {build / limit:6.1f} × the limit")

    def whole() -> None:
        calibrator = SimiMailbox().fit(z, y, graph=graph, mask=mask)
        calibrator.predict_proba(z, graph=graph)
        for known in ("memory", "_fingerprint", "degree"):  # each repeat finds everything anew
            graph.__dict__.pop(known, None)

    whole()
    took = spent(whole, 5)
    print(f"SimiMailbox, fit + predict      {took:7.2f}  {took / limit:6.1f} × the limit  (bar: 4)")
    calibration = Labelled(torch.from_numpy(mask), torch.from_numpy(y)[torch.from_numpy(mask)])
    groups = torch.from_numpy(np.random.default_rng(1).integers(0, 15, NODES))
    half = np.full(15, 0.5)
    epoch = spent(lambda: fit_adam(torch.from_numpy(z), groups, calibration, half, 50.0, epochs=10))
    adam = epoch / 10 * EPOCHS
    print(f"Adam, {EPOCHS} epochs                {adam:7.0f}  {adam / took:6.0f} × SimiMailbox")

    def gats(epochs: int) -> float:
        return spent(lambda: GATS(epochs=epochs).fit(z, y, graph=graph, mask=mask), 1)

    count, once = epochs_of_gats(), gats(1)
    each = (gats(11) - once) / 10
    stop = once + each * (count - 1)
    print(f"GATS, before its first epoch    {once - each:7.2f}")
    print(f"GATS, an epoch, labelled rows   {each:7.2f}")
    ratio = f"{stop:7.0f}  {stop / took:6.0f} × SimiMailbox  (bar: 300)"
    print(f"GATS, {count:4} epochs, its stop   {ratio}")


if __name__ == "__main__":
    main()
