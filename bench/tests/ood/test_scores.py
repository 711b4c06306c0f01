"""Scores by hand and by their properties."""

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators
from simi_mailbox.graph import Graph
from simi_mailbox_bench import ood


def logits(n: int = 30, classes: int = 4, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(n, classes, generator=torch.Generator().manual_seed(seed))


def ring(n: int = 30) -> Graph:
    return Graph.from_edges(np.stack([np.arange(n), (np.arange(n) + 1) % n]))


def test_max_probability_is_that_of_softmax() -> None:
    z = logits()
    expected = np.exp(z.numpy()) / np.exp(z.numpy()).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ood.max_probability(z).numpy(), expected.max(axis=1), rtol=1e-5)


def test_propagated_energy_agrees_with_dense_algebra() -> None:
    z, graph = logits(), ring()
    matrix = np.zeros((30, 30))
    source, target = graph.edge_index().numpy()
    matrix[target, source] = 0.5  # every node of a ring has two neighbours
    step = 0.3 * np.eye(30) + 0.7 * matrix
    expected = step @ step @ step @ ood.energy(z).numpy()
    found = ood.propagated_energy(z, graph, steps=3, keep=0.3)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_propagation_without_steps_is_energy() -> None:
    z = logits()
    assert torch.equal(ood.propagated_energy(z, ring(), steps=0), ood.energy(z))


def test_a_node_without_neighbours_fades_like_the_authors_code() -> None:
    z = torch.tensor([[4.0, 0.0]])
    faded = ood.propagated_energy(z, Graph.empty(1), steps=2, keep=0.5)
    torch.testing.assert_close(faded, 0.25 * ood.energy(z))


@pytest.mark.parametrize("name", ["temperature", "simi-mailbox"])
def test_a_calibrator_fitted_in_distribution_scores_another_graph(name: str) -> None:
    z = logits()
    y = torch.where(torch.arange(30) % 3 == 0, 0, z.argmax(dim=1))  # right two times in three
    fitted = calibrators.get(name)().fit(z, y, mask=np.arange(20), graph=ring())
    other = logits(12, seed=1)
    score = ood.calibrated_confidence(fitted, other, ring(12))
    assert score.shape == (12,)
    expected = fitted.predict_proba(other, graph=ring(12)).amax(dim=1)
    assert torch.equal(score, expected)


def test_a_calibrator_that_needs_features_is_given_them() -> None:
    z, x = logits(), np.random.default_rng(0).normal(size=(30, 4))
    given = {"graph": ring(), "features": x}
    fitted = calibrators.get("gets")(epochs=3).fit(z, z.argmax(dim=1), mask=np.arange(20), **given)
    score = ood.calibrated_confidence(fitted, z, ring(), features=x)
    assert torch.equal(score, fitted.predict_proba(z, **given).amax(dim=1))
