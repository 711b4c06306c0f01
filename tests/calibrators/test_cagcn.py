"""CaGCN: its formula, what it recovers, and the graphs that break lesser code."""

import torch
import torch.nn.functional as F

from simi_mailbox.calibrators.cagcn import CaGCN, margin_loss
from simi_mailbox.calibrators.temperature import TemperatureScaling
from simi_mailbox.validation import Labelled

from .problems import dense_gcn, homophilous, problem


def test_probabilities_follow_the_formula_from_the_fitted_weights():
    logits, graph = homophilous(60)
    cal = CaGCN(epochs=5).fit(logits, logits.argmax(1), graph=graph, mask=torch.arange(30))
    a, w = dense_gcn(graph), cal.weights_
    units = (a @ logits @ w["first.weight"].T + w["first.bias"]).relu()
    t = F.softplus(a @ units @ w["second.weight"].T + w["second.bias"])
    probs = cal.predict_proba(logits, graph=graph)
    torch.testing.assert_close(probs, (logits * t).softmax(1), rtol=1e-4, atol=1e-5)
    temperatures = cal.node_temperatures(logits, graph=graph)
    torch.testing.assert_close(temperatures, 1 / t.flatten(), rtol=1e-4, atol=1e-5)


def test_reaches_the_oracle_when_the_truth_is_a_gcn_of_the_logits():
    logits, graph = homophilous(4000)
    a = dense_gcn(graph)
    agreement = (a @ logits).amax(1, keepdim=True)
    t = F.softplus(1.5 * (a @ (agreement - agreement.mean())) - 0.5).flatten()
    case = problem(logits, graph, 1 / t)
    assert case.cost(TemperatureScaling()) > 1.02
    assert case.cost(CaGCN(weight_decay=0.0, dropout=0.1, lr=0.02, epochs=800), graph=graph) < 1.02


def test_margin_loss_is_the_published_formula_and_changes_the_fit():
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    nodes = Labelled(torch.tensor([0, 1]), torch.tensor([0, 2]))  # right, wrong
    p = logits.softmax(1)
    expected = (
        F.cross_entropy(logits, nodes.y) + 0.5 * ((1 - p[0, 0] + p[0, 1]) + (p[1, 1] - p[1, 2])) / 2
    )
    torch.testing.assert_close(margin_loss(logits, 0.5)(torch.ones(2), nodes), expected)
    case = problem(*homophilous(200), torch.full((200,), 2.0))
    fits = [
        CaGCN(epochs=30, margin=margin).fit(case.logits, case.y, graph=case.graph, mask=case.mask)
        for margin in (0.0, 0.5)
    ]
    assert not torch.equal(fits[0].weights_["first.weight"], fits[1].weights_["first.weight"])
