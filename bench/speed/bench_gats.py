"""One epoch of GATS at the size of ogbn-arxiv: our layer against gathers over the edges.

    python bench/speed/bench_gats.py                                   # 169,343 nodes, 40 classes
    python bench/speed/bench_gats.py --nodes 20000 --edges 150000      # a quick look

An epoch is forward pass, cross-entropy, backward pass and Adam's step, with temperatures of all
nodes. Both layers run in one process on the same data and are checked to agree; what counts is
their ratio. Times are of the processor, not of the wall, so that a busy machine does not matter
much. Ends with status 1 if ours is less than 8 times faster.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simi_mailbox.calibrators.gats import TemperatureAttention, training_distances
from simi_mailbox.calibrators.network import FlatAdam, built, scaled_nll, seeded
from simi_mailbox.graph import Graph
from simi_mailbox.validation import Labelled, NodeInputs

LEAST_RATIO = 8.0


class GatherGATS(nn.Module):
    """The layer of the paper in the usual way: vectors of both ends are gathered for every edge."""

    def __init__(self, logits: Tensor, graph: Graph, distances: Tensor, heads: int) -> None:
        super().__init__()
        loops = torch.arange(graph.num_nodes)
        self.i = torch.cat([graph.rows(), loops])
        self.j = torch.cat([graph.indices, loops])
        self.logits, self.distances = logits, distances
        self.degree = (graph.degree + 1).float()
        self.theta = nn.Parameter(torch.empty(heads, logits.shape[1]))
        self.base = nn.Parameter(torch.ones(()))
        self.omega = nn.Parameter(torch.zeros(()))
        self.gamma = nn.Parameter(torch.ones(2))

    def forward(self) -> Tensor:
        """Temperatures of all nodes."""
        z, i, j, n = self.logits, self.i, self.j, len(self.logits)
        gamma = torch.cat([self.gamma, torch.ones(1)])[self.distances]
        low, high = z.amin(1, keepdim=True), z.amax(1, keepdim=True)
        tau = ((z - low) / (high - low)).sort(dim=1).values @ self.theta.t()
        spread = z / gamma[:, None]
        scores = F.leaky_relu((spread[i] * spread[j]).sum(dim=1), 0.2)
        largest = torch.full((n,), -torch.inf).scatter_reduce(0, i, scores.detach(), "amax")
        weights = (scores - largest[i]).exp()
        weights = weights / torch.zeros(n).index_add(0, i, weights)[i]
        sent = (tau * gamma[:, None])[j] * weights[:, None]
        received = torch.zeros(n, tau.shape[1]).index_add(0, i, sent)
        confidence = z.softmax(dim=1).amax(dim=1)
        gap = torch.zeros(n).index_add(0, i, confidence[i] - confidence[j]) / self.degree
        return self.base + F.softplus(received + self.omega * gap[:, None]).mean(dim=1)


def make_problem(nodes: int, edges: int, classes: int) -> tuple[Tensor, Tensor, Graph]:
    """Random logits and labels on a graph with a heavy-tailed degree distribution."""
    rng = np.random.default_rng(0)
    weight = rng.pareto(1.5, nodes) + 1
    ends = rng.choice(nodes, edges, p=weight / weight.sum()), rng.integers(0, nodes, edges)
    logits = rng.normal(size=(nodes, classes)).astype(np.float32)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return torch.from_numpy(logits), torch.from_numpy(y), Graph.from_edges(np.stack(ends), nodes)


def seconds(epoch: Callable[[], None], repeats: int) -> float:
    """Median processor time of an epoch, after one to warm up."""
    epoch()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        epoch()
        times.append(time.process_time() - start)
    return statistics.median(times)


def peak() -> float:
    """Largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=169_343)
    parser.add_argument("--edges", type=int, default=1_157_799, help="undirected")
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--heads", type=int, default=8)
    args = parser.parse_args()
    torch.set_num_threads(1)

    logits, y, graph = make_problem(args.nodes, args.edges, args.classes)
    print(f"{graph}, {args.classes} classes, {args.heads} heads, one thread")
    order = torch.from_numpy(np.random.default_rng(1).permutation(args.nodes))
    training = order[: args.nodes // 2]
    distances = training_distances(training, graph)

    start = time.process_time()
    with seeded(0):
        ours = built(lambda: TemperatureAttention(NodeInputs(logits, graph), distances, args.heads))
    print(f"ours, once before training    {time.process_time() - start:8.3f} s")
    slow = GatherGATS(logits, graph, distances, args.heads)
    slow.load_state_dict(ours.state_dict())
    everyone = Labelled(torch.arange(args.nodes), y)
    nll = scaled_nll(logits)

    nll(ours(None), everyone).backward()
    our_gradient = ours.theta.grad.clone(), ours.gamma.grad.clone()
    our_adam, before = FlatAdam(ours), peak()

    def our_epoch() -> None:
        nll(ours(None), everyone).backward()
        our_adam.step()

    fast_time = seconds(our_epoch, 7)
    our_peak = peak()

    labelled = order[: int(0.72 * args.nodes)]
    some = Labelled(labelled, y[labelled])

    def our_labelled_epoch() -> None:
        nll(ours(labelled), some).backward()
        our_adam.step()

    labelled_time = seconds(our_labelled_epoch, 5)

    F.cross_entropy(logits / slow()[:, None], y).backward()
    for a, b in zip(our_gradient, (slow.theta.grad, slow.gamma.grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    slow_adam = FlatAdam(slow)

    def slow_epoch() -> None:
        F.cross_entropy(logits / slow()[:, None], y).backward()
        slow_adam.step()

    slow_time = seconds(slow_epoch, 3)
    ratio = slow_time / fast_time
    print(f"ours, epoch, all nodes        {fast_time:8.3f} s   peak {our_peak:.2f} GB")
    print(f"ours, epoch, 72 % labelled    {labelled_time:8.3f} s")
    print(f"gathers, epoch, all nodes     {slow_time:8.3f} s   peak {peak():.2f} GB")
    print(f"before any epoch                           peak {before:.2f} GB")
    print(f"ratio {ratio:.1f} (at least {LEAST_RATIO:.0f} wanted)")
    return int(ratio < LEAST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
