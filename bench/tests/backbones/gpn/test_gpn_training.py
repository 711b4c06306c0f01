"""Training of the posterior network, and what it says of its own graph and of others."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from simi_mailbox.graph import Graph
from simi_mailbox_bench.backbones.gpn import GPNSettings, TrainedGPN, train_gpn
from simi_mailbox_bench.datasets import Split

CLASSES, PER_CLASS = 3, 40


def toy(seed: int = 0) -> tuple[np.ndarray, Graph, np.ndarray, Split]:
    """Three clusters of features, edges mostly inside a class."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(CLASSES), PER_CLASS)
    x = (np.eye(CLASSES)[y] * 2 + rng.normal(0, 0.4, (y.size, CLASSES))).astype(np.float32)
    same = rng.integers(0, PER_CLASS, (2, 200)) + PER_CLASS * rng.integers(0, CLASSES, 200)
    other = rng.integers(0, y.size, (2, 15))
    graph = Graph.from_edges(np.concatenate([same, other], axis=1), y.size)
    order = rng.permutation(y.size)
    return x, graph, y, Split(order[:30], order[30:60], order[60:])


@pytest.fixture(scope="module")
def trained() -> TrainedGPN:
    x, graph, y, split = toy()
    # Rows are left as they are: normalised, a far point would come near again.
    settings = GPNSettings(max_epochs=80, row_normalise=False)
    return train_gpn(x, graph, y, split, settings=settings, seed=1)


def test_learns_separable_classes(trained: TrainedGPN) -> None:
    x, graph, y, split = toy()
    predicted = trained.predict(x, graph).probs.argmax(dim=1).numpy()
    assert (predicted[split.test] == y[split.test]).mean() > 0.95


def test_probabilities_sum_to_one_and_log_probs_are_their_logarithm(trained: TrainedGPN) -> None:
    x, graph, _, _ = toy()
    prediction = trained.predict(x, graph)
    torch.testing.assert_close(prediction.probs.sum(dim=1), torch.ones(x.shape[0]))
    torch.testing.assert_close(prediction.log_probs.exp(), prediction.probs)
    assert bool((prediction.alpha >= 1).all())


def test_evidence_falls_with_distance_from_the_data(trained: TrainedGPN) -> None:
    x, _, _, _ = toy()
    centre = x.mean(axis=0)
    away = np.stack([centre + step * np.ones(CLASSES) for step in (2.0, 8.0, 32.0)])
    evidence = trained.predict(away.astype(np.float32), Graph.empty(3)).feature_evidence
    known = trained.predict(x, Graph.empty(x.shape[0])).feature_evidence
    assert evidence[0] > evidence[1] > evidence[2]
    assert evidence[2] < 0.01 * known.median()


def test_features_far_away_give_even_probabilities(trained: TrainedGPN) -> None:
    far = np.full((1, CLASSES), 1e4, dtype=np.float32)
    probs = trained.predict(far, Graph.empty(1)).probs
    torch.testing.assert_close(probs, torch.full((1, CLASSES), 1 / CLASSES), atol=1e-6, rtol=0)


def test_sparse_and_dense_features_agree(trained: TrainedGPN) -> None:
    x, graph, _, _ = toy()
    x = np.where(np.abs(x) > 0.3, x, 0.0).astype(np.float32)
    dense = trained.predict(x, graph).probs
    sparse = trained.predict(sp.csr_array(x), graph).probs
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=1e-5)


def test_reads_no_label_of_a_test_node() -> None:
    x, graph, y, split = toy()
    spoiled = y.copy()
    spoiled[split.test] = -7
    settings = GPNSettings(max_epochs=5)
    outputs = [
        train_gpn(x, graph, labels, split, settings=settings, seed=2).predict(x, graph).alpha
        for labels in (y, spoiled)
    ]
    assert torch.equal(*outputs)


def test_same_seed_same_bits_other_seed_other_bits() -> None:
    x, graph, y, split = toy()
    settings = GPNSettings(max_epochs=5)
    first, second, other = (
        train_gpn(x, graph, y, split, settings=settings, seed=seed).predict(x, graph).alpha
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_progress_is_told_of_every_epoch() -> None:
    x, graph, y, split = toy()
    seen: list[tuple[int, float]] = []
    train_gpn(
        x,
        graph,
        y,
        split,
        settings=GPNSettings(max_epochs=4),
        progress=lambda epoch, loss: seen.append((epoch, loss)),
    )
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4]
    assert all(np.isfinite(loss) for _, loss in seen)


def test_keeps_the_weights_of_the_best_epoch() -> None:
    x, graph, y, split = toy()
    losses: list[float] = []
    trained = train_gpn(
        x,
        graph,
        y,
        split,
        settings=GPNSettings(max_epochs=400, patience=5),
        progress=lambda _, loss: losses.append(loss),
    )
    assert trained.epochs == len(losses) < 400
    assert trained.val_loss == min(losses)
    log_probs = trained.predict(x, graph).log_probs.numpy()[split.val]
    loss = -log_probs[np.arange(split.val.size), y[split.val]].mean()
    assert loss == pytest.approx(min(losses), rel=1e-5)


def test_refuses_features_of_another_width(trained: TrainedGPN) -> None:
    with pytest.raises(ValueError, match="5 features per node, but the GPN was trained on 3"):
        trained.predict(np.ones((4, 5)), Graph.empty(4))


def test_refuses_a_class_without_training_node() -> None:
    x, graph, y, split = toy()
    with pytest.raises(ValueError, match="class 3 has no training node"):
        train_gpn(x, graph, y, split, num_classes=4)


def test_refuses_labels_out_of_range() -> None:
    x, graph, y, split = toy()
    with pytest.raises(ValueError, match=r"range over 0\.\.2; expected 0\.\.1"):
        train_gpn(x, graph, y, split, num_classes=2)
