"""The training loop: early stopping, equality with a plain loop, determinism, refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from simi_mailbox.graph import Graph
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.backbones.training import EarlyStopping, build, train
from simi_mailbox_bench.datasets import NodeDataset, Split, available, load, make_split


def toy(seed: int = 0, nodes: int = 120, classes: int = 3) -> tuple[NodeDataset, Split]:
    """Homophilous graph with weakly informative sparse features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, nodes)
    ends = rng.integers(0, nodes, (2, 1200))
    same = y[ends[0]] == y[ends[1]]
    ends = ends[:, same | (rng.random(1200) < 0.2)]
    x = (rng.random((nodes, 20)) < 0.1 + 0.2 * (np.arange(20) % classes == y[:, None])) * 1.0
    order = rng.permutation(nodes)
    data = NodeDataset("toy", Graph.from_edges(ends, nodes), x, y, classes)
    return data, Split(order[:30], order[30:60], order[60:])


def reference_stop(curve: list[tuple[float, float]], patience: int) -> tuple[int, int]:
    """Epochs run and checkpoint, straight from the wording of the rule: look back each time."""
    checkpoint, last_reset = 0, 0
    for epoch in range(1, len(curve) + 1):
        accuracy, nll = curve[epoch - 1]
        before = curve[: epoch - 1]
        best_accuracy = max([a for a, _ in before], default=0.0)
        best_nll = min([n for _, n in before], default=float("inf"))
        if accuracy >= best_accuracy or nll <= best_nll:
            last_reset = epoch
        if accuracy >= best_accuracy and nll <= best_nll:
            checkpoint = epoch
        if epoch - last_reset == patience:
            return epoch, checkpoint
    return len(curve), checkpoint


# Few distinct values, so that ties are common.
scores = st.tuples(
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.sampled_from([0.1, 0.2, 0.5, 1.0, 3.0])
)


@given(st.lists(scores, min_size=1, max_size=60), st.integers(1, 6))
@settings(max_examples=300, deadline=None)
def test_early_stopping_follows_the_rule(curve: list[tuple[float, float]], patience: int) -> None:
    rule, checkpoint, epoch = EarlyStopping(patience), 0, 0
    while epoch < len(curve) and not rule.stopped:
        epoch += 1
        if rule.update(*curve[epoch - 1]):
            checkpoint = epoch
    assert (epoch, checkpoint) == reference_stop(curve, patience)


def test_patience_of_one_hundred_epochs_without_either() -> None:
    rule = EarlyStopping(patience=100)
    rule.update(0.9, 0.5)
    for _ in range(99):
        rule.update(0.8, 0.6)
    assert not rule.stopped
    rule.update(0.8, 0.6)
    assert rule.stopped


