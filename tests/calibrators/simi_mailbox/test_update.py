import warnings

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp

from simi_mailbox import SimiMailbox, load, metrics
from simi_mailbox.calibrators.simi_mailbox.model import (
    LATE_TERMS,
    Model,
    Nodes,
    advice,
    corrected,
    correction,
)
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.synthetic import calibration_problem

IDS = [f"n{i}" for i in range(900)]


def problem(seed=0):
    return calibration_problem(900, 3, temperature=1.5, seed=seed)


def fitted(p, **more):
    return SimiMailbox(n_groups=5).fit(p.logits, p.y, graph=p.graph, mask=range(300), **more)


def drifted(p):
    """Labels that follow flatter probabilities than those of the fit, and more of class 0."""
    scores = p.logits / 5.0 + np.array([1.5, 0.0, 0.0])
    noise = np.random.default_rng(5).gumbel(size=scores.shape)
    return np.where(np.arange(900) < 300, p.y, (scores + noise).argmax(axis=1))


def test_late_labels_correct_the_level_under_drift():
    p = problem()
    y, late, rest = drifted(p), np.arange(300, 400), np.arange(400, 900)
    cal = fitted(p)
    before = cal.predict_proba(p.logits, graph=p.graph)[rest]
    with pytest.warns(CalibrationWarning, match="a refit on calibration nodes"):
        cal.update(late, y[late])
    after = cal.predict_proba(p.logits, graph=p.graph)[rest]
    assert cal.correction_["drifted"] > 0.99
    assert metrics.nll(after, y[rest]) < 0.9 * metrics.nll(before, y[rest])
    assert np.array_equal(after.argmax(axis=1), before.argmax(axis=1))  # classes are kept


def test_without_drift_the_level_hardly_moves():
    found = []
    for seed in range(5):
        p = problem(seed)
        cal = fitted(p).update(np.arange(300, 350), p.y[300:350])
        found.append(abs(cal.correction_["scale"]))
    assert np.mean(found) < 0.03


@pytest.mark.parametrize(
    ("first", "then", "shift"), [((300, 325), 300, 1), ((300, 310), 310, 0), ((300, 325), 325, 0)]
)
def test_updates_add_up_and_the_newer_label_counts(first, then, shift):
    p = problem()
    at_once = fitted(p).update(np.arange(300, 340), p.y[300:340])
    daily = fitted(p).update(np.arange(*first), (p.y[slice(*first)] + shift) % 3)
    daily.update(np.arange(then, 340), p.y[then:340])
    assert daily.correction_["labels"] == 40
    np.testing.assert_array_equal(daily.late_["ids"], np.arange(300, 340))
    np.testing.assert_array_equal(daily.late_["labels"], p.y[300:340])
    one, other = (c.predict_proba(p.logits, graph=p.graph) for c in (at_once, daily))
    assert np.abs(one - other).max() < 1e-6


def test_late_labels_are_evidence_on_neighbours_wherever_the_nodes_stand():
    p = problem()
    cal = fitted(p, node_ids=IDS)
    order = np.random.default_rng(0).permutation(900)
    moved = p.graph.edge_index().numpy()
    moved = np.argsort(order)[moved]
    names = [IDS[i] for i in order]
    given = {"logits": p.logits[order], "graph": moved, "all_ids": names}
    cal.update(["n300", "n301"], p.y[300:302], **given)
    here = cal.predict_proba(p.logits, graph=p.graph, node_ids=IDS)
    there = cal.predict_proba(p.logits[order], graph=moved, node_ids=names)
    assert np.abs(here[order] - there).max() < 1e-5
    plain = fitted(p, node_ids=IDS).predict_proba(p.logits, graph=p.graph, node_ids=IDS)
    assert np.abs(here - plain).max() > 1e-4


def test_a_saved_calibrator_is_updated_with_the_nodes_as_they_are_now(tmp_path):
    p = problem()
    cal = fitted(p, node_ids=IDS)
    cal.save(tmp_path / "before.safetensors")
    again = load(tmp_path / "before.safetensors")
    with pytest.raises(ValueError, match="has seen no nodes yet: pass the logits"):
        again.update(["n300"], [0])
    given = {"logits": p.logits, "graph": p.graph, "all_ids": IDS}
    cal.update(IDS[300:340], p.y[300:340])
    again.update(IDS[300:340], p.y[300:340], **given).save(tmp_path / "after.safetensors")
    grown = (tmp_path / "after.safetensors").stat().st_size
    grown -= (tmp_path / "before.safetensors").stat().st_size
    assert 0 < grown < 40 * 40
    probs = [
        one.predict_proba(p.logits, graph=p.graph, node_ids=IDS)
        for one in (cal, again, load(tmp_path / "after.safetensors"))
    ]
    assert np.abs(probs[0] - probs[1]).max() < 1e-7
    assert np.array_equal(probs[1], probs[2])


