"""How far the default is from the limit at the size of Reddit2: one compiled look at every pair.

    python bench/speed/bench_scale_limit.py
    python bench/speed/bench_scale_limit.py --reference FOLDER    # also GATS as its authors have it

Processor time of one process, all in one run: what counts are the ratios. The limit is a compiled
loop that multiplies the logits of each pair of neighbours once (`pair_loop.py`, which
needs Numba). Adam is the paper's solver, 2,000 epochs scaled up from ten. GATS is
scaled up, too: an epoch is measured at full size, and how many it takes until it stops by itself,
on held-out nodes, on a problem of the same kind with a fortieth of the nodes. The authors' own GATS
(``FOLDER``: github.com/hans66hsu/GATS, run by PyG) gathers the logits of both ends of every edge,
too much for most memories at full size: its epochs are timed at a part (``--share``) and scaled up.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from itertools import islice
from types import SimpleNamespace

import numpy as np
import torch

from pair_loop import add_similarities
from simi_mailbox import Graph, SimiMailbox
from simi_mailbox.adam import adam_path
from simi_mailbox.calibrators import GATS
from simi_mailbox.calibrators.gats import training_distances
from simi_mailbox.temperature import ConfidenceCurve, CrossEntropy, PaperLoss

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
    """Edges with heavy-tailed degrees, logits, labels at temperature two, labelled nodes."""
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
    cal = GATS().fit(z, y, graph=edges, mask=mask[:half], early_stopping_mask=mask[half:])
    return cal.epochs_


class Network(torch.nn.Module):
    """A GNN whose inputs are its logits."""

    def forward(self, x: torch.Tensor, _edges: torch.Tensor) -> torch.Tensor:
        return x


def reference_gats(folder: str, share: int, epochs: int | None) -> tuple[float, int, float]:
    """Seconds an epoch of the authors' GATS, epochs, and seconds of ours at this size.

    Their ``fit_calibration`` is stopped after ``epochs``, or stops by its own rule.
    """
    sys.path.insert(0, folder)
    theirs = importlib.import_module("src.calibrator.calibrator")
    edges, z, y, mask = make_problem(NODES // share, PAIRS // share, 2 * LABELLED // share)
    graph, half = Graph.from_edges(edges, len(z)), len(mask) // 2
    held_out = torch.from_numpy(mask[half:])
    logits, labels, both_ways = torch.from_numpy(z), torch.from_numpy(y), graph.edge_index()
    asked = SimpleNamespace(heads=8, bias=1.0)
    far = training_distances(held_out, graph)
    gats = theirs.GATS(Network(), both_ways, len(z), None, CLASSES, far, asked)
    looks = 0

    def look(*_: object) -> None:
        nonlocal looks
        looks += 1
        if epochs is not None and looks > 2 * epochs:
            raise StopIteration

    gats.cagat.register_forward_pre_hook(look)
    data = SimpleNamespace(x=logits, y=labels, edge_index=both_ways)
    start = time.process_time()
    try:
        gats.fit(data, torch.from_numpy(mask[:half]), held_out, 0.005)
    except StopIteration:
        looks -= 1
    took = time.process_time() - start
    ours = spent(lambda: fit_and_predict(z, y, graph, mask[:half]), 3)
    return took / (looks / 2), looks // 2, ours


def fit_and_predict(z: np.ndarray, y: np.ndarray, graph: Graph, mask: np.ndarray) -> None:
    SimiMailbox().fit(z, y, graph=graph, mask=mask).predict_proba(z, graph=graph)
    for known in ("memory", "_fingerprint", "degree"):  # each repeat finds everything anew
        graph.__dict__.pop(known, None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference", help="folder of the code that GATS' authors released")
    parser.add_argument(
        "--share", type=int, default=8, help="part of the graph that it is timed on"
    )
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    edges, z, y, mask = make_problem(NODES, PAIRS, LABELLED)
    build = spent(lambda: Graph.from_edges(edges, NODES), 1)
    graph = Graph.from_edges(edges, NODES)
    totals = np.zeros(NODES)
    given = (0, NODES), graph.indptr.numpy(), graph.indices.numpy(), z, totals, True
    add_similarities(*given)
    limit = spent(lambda: add_similarities(*given), 5)
    print(f"{graph}, {CLASSES} classes; seconds of one processor")
    print(f"limit, one look at each pair    {limit:7.2f}")
    print(f"Graph.from_edges                {build:7.2f}  {build / limit:6.1f} × the limit")

    fit_and_predict(z, y, graph, mask)
    took = spent(lambda: fit_and_predict(z, y, graph, mask), 5)
    print(f"SimiMailbox, fit + predict      {took:7.2f}  {took / limit:6.1f} × the limit  (bar: 4)")
    index, all_logits = torch.from_numpy(mask), torch.from_numpy(z)
    groups = torch.from_numpy(np.random.default_rng(1).integers(0, 15, NODES))
    ce = CrossEntropy(all_logits[index], torch.from_numpy(y)[index], groups[index], 15)
    loss = PaperLoss(ConfidenceCurve(all_logits, groups, 15), ce, np.full(15, 0.5), 50.0)
    epoch = spent(lambda: next(islice(adam_path(loss), 9, None)))
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
    if chosen.reference is None:
        return
    _, count, _ = reference_gats(chosen.reference, 40, None)
    each, _, small = reference_gats(chosen.reference, chosen.share, 3)
    stop, part = each * count * chosen.share, f"1/{chosen.share}"
    print(f"its authors', an epoch at {part:<5} {each:7.2f}")
    ratio = (
        f"{each * count:7.0f}  {each * count / small:6.0f} × SimiMailbox, which takes {small:.2f}"
    )
    print(f"its authors', {count:4} of them at {part}{ratio}")
    ratio = f"{stop:7.0f}  {stop / took:6.0f} × SimiMailbox  (bar: 300)"
    print(f"its authors', scaled to full    {ratio}")


if __name__ == "__main__":
    main()