class PlainNet(nn.Module):
    """The same model from PyG's layers, computed on the whole graph each time."""

    def __init__(self, backbone: str, weights: dict[str, Tensor]) -> None:
        super().__init__()
        pyg = pytest.importorskip("torch_geometric.nn", reason="PyG is the reference here")
        wide, classes = weights["weight0"].shape[0], weights["weight1"].shape[1]
        self.activation = nn.functional.elu if backbone == "gat" else torch.relu
        if backbone == "gat":
            self.layers = nn.ModuleList(
                [pyg.GATConv(wide, 8, heads=8), pyg.GATConv(64, classes, concat=False)]
            )
        else:
            self.layers = nn.ModuleList([pyg.GCNConv(wide, 64), pyg.GCNConv(64, classes)])
        with torch.no_grad():
            for k, layer in enumerate(self.layers):
                layer.lin.weight.copy_(weights[f"weight{k}"].T)
                layer.bias.copy_(weights[f"bias{k}"])
                if backbone == "gat":
                    layer.att_src.copy_(weights[f"source{k}"])
                    layer.att_dst.copy_(weights[f"target{k}"])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        first, second = self.layers
        hidden: Tensor = second(self.activation(first(x, edges)), edges)
        return hidden


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_equals_a_plain_loop_with_pyg_layers(backbone: str) -> None:
    dataset, split = toy()
    plain_settings = Settings(dropout=0.0, attention_dropout=0.0, epochs=25)
    ours: list[tuple[float, float]] = []
    run = train(
        dataset,
        split,
        backbone,
        seed=4,
        settings=plain_settings,
        progress=lambda epoch, accuracy, nll: ours.append((accuracy, nll)),
    )
    start = dict(build(backbone, 20, 3, plain_settings, seed=4).state_dict())
    net = PlainNet(backbone, start)
    sums = np.maximum(dataset.x.sum(1, keepdims=True), 1)
    x, y = torch.from_numpy(dataset.x / sums), torch.tensor(dataset.y)
    edges = dataset.graph.edge_index()
    fit, watch = torch.tensor(split.train), torch.tensor(split.val)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    expected, logits = [], {}
    for epoch in range(1, 26):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x, edges)[fit], y[fit]).backward()
        optimiser.step()
        with torch.no_grad():
            logits[epoch] = net(x, edges)
        val = logits[epoch][watch]
        accuracy = (val.argmax(1) == y[watch]).double().mean().item()
        expected.append((accuracy, nn.functional.cross_entropy(val, y[watch]).item()))
    np.testing.assert_allclose(ours, expected, atol=1e-4)
    _, checkpoint = reference_stop(expected, 100)
    assert run.best_epoch == checkpoint
    torch.testing.assert_close(run.logits, logits[checkpoint], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("backbone", ["gcn", "gat", "sage", "gin", "mlp"])
def test_same_seed_same_bits(backbone: str) -> None:
    dataset, split = toy()
    short = Settings(epochs=8)
    first, again, other = (
        train(dataset, split, backbone, seed=seed, settings=short).logits for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_global_randomness_is_neither_used_nor_touched() -> None:
    dataset, split = toy()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = train(dataset, split, "gat", seed=1, settings=Settings(epochs=4)).logits
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    assert torch.equal(
        first, train(dataset, split, "gat", seed=1, settings=Settings(epochs=4)).logits
    )


def test_labels_outside_train_and_validation_are_never_read() -> None:
    dataset, split = toy()
    y = dataset.y.copy()
    y[split.test] = (y[split.test] + 1) % 3
    lied = replace(dataset, y=y)
    short = Settings(epochs=8)
    plain = train(dataset, split, "gcn", seed=1, settings=short)
    assert torch.equal(plain.logits, train(lied, split, "gcn", seed=1, settings=short).logits)


@pytest.mark.parametrize("backbone", ["gcn", "gat", "sage", "gin"])
def test_learns_the_toy_graph(backbone: str) -> None:
    dataset, split = toy()
    run = train(dataset, split, backbone, seed=0, settings=Settings(epochs=60))
    correct = run.logits.argmax(1).numpy()[split.test] == dataset.y[split.test]
    assert correct.mean() > 0.75  # chance is one third


def test_checkpoint_weights_give_the_logits() -> None:
    dataset, split = toy()
    run = train(dataset, split, "sage", seed=0, settings=Settings(epochs=30))
    assert run.logits.dtype == torch.float32
    assert run.hidden.shape == (120, 64)
    last = run.hidden @ run.weights["own1"] + run.weights["bias1"]
    mean = torch.zeros(120, 64)
    for node in range(120):
        neighbours = dataset.graph.neighbours(node)
        if neighbours.numel():
            mean[node] = run.hidden[neighbours].mean(0)
    torch.testing.assert_close(run.logits, last + mean @ run.weights["weight1"])


def test_a_split_of_a_larger_graph_is_refused() -> None:
    dataset, _ = toy()
    with pytest.raises(ValueError, match="reach 500, but toy has 120 nodes"):
        train(dataset, Split([0], [500], [1]), "gcn", seed=0)


def test_an_unknown_backbone_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="gcn, gat, sage, gin, mlp"):
        build("transformer", 3, 2)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="multiple of heads=8"):
        build("gat", 3, 2, Settings(hidden=20))


@pytest.mark.skipif("Cora" not in available(), reason="Cora is not on this machine")
def test_gcn_on_cora_reaches_the_known_accuracy() -> None:
    cora = load("Cora", download=False)
    split = make_split(cora, "folds")
    run = train(cora, split, "gcn", seed=0, settings=Settings(epochs=200))
    correct = run.logits.argmax(1).numpy()[split.test] == cora.y[split.test]
    assert 0.80 < correct.mean() < 0.87  # 15 full trainings: 82.7 ± 0.7 %
