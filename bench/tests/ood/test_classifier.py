"""The classifier behind the detection table."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from simi_mailbox.graph import Graph
from simi_mailbox_bench import ood
from simi_mailbox_bench.datasets import Split


def toy(seed: int = 0) -> tuple[np.ndarray, Graph, np.ndarray, Split]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 40)
    x = (np.eye(6)[y] + 0.3 * rng.random((120, 6))).astype(np.float32)
    edges = rng.integers(0, 40, (2, 240)) + 40 * rng.integers(0, 3, 240)
    order = rng.permutation(120)
    return x, Graph.from_edges(edges, 120), y, Split(order[:30], order[30:60], order[60:])


SHORT = ood.ClassifierSettings(epochs=40)


def test_knows_its_own_graph_better_than_a_perturbed_one() -> None:
    x, graph, y, split = toy()
    trained = ood.train_classifier(x, graph, y, split, settings=SHORT, seed=0)
    own = trained.logits(x, graph)
    assert (own.argmax(dim=1).numpy() == y)[split.test].mean() > 0.95
    mixed = ood.interpolated_features(x, seed=0)
    known = ood.propagated_energy(own, graph)[torch.tensor(split.test)]
    unknown = ood.propagated_energy(trained.logits(mixed, graph), graph)
    assert ood.evaluate(known, unknown).auroc > 0.8


def test_keeps_the_epoch_of_lowest_validation_loss() -> None:
    x, graph, y, split = toy()
    losses: list[float] = []
    trained = ood.train_classifier(
        x, graph, y, split, settings=SHORT, progress=lambda _, loss: losses.append(loss)
    )
    assert len(losses) == 40
    assert trained.best_epoch == int(np.argmin(losses)) + 1
    logits = trained.logits(x, graph)[torch.tensor(split.val)]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(y[split.val]))
    assert loss.item() == pytest.approx(min(losses), rel=1e-5)


def test_reads_no_label_of_a_test_node_and_repeats_itself() -> None:
    x, graph, y, split = toy()
    spoiled = y.copy()
    spoiled[split.test] = -1
    outputs = [
        ood.train_classifier(x, graph, labels, split, settings=SHORT, seed=1).logits(x, graph)
        for labels in (y, spoiled)
    ]
    assert torch.equal(*outputs)


def test_sparse_features_give_the_same() -> None:
    x, graph, y, split = toy()
    trained = ood.train_classifier(x, graph, y, split, settings=SHORT)
    torch.testing.assert_close(trained.logits(sp.csr_array(x), graph), trained.logits(x, graph))


def test_refuses_a_graph_with_another_feature_width() -> None:
    x, graph, y, split = toy()
    trained = ood.train_classifier(x, graph, y, split, settings=SHORT)
    with pytest.raises(
        ValueError, match="5 features per node, but the classifier was trained on 6"
    ):
        trained.logits(x[:, :5], graph)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="epochs"):
        ood.ClassifierSettings(epochs=0)
