"""Detection of out-of-distribution nodes: metrics, perturbations, scores, the classifier."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import toy_graph
from simi_mailbox import calibrators
from simi_mailbox.graph import Graph
from simi_mailbox_bench import ood
from simi_mailbox_bench.datasets import Split
from simi_mailbox_bench.ood import _unrank

scores = st.lists(st.integers(-5, 5).map(lambda v: v / 4), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(known=scores, unknown=scores)
def test_metrics_agree_with_their_definitions_also_with_ties(known, unknown):
    found, k, u = ood.evaluate(known, unknown), np.array(known), np.array(unknown)
    pairs = np.sign(k[:, None] - u[None, :])
    assert found.auroc == pytest.approx((1 + pairs.mean()) / 2)
    least = sorted(set(known), reverse=True)  # the score from which on nodes count as known
    recall = np.array([0.0] + [np.mean(k >= t) for t in least])
    precision = [np.sum(k >= t) / (np.sum(k >= t) + np.sum(u >= t)) for t in least]
    assert found.aupr == pytest.approx(np.diff(recall) @ precision)
    assert found.fpr95 == min(np.mean(u >= t) for t in least if np.mean(k >= t) >= 0.95)
    assert found == ood.evaluate(torch.tensor(k), torch.tensor(u))
    scaled = ood.evaluate(np.exp(k), np.exp(u))  # an increasing transformation changes nothing
    assert scaled == found


@pytest.mark.parametrize("known", [[], [np.nan]])
def test_refuses_what_is_no_list_of_scores(known):
    with pytest.raises(ValueError, match="scores of known and unknown nodes are needed"):
        ood.evaluate(known, [0.0])


def sparse_graph(n=900, edges=9000, seed=0):
    return Graph.from_edges(np.random.default_rng(seed).integers(0, n, (2, edges)), n)


def test_every_pair_has_its_number_also_in_a_large_block():
    pairs = zip(*_unrank(np.arange(45)), strict=True)
    assert sorted(pairs) == sorted((i, j) for j in range(10) for i in range(j))
    numbers = 200_000 * 199_999 // 2 - 1 - np.arange(3)
    lower, upper = _unrank(numbers)
    assert (lower < upper).all()
    assert (upper * (upper - 1) // 2 + lower == numbers).all()
    assert upper.max() == 199_999


def test_block_densities_are_as_asked():
    graph = sparse_graph()
    made = ood.random_blocks(graph, 3, seed=1)
    density = graph.num_entries / (900 * 899)
    block = np.arange(900) // 300
    source, target = made.edge_index().numpy()
    within = (block[source] == block[target]).sum() / (3 * 300 * 299)
    between = (block[source] != block[target]).sum() / (900 * 600)
    assert (within, between) == pytest.approx((1.5 * density, 0.5 * density), rel=0.05)
    assert made == ood.random_blocks(graph, 3, seed=1)
    assert made != ood.random_blocks(graph, 3, seed=2)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_are_mixtures_of_two_nodes(kind):
    x = kind(np.eye(40, dtype=np.float32))
    made, again, other = (ood.interpolated_features(x, seed=seed) for seed in (3, 3, 4))
    assert type(made) is type(x)
    dense = made.toarray() if sp.issparse(made) else made
    assert dense.dtype == np.float32
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, rtol=1e-6)
    assert ((dense > 0).sum(axis=1) <= 2).all()
    assert (dense.max(axis=1) < 1).mean() > 0.8
    assert abs(made - again).max() == 0 < abs(made - other).max()


def test_left_out_classes_leave_training_and_labels():
    y = np.tile(np.arange(5), 12)
    split = Split(np.arange(20), np.arange(20, 40), np.arange(40, 60))
    left = ood.leave_out_classes(y, split, unknown=[0, 1], drop=[2])
    assert left.classes == (3, 4)
    assert set(y[left.unknown]) == {0, 1}
    for part in (left.split.train, left.split.val, left.split.test):
        assert (set(y[part]), set(left.y[part])) == ({3, 4}, {0, 1})
    assert (left.y[np.isin(y, [0, 1, 2])] == -1).all()


@pytest.mark.parametrize("unknown", [[], [9], [0, 1]])
def test_leaving_out_refuses_what_leaves_nothing(unknown):
    y = np.array([0, 1, 2, 0, 1, 2])
    with pytest.raises(ValueError, match="leave out classes that some node has"):
        ood.leave_out_classes(y, Split([0, 1], [2, 3], [4, 5]), unknown=unknown)


def logits(n=30, classes=4, seed=0):
    return 2 * torch.randn(n, classes, generator=torch.Generator().manual_seed(seed))


def ring(n=30):
    return Graph.from_edges(np.stack([np.arange(n), (np.arange(n) + 1) % n]))


@pytest.mark.parametrize("steps", [0, 3])
def test_propagated_energy_agrees_with_dense_algebra(steps):
    z, graph = logits(), ring()
    matrix = np.zeros((30, 30))
    source, target = graph.edge_index().numpy()
    matrix[target, source] = 0.5  # every node of a ring has two neighbours
    step = np.linalg.matrix_power(0.3 * np.eye(30) + 0.7 * matrix, steps)
    expected = step @ torch.logsumexp(z, dim=1).numpy()
    found = ood.propagated_energy(z, graph, steps=steps, keep=0.3)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_a_node_without_neighbours_fades_like_the_authors_code():
    z = torch.tensor([[4.0, 0.0]])
    faded = ood.propagated_energy(z, Graph.empty(1), steps=2, keep=0.5)
    torch.testing.assert_close(faded, 0.25 * ood.energy(z))


@pytest.mark.parametrize("name", ["temperature", "simi-mailbox", "gets"])
def test_a_calibrator_fitted_in_distribution_scores_another_graph(name):
    z, cal, more = logits(), calibrators.get(name)(), {}
    y = torch.where(torch.arange(30) % 3 == 0, 0, z.argmax(dim=1))  # right two times in three
    x = np.random.default_rng(0).normal(size=(30, 4))
    if name == "gets":
        cal, more = cal.set_params(epochs=3), {"features": x}
    fitted = cal.fit(z, y, mask=np.arange(20), graph=ring(), **more)
    other, given = logits(12, seed=1), {key: x[:12] for key in more}
    score = ood.calibrated_confidence(fitted, other, ring(12), **given)
    assert torch.equal(score, fitted.predict_proba(other, graph=ring(12), **given).amax(dim=1))


SHORT = ood.ClassifierSettings(epochs=40)


@pytest.fixture(scope="module")
def toy():
    data, split = toy_graph.toy(120, noise=0.15, ends=(30, 60, 120))
    return data.x, data.graph, data.y, split


def test_the_epoch_of_lowest_validation_loss_knows_its_own_graph_better(toy):
    x, graph, y, split = toy
    losses: list[float] = []
    trained = ood.train_classifier(
        *toy, settings=SHORT, progress=lambda _, loss: losses.append(loss)
    )
    assert (len(losses), trained.best_epoch) == (40, int(np.argmin(losses)) + 1)
    own = trained.logits(x, graph)
    val = torch.tensor(split.val)
    loss = torch.nn.functional.cross_entropy(own[val], torch.tensor(y)[val])
    assert loss.item() == pytest.approx(min(losses), rel=1e-5)
    assert (own.argmax(dim=1).numpy() == y)[split.test].mean() > 0.95
    mixed = ood.interpolated_features(x, seed=0)
    known = ood.propagated_energy(own, graph)[torch.tensor(split.test)]
    unknown = ood.propagated_energy(trained.logits(mixed, graph), graph)
    assert ood.evaluate(known, unknown).auroc > 0.8
    torch.testing.assert_close(trained.logits(sp.csr_array(x), graph), own)
    message = "2 features per node, but the classifier was trained on 3"
    with pytest.raises(ValueError, match=message):
        trained.logits(x[:, :2], graph)


def test_reads_no_label_of_a_test_node_and_repeats_itself(toy):
    x, graph, y, split = toy
    spoiled = y.copy()
    spoiled[split.test] = -1
    outputs = [
        ood.train_classifier(x, graph, labels, split, settings=SHORT, seed=1).logits(x, graph)
        for labels in (y, spoiled)
    ]
    assert torch.equal(*outputs)