def test_labels_of_nodes_that_are_not_here_leave_the_level():
    p = problem()
    cal = fitted(p, node_ids=IDS)
    with pytest.warns(CalibrationWarning, match="no late label is of a node that is here"):
        cal.update(["elsewhere"], [0])
    assert not hasattr(cal, "correction_")
    with pytest.warns(CalibrationWarning, match="the level stays"):  # fit knew these labels
        fitted(p).update(range(50), p.y[:50])


@pytest.mark.parametrize(
    ("ids", "labels", "error", "message"),
    [
        ([300, 300], [0, 1], ValueError, "must differ"),
        ([300, 301], [0], ValueError, "1 labels|labels"),
        ([300], [7], ValueError, "7"),
        ([0.5], [1], TypeError, "whole numbers or strings"),
        (["a"], [1], TypeError, "strings in one place"),
    ],
)
def test_what_cannot_be_is_refused(ids, labels, error, message):
    cal = fitted(problem())
    with pytest.raises(error, match=message):
        cal.update(ids, labels)
    assert not hasattr(cal, "late_")


def test_a_fit_forgets_what_was_updated():
    p = problem()
    cal = fitted(p).update(np.arange(300, 340), p.y[300:340])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cal.fit(p.logits, p.y, graph=p.graph, mask=range(300))
    assert not hasattr(cal, "late_")
    assert not hasattr(cal, "correction_")


