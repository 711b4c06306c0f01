"""Training epochs of our backbones against the same models from PyG's layers, and peak memory.

    python bench/speed/bench_models.py              # Cora, CS, Computers, Physics
    python bench/speed/bench_models.py --threads 2

Both sides run in one process, in turn, on the same data and the same number of threads; what
counts is their ratio. Times are processor seconds, the median of a few epochs, so that other work
on the machine disturbs them less. The datasets must be on this machine (docs/data.md).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simi_mailbox_bench.backbones import Features, Settings, build, settings_for, train
from simi_mailbox_bench.datasets import NodeDataset, Split, load, make_split

MEMORY_LIMIT = 1.5e9
# What must hold: dataset, what is timed, least ratio.
TARGETS = {"GCN epoch, Cora": 3.0, "GCN epoch, CS": 8.0, "GAT first layer, Computers": 2.0}


def dense_normalised(dataset: NodeDataset) -> Tensor:
    """Row-normalised features as PyG users hold them."""
    x = dataset.x if isinstance(dataset.x, np.ndarray) else dataset.x.toarray()
    return torch.from_numpy(x / np.maximum(x.sum(1, keepdims=True), 1))


def median_epoch(run: Callable[[], Any], epochs: int) -> float:
    """Processor seconds of one call, after one to warm up."""
    run()
    times = []
    for _ in range(epochs):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def our_epoch(dataset: NodeDataset, split: Split, backbone: str, epochs: int) -> float:
    """One training epoch with its evaluation, as `train` runs it."""
    ends: list[float] = []
    settings = replace(settings_for(dataset.name), epochs=epochs + 2)
    train(
        dataset,
        split,
        backbone,
        seed=0,
        settings=settings,
        progress=lambda *_: ends.append(time.process_time()),
    )
    return statistics.median(np.diff(ends[1:]))


def pyg_gcn_epoch(dataset: NodeDataset, split: Split, epochs: int) -> float:
    """The same epoch with GCNConv on dense features and the whole graph."""
    from torch_geometric.nn import GCNConv

    class Net(nn.Module):
        def __init__(self, wide: int, classes: int) -> None:
            super().__init__()
            # cached: PyG too may normalise the adjacency only once.
            self.first, self.second = (
                GCNConv(wide, 64, cached=True),
                GCNConv(64, classes, cached=True),
            )

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            hidden = F.dropout(torch.relu(self.first(x, edges)), 0.5, self.training)
            logits: Tensor = self.second(hidden, edges)
            return logits

    settings = settings_for(dataset.name)
    x, y = dense_normalised(dataset), torch.tensor(dataset.y)
    edges, fit, val = (
        dataset.graph.edge_index(),
        torch.tensor(split.train),
        torch.tensor(split.val),
    )
    net = Net(x.shape[1], dataset.num_classes)
    optimiser = torch.optim.Adam(
        net.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )

    def epoch() -> None:
        net.train()
        optimiser.zero_grad()
        F.cross_entropy(net(x, edges)[fit], y[fit]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        net.eval()
        with torch.no_grad():
            logits = net(x, edges)
            float(F.cross_entropy(logits[val], y[val]))
            float((logits[val].argmax(1) == y[val]).double().mean())

    return median_epoch(epoch, epochs)


def our_gat_layer(dataset: NodeDataset, repeats: int) -> float:
    """First GAT layer on all nodes, both dropouts on, forward and backward."""
    model = build("gat", dataset.num_features, dataset.num_classes, Settings())
    features = Features(dataset.x, row_normalise=True)
    steps = model.plan(dataset.graph)
    generator = torch.Generator().manual_seed(0)

    def once() -> None:
        model.zero_grad()
        model.stem(features, steps, generator).sum().backward()  # type: ignore[no-untyped-call]

    return median_epoch(once, repeats)


def pyg_gat_layer(dataset: NodeDataset, repeats: int) -> float:
    """The same with GATConv on dense features."""
    from torch_geometric.nn import GATConv

    layer = GATConv(dataset.num_features, 8, heads=8, dropout=0.5)
    x, edges = dense_normalised(dataset), dataset.graph.edge_index()

    def once() -> None:
        layer.zero_grad()
        F.elu(layer(F.dropout(x, 0.5), edges)).sum().backward()  # type: ignore[no-untyped-call]

    return median_epoch(once, repeats)


def peak_memory(name: str, backbone: str) -> int:
    """Most resident bytes of a new process that loads a dataset and trains a few epochs."""
    code = (
        "from dataclasses import replace\n"
        "import torch; torch.set_num_threads(1)\n"
        "from simi_mailbox_bench.datasets import load, make_split\n"
        "from simi_mailbox_bench.backbones import settings_for, train\n"
        f"d = load({name!r}, download=False)\n"
        f"s = replace(settings_for({name!r}), epochs=5)\n"
        f"train(d, make_split(d, 'folds'), {backbone!r}, seed=0, settings=s)\n"
        "from pathlib import Path\n"
        "lines = Path('/proc/self/status').read_text().splitlines()\n"
        "print(next(line.split()[1] for line in lines if line.startswith('VmHWM')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) * 1024


def main() -> int:
    """Print one line for each comparison; 1 if one misses its target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    rows: list[tuple[str, float, float]] = []
    for name in ("Cora", "CS"):
        dataset = load(name, download=False)
        split = make_split(dataset, "folds")
        # Cora's epochs are short: more of them make the median steady.
        repeats = chosen.repeats * (10 if name == "Cora" else 1)
        slow = pyg_gcn_epoch(dataset, split, repeats)
        rows.append((f"GCN epoch, {name}", slow, our_epoch(dataset, split, "gcn", repeats)))
    dataset = load("Computers", download=False)
    slow = pyg_gat_layer(dataset, chosen.repeats)
    rows.append(("GAT first layer, Computers", slow, our_gat_layer(dataset, chosen.repeats)))
    missed = 0
    print(f"{'':28}{'PyG':>10}{'ours':>10}{'ratio':>8}{'wanted':>8}   ({chosen.threads} threads)")
    for label, slow, fast in rows:
        missed += slow / fast < TARGETS[label]
        times = f"{1e3 * slow:7.1f} ms{1e3 * fast:7.1f} ms"
        print(f"{label:28}{times}{slow / fast:8.1f}{TARGETS[label]:8.1f}")
    if Path("/proc/self/status").exists():
        for backbone in ("gcn", "gat"):
            peak = peak_memory("Physics", backbone)
            missed += peak > MEMORY_LIMIT
            label = f"peak memory, Physics {backbone}"
            print(f"{label:28}{peak / 1e6:17.0f} MB   (wanted: below {MEMORY_LIMIT / 1e6:.0f})")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
