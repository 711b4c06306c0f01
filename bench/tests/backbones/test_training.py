"""Training: the loop, early stopping, equality with a plain loop, determinism, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import toy_graph
from pyg_networks import pyg_network
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.backbones.training import (
    EarlyStopping,
    LowestLoss,
    build,
    train,
    train_loop,
)
from simi_mailbox_bench.datasets import Split, available, load, make_split


def toy():
    return toy_graph.toy(120, ends=(30, 60, 120))


def reference_stop(curve, patience):
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
def test_early_stopping_follows_the_rule(curve, patience):
    rule, checkpoint, epoch = EarlyStopping(patience), 0, 0
    while epoch < len(curve) and not rule.stopped:
        epoch += 1
        if rule.update(*curve[epoch - 1]):
            checkpoint = epoch
    assert (epoch, checkpoint) == reference_stop(curve, patience)


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_equals_a_plain_loop_with_pyg_layers(backbone):
    """The same model from PyG's layers, computed on the whole graph each time."""
    dataset, split = toy()
    plain = Settings(dropout=0.0, attention_dropout=0.0, epochs=25)
    ours: list[tuple[float, float]] = []
    run = train(
        dataset, split, backbone, seed=4, settings=plain,
        progress=lambda epoch, accuracy, nll: ours.append((accuracy, nll)),
    )  # fmt: skip
    start = build(backbone, 3, 3, plain, seed=4)
    forward, layers = pyg_network(backbone, start, (3, 64, 3))
    sums = np.maximum(dataset.x.sum(1, keepdims=True), 1)
    x, y = torch.from_numpy(dataset.x / sums), torch.tensor(dataset.y)
    edges = dataset.graph.edge_index()
    fit, watch = torch.tensor(split.train), torch.tensor(split.val)
    optimiser = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)
    expected, logits = [], {}
    for epoch in range(1, 26):
        optimiser.zero_grad()
        nn.functional.cross_entropy(forward(x, edges)[fit], y[fit]).backward()
        optimiser.step()
        with torch.no_grad():
            logits[epoch] = forward(x, edges)
        val = logits[epoch][watch]
        accuracy = (val.argmax(1) == y[watch]).double().mean().item()
        expected.append((accuracy, nn.functional.cross_entropy(val, y[watch]).item()))
    np.testing.assert_allclose(ours, expected, atol=1e-4)
    _, checkpoint = reference_stop(expected, 100)
    assert run.best_epoch == checkpoint
    torch.testing.assert_close(run.logits, logits[checkpoint], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("backbone", ["gcn", "gat", "sage", "gin", "mlp"])
def test_same_seed_same_bits_whatever_the_global_state_and_the_test_labels(backbone):
    dataset, split = toy()
    y = dataset.y.copy()
    y[split.test] = (y[split.test] + 1) % 3
    torch.manual_seed(0)
    before = torch.get_rng_state()
    given = ((dataset, 1), (dataset, 1), (replace(dataset, y=y), 1), (dataset, 2))
    first, *same, other = (
        train(data, split, backbone, seed=seed, settings=Settings(epochs=8)).logits
        for data, seed in given
    )
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    same.append(train(dataset, split, backbone, seed=1, settings=Settings(epochs=8)).logits)
    assert all(torch.equal(first, again) for again in same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: train(toy()[0], Split([0], [500], [1]), "gcn", seed=0), "val holds node 500, but"),
        (lambda: build("transformer", 3, 2), "gcn, gat, sage, gin, mlp"),
        (lambda: build("gat", 3, 2, Settings(hidden=20)), "multiple of heads=8"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


@pytest.mark.skipif("Cora" not in available(), reason="Cora is not on this machine")
def test_gcn_on_cora_reaches_the_known_accuracy():
    cora = load("Cora", download=False)
    split = make_split(cora, "folds")
    run = train(cora, split, "gcn", seed=0, settings=Settings(epochs=200))
    correct = run.logits.argmax(1).numpy()[split.test] == cora.y[split.test]
    assert 0.80 < correct.mean() < 0.87  # 15 full trainings: 82.7 ± 0.7 %


class Counter(nn.Module):
    """One weight that falls by one in each step, and a memory of the modes it was called in."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.modes: list[bool] = []

    def forward(self):
        self.modes.append(self.training)
        return self.weight


def count_down(losses, patience=None):
    model, told = Counter(), []

    def validate():
        return (losses[round(-model().item()) - 1],)

    best = train_loop(
        model,
        torch.optim.SGD([model.weight], lr=1.0),
        model,
        validate,
        LowestLoss(patience),
        epochs=len(losses),
        progress=lambda epoch, loss: told.append(epoch),
    )
    return model, best, told


def test_the_weights_of_the_first_lowest_loss_are_kept():
    model, best, told = count_down([3.0, 1.0, 2.0, 1.0, 5.0])
    assert (best.epochs, best.epoch, best.scores, model.weight.item()) == (5, 2, (1.0,), -2.0)
    assert told == [1, 2, 3, 4, 5]
    assert not model.training
    assert not model.weight.requires_grad
    assert model.modes == [True, False] * 5


@pytest.mark.parametrize(("patience", "epochs", "kept"), [(1, 2, 1), (2, 6, 4), (3, 7, 4)])
def test_patience_counts_epochs_since_the_best(patience, epochs, kept):
    _, best, told = count_down([3.0, 4.0, 2.0, 1.0, 2.0, 2.0, 2.0, 0.0], patience)
    assert (best.epochs, best.epoch, len(told)) == (epochs, kept, epochs)


def test_without_a_finite_loss_the_first_weights_stay():
    model, best, _ = count_down([math.nan, math.nan, math.nan], patience=2)
    assert (best.epochs, best.epoch, best.scores, model.weight.item()) == (2, 0, (), 0.0)
