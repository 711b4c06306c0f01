"""GATS: the fast layer against the obvious one, what it recovers, and where others break."""

import pytest
import torch

from simi_mailbox.calibrators.gats import GATS, TemperatureAttention, positive, training_distances
from simi_mailbox.calibrators.temperature import TemperatureScaling
from simi_mailbox.exceptions import SolverError
from simi_mailbox.validation import NodeInputs

from .gather_gats import gather_temperatures
from .problems import homophilous, problem


def random_weights(seed=0):
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    weights = {"theta": theta, "base": torch.tensor(0.7), "omega": torch.tensor(-0.8)}
    weights["gamma"] = torch.tensor([0.5, 1.7])
    return {name: value.double().requires_grad_() for name, value in weights.items()}


def test_fast_layer_has_values_and_gradients_of_the_layer_with_gathers():
    logits, graph = homophilous(80)
    logits = logits.double()
    distances = training_distances(torch.arange(10), graph)
    assert distances.bincount().min() > 0
    network = TemperatureAttention(NodeInputs(logits, graph), distances, heads=3).double()
    weights = random_weights()
    network.load_state_dict(weights)

    index = torch.tensor([40, 3, 11, 79, 0])
    slow = gather_temperatures(weights, logits, graph, distances)
    torch.testing.assert_close(network.temperatures(None), slow)
    torch.testing.assert_close(network.temperatures(index), slow[index])
    towards = torch.linspace(-1, 1, 5, dtype=torch.float64)
    (slow[index] * towards).sum().backward()  # type: ignore[no-untyped-call]
    (network.temperatures(index) * towards).sum().backward()  # type: ignore[no-untyped-call]
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad)


def test_reaches_the_oracle_when_the_truth_is_in_the_family():
    logits, graph = homophilous(4000)
    network = TemperatureAttention(
        NodeInputs(logits, graph), training_distances(None, graph), heads=1, start=0.2
    )
    with torch.no_grad():
        network.theta.copy_(torch.tensor([[0.0, 9.0, 4.0, -4.0]]))
        network.omega.fill_(-4.0)
        truth = network.temperatures(None)
    case = problem(logits, graph, truth)
    assert case.cost(TemperatureScaling()) > 1.02
    assert case.cost(GATS(weight_decay=0.0, lr=0.05), graph=graph) < 1.02


def test_positive_leaves_usual_temperatures_alone_and_is_smooth():
    x = torch.linspace(-2, 3, 5001, dtype=torch.float64).requires_grad_()
    y = positive(x)
    assert (y > 0).all()
    torch.testing.assert_close(y[x >= 0.1], x[x >= 0.1])
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert (slope[x > -0.8] > 0).all()
    assert slope.diff().abs().max() < 0.011  # no jump: the steepest bend is 0.001 / FLOOR


def test_temperatures_stay_positive_where_the_published_formula_fails():
    logits, graph = homophilous(100)
    given = {"graph": graph, "mask": torch.arange(50)}
    bent, strict = (GATS(epochs=2, strict_paper=one) for one in (False, True))
    for cal in (bent, strict):
        cal.fit(logits, logits.argmax(1), **given)
    found, expected = (cal.predict_proba(logits, graph=graph) for cal in (bent, strict))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)  # usual temperatures
    for cal in (bent, strict):
        cal.weights_["base"].fill_(-5.0)
    assert (bent.node_temperatures(logits, graph=graph) > 0).all()
    assert torch.equal(bent.predict_proba(logits, graph=graph).argmax(1), logits.argmax(1))
    with pytest.raises(SolverError, match=r"100 nodes .* strict_paper=False"):
        strict.predict_proba(logits, graph=graph)


def fitted_gats(**given):
    logits, graph = homophilous(200)
    cal = GATS(epochs=20).fit(logits, logits.argmax(1), graph=graph, mask=MASK, **given)
    return cal, logits, graph


MASK, TRAIN = torch.arange(100), torch.arange(100, 140)


def test_training_nodes_are_those_of_the_fit_or_named_and_of_no_other_graph():
    cal, logits, graph = fitted_gats(early_stopping_mask=TRAIN)
    assert (cal.weights_["gamma"] != 1).all()
    stranger, elsewhere = homophilous(200, seed=7)
    nowhere = training_distances(None, elsewhere)
    assert (nowhere == 2).all()
    cases = (logits, graph, training_distances(TRAIN, graph)), (stranger, elsewhere, nowhere)
    for z, known, distances in cases:
        expected = gather_temperatures(cal.weights_, z, known, distances)
        found = cal.node_temperatures(z, graph=known)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    given = {"graph": place[graph.edge_index()], "train_mask": place[TRAIN]}
    found = cal.node_temperatures(logits[order], **given)
    torch.testing.assert_close(found, cal.node_temperatures(logits, graph=graph)[order])
    none = torch.zeros(200, dtype=torch.bool)
    without = cal.predict_proba(logits, graph=graph, train_mask=none)
    assert not torch.equal(without, cal.predict_proba(logits, graph=graph))


def test_named_training_nodes_go_before_the_holdout_and_need_no_labels():
    other = torch.arange(150, 170)
    cal, logits, graph = fitted_gats(early_stopping_mask=TRAIN, train_mask=other)
    assert cal.training_nodes_ is not None
    assert torch.equal(cal.training_nodes_["index"], other)
    y = logits.argmax(1)
    y[other] = -1
    given = {"mask": MASK, "early_stopping_mask": TRAIN, "train_mask": other}
    hidden = GATS(epochs=20).fit(logits, y, graph=graph, **given)
    found, expected = (one.predict_proba(logits, graph=graph) for one in (hidden, cal))
    assert torch.equal(found, expected)