def test_a_correction_keeps_the_uniform_weight_of_the_model():
    """Labels of a model with a uniform part, as it is: nothing has drifted."""
    rng = np.random.default_rng(0)
    z = 4 * rng.normal(size=(3000, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    y = np.where(rng.random(3000) < 0.3, rng.integers(0, 3, 3000), y)
    model = Model.bare(np.full(3, 1 / 3), 0.3)
    found = correction(model, Nodes.bare(torch.from_numpy(z)), y, [])
    assert found["drifted"] < 0.1
    assert abs(found["scale"]) < 0.01
    assert np.abs(found["intercepts"]).max() < 0.02
    assert found["intercepts"].shape == (3,)


def two_classes(gap, uniform=0.0):
    """Nodes whose fitted score of class 1 relative to class 0 is ``gap``."""
    scores = torch.from_numpy(np.stack([np.zeros(len(gap)), gap], axis=1))
    return Model.bare(np.array([0.6, 0.4]), uniform), Nodes.bare(scores)


@pytest.mark.parametrize("uniform", [0.0, 0.1])
@pytest.mark.parametrize(
    ("gap", "share"),
    [
        ([0.0], 1.0), ([1.0] * 12, 1.0), ([2.0] * 20, 0.2), ([1.0, -1.0] * 10, 0.5),
        ([2.0, -2.0] * 40, 0.9), ([0.5, 1.5, -3.0] * 30, 0.3),
    ],
)  # fmt: skip
def test_a_correction_is_that_of_the_formula_on_a_grid(gap, share, uniform):
    """Integrals by sums over a, b₁ − b₀ (all that two classes show) and the uniform weight."""
    s, y = np.array(gap), (np.arange(len(gap)) < share * len(gap)).astype(np.int64)
    model, nodes = two_classes(s, uniform)
    found = correction(model, nodes, y, [])
    a, d, u = np.linspace(-1.5, 1.5, 61), np.linspace(-8, 8, 161), np.linspace(-8, 2, 41)

    def log_likelihood(score, weight):
        p = expit(np.where(y == 1, score, -score))
        rest = np.where(y == 1, 0.4, 0.6)
        return np.log((1 - weight) * p + weight * rest).sum(axis=-1)

    scores = np.exp(a)[:, None, None] * s + d[None, :, None]
    told = np.stack([log_likelihood(scores, weight) for weight in expit(u)])
    started = max(np.log(max(uniform, 1e-6) / (1 - uniform)), -3)
    of_u, of_a = -0.5 * (u - started) ** 2, -0.5 * (a / 0.3) ** 2
    told += (of_u - logsumexp(of_u))[:, None, None] + (of_a - logsumexp(of_a))[:, None]
    evidence, best, weight = [], [], []
    for width in (0.1, 0.3, 1.0, 2.0):
        of_d = -0.25 * (d / width) ** 2  # the difference of two has twice the variance
        found_here = told + of_d - logsumexp(of_d)
        evidence.append(logsumexp(found_here))
        best.append(np.unravel_index(np.argmax(found_here), told.shape))
        weight.append(np.log(width) - np.log1p((width / 0.3) ** 2))
    weight = np.array(weight) - logsumexp(weight)
    gain = logsumexp(np.array(evidence) + weight) - log_likelihood(s, uniform)
    drifted = 0.5 * np.exp(gain) / (1 + 0.5 * np.exp(gain))
    assert found["drifted"] == pytest.approx(drifted, abs=0.04)
    share_of = np.exp(np.array(evidence) + weight - logsumexp(np.array(evidence) + weight))
    mean = [sum(w * grid[at[i]] for w, at in zip(share_of, best, strict=True))
            for i, grid in enumerate((u, a, d))]  # fmt: skip
    assert found["scale"] == pytest.approx(drifted * mean[1], abs=0.06)
    difference = found["intercepts"][1] - found["intercepts"][0]
    assert difference == pytest.approx(drifted * mean[2], abs=0.15)
    stayed = np.log(max(uniform, 1e-6) / (1 - max(uniform, 1e-6)))
    expected = expit(stayed + drifted * (mean[0] - stayed))
    assert found["uniform"] == pytest.approx(expected, abs=0.02)
    assert found["labels"] == len(y)


def test_late_labels_weigh_evidence_as_it_deserves():
    """Scores tell nothing; one term names every class, the others are noise."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 400)
    noise = [torch.from_numpy(rng.normal(size=(400, 3))) for _ in LATE_TERMS]
    told = np.eye(3)[y] + 0.5 * rng.normal(size=(400, 3))
    model, nodes = Model.bare(np.full(3, 1 / 3)), Nodes.bare(torch.zeros(400, 3).double())
    for place in (1, 2):
        evidence = noise.copy()
        evidence[place] = torch.from_numpy(told)
        found = correction(model, nodes, y, evidence)
        # log-odds of N(1, 1/4) against N(0, 1/4) are 4 x - 2
        assert found["evidence"][place] == pytest.approx(4.0, rel=0.25)
        assert np.abs(np.delete(found["evidence"], place)).max() < 0.4
        after, seen = corrected(model, nodes, found, evidence)
        assert metrics.nll(after.probabilities(seen).numpy(), y) < 0.5


def test_a_correction_of_nothing_changes_nothing():
    rng = np.random.default_rng(2)
    nodes = Nodes.bare(torch.from_numpy(rng.normal(size=(20, 3))))
    model = Model.bare(np.array([0.5, 0.3, 0.2]), 0.1)
    nothing = {"scale": 0.0, "evidence": np.zeros(1), "intercepts": np.zeros(3), "uniform": 0.1}
    after, seen = corrected(model, nodes, nothing, [torch.ones(20, 3)])
    assert torch.allclose(after.probabilities(seen), model.probabilities(nodes))


@pytest.mark.parametrize(
    ("labels", "drifted", "told"), [(50, 0.5, True), (49, 0.9, False), (500, 0.49, False)]
)
def test_a_refit_is_advised_from_fifty_labels_and_even_odds_on(labels, drifted, told):
    assert bool(advice({"labels": labels, "drifted": drifted})) == told


def test_late_labels_by_name_do_not_count_where_nodes_have_none():
    """The graph is that of fit, so its labels do; whose names the late ones bear is not known."""
    p = problem()
    cal = fitted(p, node_ids=IDS).update(IDS[300:340], p.y[300:340])
    with pytest.warns(CalibrationWarning, match="no node_ids tell which nodes are the same"):
        nameless = cal.predict_proba(p.logits, graph=p.graph)
    named = cal.predict_proba(p.logits, graph=p.graph, node_ids=IDS)
    assert np.abs(nameless - named).max() > 1e-4
    del cal.late_
    without = cal.predict_proba(p.logits, graph=p.graph, node_ids=IDS)
    np.testing.assert_allclose(nameless, without, atol=1e-7)


def test_late_labels_of_training_nodes_do_not_move_the_level():
    p = problem()
    cal = fitted(p, train_mask=np.arange(500, 900))
    with pytest.warns(CalibrationWarning, match="the level stays"):
        cal.update(np.arange(500, 560), p.y[500:560])
    cal.update(np.arange(450, 460), p.y[450:460])
    assert cal.correction_["labels"] == 10
