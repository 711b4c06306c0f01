"""GETS: experts and gate against the formula written out, and what it recovers."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor

from simi_mailbox.calibrators.gets import EXPERTS, GETS, chance_of_selection, variation
from simi_mailbox.calibrators.temperature import TemperatureScaling
from simi_mailbox.graph import Graph

from .problems import dense_gcn, homophilous, problem


def features_of(logits):
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(len(logits), 5, generator=generator)
    return (noise > 1).float()


@pytest.mark.parametrize("select", [1, 2, 7])
def test_probabilities_follow_the_formula_from_the_fitted_weights(select):
    logits, graph = homophilous(60)
    x = features_of(logits)
    cal = GETS(select=select, epochs=5)
    cal.fit(logits, logits.argmax(1), graph=graph, features=x, mask=torch.arange(30))
    w, adjacency = cal.weights_, dense_gcn(graph)
    projections = torch.split(x @ w["project.weight"].T + w["project.bias"], 64, dim=1)
    outputs, seen, embedded = [], 0, 0
    for m, kinds in enumerate(EXPERTS):
        inputs = []
        if "logits" in kinds:
            inputs.append(logits)
        if "features" in kinds:
            inputs.append(projections[seen])
            seen += 1
        if "degree" in kinds:
            inputs.append(w["embed"][embedded][graph.degree])
            embedded += 1
        units = adjacency @ torch.cat(inputs, 1) @ w[f"first.{m}"]
        units = (units + w["first_bias"][16 * m : 16 * m + 16]).relu()
        outputs.append(adjacency @ units @ w["second"][m] + w["second_bias"][m])
    scores = torch.cat([projections[-1], logits], 1) @ w["gate"]
    kth = scores.topk(select, dim=1).values[:, -1:]
    gates = scores.masked_fill(scores < kth, -torch.inf).softmax(1)
    scale = sum(gates[:, m : m + 1] * outputs[m] for m in range(7))
    assert isinstance(scale, Tensor)
    expected = (logits * F.softplus(scale)).softmax(1)
    found = cal.predict_proba(logits, graph=graph, features=x)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_every_parameter_moves_degree_embeddings_too():
    logits, graph = homophilous(200)
    given: dict[str, Any] = {"graph": graph, "features": features_of(logits), "mask": range(100)}
    start = GETS(epochs=1, lr=1e-12).fit(logits, logits.argmax(1), **given)
    after = GETS(epochs=40).fit(logits, logits.argmax(1), **given)
    for name, value in start.weights_.items():
        assert not torch.allclose(value, after.weights_[name], atol=1e-3), name


def test_reaches_the_oracle_when_temperature_follows_a_feature():
    logits, graph = homophilous(2000)
    rng = torch.Generator().manual_seed(5)
    group = torch.rand(2000, generator=rng) < 0.5
    edges = graph.edge_index()
    graph = Graph.from_edges(edges[:, group[edges[0]] == group[edges[1]]], 2000)
    x = torch.stack([group, ~group], 1).float()
    case = problem(logits, graph, torch.where(group, 4.0, 0.8))
    assert case.cost(TemperatureScaling()) > 1.05
    assert case.cost(GETS(epochs=120, lr=0.02, dropout=0.0), graph=graph, features=x) < 1.03


def test_sparse_features_give_what_dense_ones_give():
    logits, graph = homophilous(100)
    dense = features_of(logits)
    found = []
    for x in (dense, csr_array(dense.numpy()), dense.to_sparse_csr()):
        cal = GETS(epochs=10)
        cal.fit(logits, logits.argmax(1), graph=graph, features=x, mask=torch.arange(50))
        found.append(cal.predict_proba(logits, graph=graph, features=x))
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)
    assert torch.equal(found[1], found[2])


def test_chance_of_selection_is_that_of_drawing_the_noise_again():
    generator = torch.Generator().manual_seed(0)
    clean = torch.randn(1, 5, generator=generator)
    spread = torch.full((1, 5), 0.7)
    scores = clean + spread * torch.randn(1, 5, generator=generator)
    top = scores.topk(3, dim=1).values
    found = chance_of_selection(clean, scores, spread, top, 2).flatten()
    for m in range(5):
        again = scores.repeat(200_000, 1)
        fresh = torch.randn(200_000, generator=generator)
        again[:, m] = clean[0, m] + spread[0, m] * fresh
        picked = (again.topk(2, dim=1).indices == m).any(1).float().mean()
        assert abs(float(picked - found[m])) < 0.005


def test_variation_is_zero_for_equal_use():
    assert variation(torch.full((7,), 3.0)).item() == 0.0
    assert variation(torch.tensor([1.0, 0.0, 0.0])).item() == pytest.approx(3.0)


def test_degrees_beyond_the_fitted_ones_share_a_row_and_other_features_are_refused():
    logits, graph = homophilous(100)
    x = features_of(logits)
    cal = GETS(epochs=5)
    cal.fit(logits, logits.argmax(1), graph=graph, features=x, mask=torch.arange(50))
    assert cal.weights_["embed"].shape[1] == int(graph.degree.max()) + 1
    star = Graph.from_edges(torch.stack([torch.zeros(99).long(), torch.arange(1, 100)]), 100)
    probs = cal.predict_proba(logits, graph=star, features=x)
    torch.testing.assert_close(probs.sum(1), torch.ones(100))
    with pytest.raises(ValueError, match="3 columns"):
        cal.predict_proba(logits, graph=graph, features=torch.ones(100, 3))
