"""DCGC: its three steps written out, what it gains, and what it refuses."""

import numpy as np
import pytest
import torch

import simi_mailbox
from simi_mailbox.calibrators import dcgc
from simi_mailbox.calibrators.dcgc import DCGC
from simi_mailbox.calibrators.network import seeded
from simi_mailbox.calibrators.temperature import TemperatureScaling
from simi_mailbox.validation import NodeInputs

from .problems import homophilous


def frozen_gnn(own, graph):
    """Every node adds to its own evidence the weighted mean of its neighbours'."""

    def forward(edge_weight):
        weights = edge_weight.to(own.dtype)[:, None]
        heard = torch.zeros_like(own).index_add(0, graph.rows(), weights * own[graph.indices])
        return own + heard / graph.degree.clamp_min(1)[:, None]

    return forward


def case(n=300):
    own, graph = homophilous(n)
    forward = frozen_gnn(own, graph)
    logits = forward(torch.ones(graph.num_entries))
    generator = torch.Generator().manual_seed(0)
    y = torch.multinomial(own.softmax(1), 1, generator=generator).flatten()
    order = torch.randperm(n, generator=generator)
    masks = {"mask": order[: n // 3], "early_stopping_mask": order[n // 3 : 2 * n // 3]}
    return {"logits": logits, "y": y, "graph": graph, "forward": forward, **masks}


def _inputs(given):
    return NodeInputs(given["logits"], given["graph"], forward=given["forward"])


def test_probabilities_follow_the_three_steps_from_the_fitted_weights():
    given = case()
    logits, graph, forward = given["logits"], given["graph"], given["forward"]
    cal = DCGC(epochs=20, alpha=0.3, beta=4.0).fit(**given)
    w = cal.weights_
    i, j = graph.rows(), graph.indices
    unit = logits / logits.square().mean().sqrt()
    units = unit[j] @ w["sender.weight"].T + w["sender.bias"] + unit[i] @ w["receiver.weight"].T
    weights = (units.relu() @ w["last.weight"].T + w["last.bias"]).relu().flatten()
    p = forward(weights).softmax(1)
    s = (4.0 * p).softmax(1)
    weights = weights / ((s[i] - s[j]).norm(dim=1) + 0.3)
    expected = (forward(weights) / cal.base_state_["temperature_"]).softmax(1)
    found = cal.predict_proba(logits, graph=graph, forward=forward)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_training_the_edges_lowers_the_loss_of_the_gnn():
    """Neighbours say nothing here that counts: weights near zero are best, and are found."""
    given = case(600)
    cal = DCGC(dropout=0.0, weight_decay=0.0, epochs=200).fit(**given)
    network = cal._network(_inputs(given))
    start = network.edge_weights().mean()
    network.load_state_dict(cal.weights_)
    assert network.edge_weights().mean() < 0.5 * start
    plain = TemperatureScaling().fit(given["logits"], given["y"], mask=given["mask"])
    rest = np.setdiff1d(np.arange(600), torch.cat([given["mask"], given["early_stopping_mask"]]))
    score = {"logits": given["logits"], "y": given["y"], "mask": rest}
    these = {"graph": given["graph"], "forward": given["forward"]}
    assert cal.score(**score, **these) > plain.score(**score) + 0.01


def test_dropped_units_leave_the_edge_weights_as_they_are_on_average():
    network = DCGC(dropout=0.7)._network(_inputs(case(100))).double()
    network.logits = network.logits.double()
    with torch.no_grad(), seeded(0):
        network.last.bias.fill_(20.0)  # no weight is cut off at zero
        noisy = torch.stack([network.train().edge_weights() for _ in range(400)])
        still = network.eval().edge_weights()
    assert (noisy.std(dim=0) > 0).all()
    error = (noisy.mean(dim=0) - still) / (noisy.std(dim=0) / 400**0.5)
    assert error.square().mean().sqrt() < 1.3


@pytest.mark.parametrize("base", ["vector", "cagcn", "gats"])
def test_other_bases_are_fitted_and_restored(base, tmp_path):
    given = case(120)
    quick = {} if base == "vector" else {"epochs": 5}
    cal = DCGC(base=base, base_params=quick, epochs=5).fit(**given)
    these = {"graph": given["graph"], "forward": given["forward"]}
    probs = cal.predict_proba(given["logits"], **these)
    cal.save(tmp_path / "cal.safetensors")
    again = simi_mailbox.load(tmp_path / "cal.safetensors")
    assert torch.equal(again.predict_proba(given["logits"], **these), probs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"forward": lambda w: torch.zeros(3, 2)}, "shape"),
        ({"forward": lambda w: None}, "NoneType"),
        ({"forward": lambda w: case(60)["logits"]}, "differentiable"),
        ({"base": "nothing"}, "unknown calibrator"),
        ({"base": "gets"}, "needs features"),
        ({"base": "dcgc"}, "needs forward"),
        ({"base": "gats", "base_params": {"heads": 0}}, "heads"),
    ],
)
def test_refuses_what_it_cannot_use(wrong, message):
    given = case(60) | {name: wrong[name] for name in wrong if name == "forward"}
    params = {name: wrong[name] for name in wrong if name != "forward"}
    with pytest.raises(ValueError, match=message):
        DCGC(epochs=2, **params).fit(**given)


@pytest.mark.parametrize("block", [1, 700, 1 << 24])
def test_edges_in_blocks_have_the_gradients_of_the_formula(block, monkeypatch):
    monkeypatch.setattr(dcgc, "BLOCK", block)
    network = DCGC(dropout=0.0)._network(_inputs(case(20)))
    network.edge_weights().square().sum().backward()
    found = {name: value.grad for name, value in network.named_parameters()}
    network.zero_grad()
    z = network.logits
    units = (network.sender(z)[network.senders] + network.receiver(z)[network.receivers]).relu()
    network.last(units).relu().square().sum().backward()
    for name, value in network.named_parameters():
        torch.testing.assert_close(found[name], value.grad)
