"""`SimiMailbox`: what it must keep, find, refuse to believe, and whose labels it uses."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.special import softmax

import simi_mailbox
from simi_mailbox import CalibrationWarning, Graph, SimiMailbox, TemperatureScaling
from simi_mailbox.calibrators.simi_mailbox import calibrator as module
from simi_mailbox.metrics import nll
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox.testing import SIZES, Case, permuted_gain
from simi_mailbox.validation import Labelled

MODES = pytest.mark.parametrize("keep", [True, False])
LABELS = np.arange(300)
pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


@pytest.fixture(scope="module")
def problem():
    return homophilous()


def homophilous(seed=0, n=1200, k=4, degree=6):
    """Labels of a hidden class that edges follow and logits tell only in part."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k)) * 1.5 + 1.5 * np.eye(k)[y]
    a = rng.integers(n, size=degree * n // 2)
    alike = rng.random(a.size) < 0.8
    b = rng.integers(n, size=a.size)
    for c in range(k):
        members = np.flatnonzero(y == c)
        chosen = alike & (y[a] == c)
        b[chosen] = rng.choice(members, chosen.sum())
    return Homophilous(2 * logits, y, Graph.from_edges(np.stack([a, b]), n))


class Homophilous(NamedTuple):
    logits: np.ndarray
    y: np.ndarray
    graph: Graph


def fitted(problem, mask=LABELS, **parameters):
    names = ("node_ids", "used_for_selection")
    given = {name: parameters.pop(name) for name in names if name in parameters}
    cal = SimiMailbox(**parameters)
    return cal.fit(problem.logits, problem.y, graph=problem.graph, mask=mask, **given)


def quiet(call, *args, **kwargs):
    """The call must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call(*args, **kwargs)


@MODES
def test_evidence_is_found_where_it_is(problem, keep):
    cal = fitted(problem, keep_classes=keep)
    plain = TemperatureScaling().fit(problem.logits, problem.y, mask=LABELS)
    rest = np.arange(300, 1200)
    ours = cal.predict_proba(problem.logits, graph=problem.graph)[rest]
    theirs = plain.predict_proba(problem.logits)[rest]
    right = [(probs.argmax(1) == problem.y[rest]).mean() for probs in (ours, theirs)]
    assert (ours.argmax(1) == theirs.argmax(1)).all() if keep else right[0] > right[1] + 0.03
    assert cal.coefficients_["trust"] > 0.99
    assert nll(ours, problem.y[rest]) < nll(theirs, problem.y[rest]) - (0.02 if keep else 0.1)


def test_the_intercepts_of_a_class_weighted_model_are_recovered():
    p = calibration_problem(6000, 3, seed=0)
    weights = np.array([0.0, 0.7, 1.5])
    weighted = p.logits + weights
    cal = SimiMailbox(keep_classes=False)
    cal.fit(weighted, p.y, graph=p.graph, mask=range(3000))
    found = cal.intercepts_ - cal.intercepts_[0]
    np.testing.assert_allclose(found, -weights, atol=0.25)
    shown = cal.predict_proba(weighted, graph=p.graph)[3000:]
    shares = np.bincount(p.y[3000:], minlength=3) / 3000
    np.testing.assert_allclose(shown.mean(axis=0), shares, atol=0.02)


def class_weighted(seed, n=3000, share=0.1, weight=2.0):
    """Two classes, one rare and found among its like; logits of a model trained with weights."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    ends = rng.integers(n, size=(2, 8 * n))
    linked = rng.random(8 * n) < np.where(y[ends[0]] == y[ends[1]], 0.5, 0.25)
    score = rng.normal(size=n) + 2 * y - 1 + np.log(share / (1 - share)) + weight
    return np.stack([np.zeros(n), score], axis=1), y, ends[:, linked]


def test_class_balance_is_the_same_where_no_label_is_near():
    """Labels near a node must not carry the class balance: on a later graph there are none."""
    (z, y, edges), later = class_weighted(0), class_weighted(1)
    cal = SimiMailbox(keep_classes=False)
    cal.fit(z, y, graph=edges, mask=range(600), used_for_selection=False)
    here = cal.predict_proba(z, graph=edges)[600:, 1].mean() - y[600:].mean()
    with pytest.warns(CalibrationWarning, match="node_ids"):
        shown = cal.predict_proba(later[0], graph=later[2])
    there = shown[:, 1].mean() - later[1].mean()
    assert abs(there - here) < 0.01
    assert abs(there) < 0.02


def test_many_labels_find_what_one_temperature_cannot():
    def truth(conf, similarity):
        return np.where(similarity > np.median(similarity), 0.7, 2.5)

    p = calibration_problem(20_000, 4, temperature=truth, seed=0)
    mask, rest = np.arange(10_000), np.arange(10_000, 20_000)
    losses = [
        nll(cal.fit(p.logits, p.y, graph=p.graph, mask=mask)
            .predict_proba(p.logits, graph=p.graph)[rest], p.y[rest])
        for cal in (SimiMailbox(), TemperatureScaling())
    ]  # fmt: skip
    assert losses[0] < losses[1] - 0.005


@pytest.mark.parametrize("classes", [2, 200])
@pytest.mark.parametrize("labels", [1, 20, 400])
@pytest.mark.parametrize("edges", [False, True])
def test_unusual_graphs_are_never_much_worse_than_temperature_scaling(classes, labels, edges):
    p = calibration_problem(2000, classes, temperature=1.5, seed=1)
    graph = p.graph if edges else Graph.empty(2000)
    mask, rest = np.arange(labels), np.arange(labels, 2000)

    def loss(calibrator):
        calibrator.fit(p.logits, p.y, graph=graph, mask=mask)
        probs = calibrator.predict_proba(p.logits, graph=graph)
        assert np.isfinite(probs).all()
        return nll(probs[rest], p.y[rest])

    assert loss(SimiMailbox()) < loss(TemperatureScaling()) + 0.02


@MODES
@pytest.mark.parametrize(("labels", "most"), [(2, 0.999), (10, 0.999), (40, 0.997)])
def test_few_labels_that_are_all_right_do_not_make_it_certain(keep, labels, most):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2000, 3))
    logits[np.arange(2000), rng.integers(3, size=2000)] += 5.2
    assert softmax(logits, axis=1).max(1).mean() == pytest.approx(0.976, abs=0.01)
    graph = Graph.from_edges(rng.integers(2000, size=(2, 6000)), 2000)
    given = Homophilous(logits, logits.argmax(1), graph)
    cal = fitted(given, range(labels), keep_classes=keep)
    assert cal.predict_proba(logits, graph=graph).max(1).mean() <= most


@MODES
def test_permuted_labels_tell_nothing(keep):
    """With two to fifty classes and twenty to 2,000 labels; the class's own law has fewer."""
    case = Case(SimiMailbox, keep_classes=keep)
    for sizes in (*SIZES, (200, 50), (2000, 4)):
        gain, deviation = permuted_gain(case, *sizes)
        assert gain <= 10 + 3 * deviation, sizes


def test_it_warns_where_classes_cannot_be_kept():
    p = calibration_problem(2000, 2, seed=0)
    given = (p.logits + np.array([0.0, 4.0]), p.y)
    cal, where = SimiMailbox(), {"graph": p.graph, "mask": range(600)}
    with pytest.warns(CalibrationWarning, match="for .*% of the calibration.*keep_classes=False"):
        cal.fit(*given, **where)
    assert cal.contradicted_ > 0.2
    quiet(SimiMailbox(keep_classes=False).fit, *given, **where)


@MODES
def test_names_of_classes_do_not_matter(problem, keep):
    order = np.array([2, 0, 3, 1])
    renamed = Homophilous(problem.logits[:, order], np.argsort(order)[problem.y], problem.graph)
    one, two = (
        fitted(p, keep_classes=keep).predict_proba(p.logits, graph=p.graph)
        for p in (problem, renamed)
    )
    np.testing.assert_allclose(two, one[:, order], atol=1e-6)


@MODES
def test_small_changes_change_little(problem, keep):
    rng = np.random.default_rng(1)
    noisy = problem.logits + 1e-4 * rng.normal(size=problem.logits.shape)
    rounded = problem.logits.astype(np.float16).astype(np.float64)

    def shown(logits, **more):
        one = Homophilous(logits, problem.y, problem.graph)
        return fitted(one, keep_classes=keep, **more).predict_proba(logits, graph=problem.graph)

    expected = shown(problem.logits)
    assert np.abs(shown(noisy) - expected).max() <= 0.02
    assert np.abs(shown(problem.logits, seed=1) - expected).max() <= 0.03
    assert np.abs(shown(rounded) - expected).max() <= 0.01


def without_labels(cal, problem):
    """What it would say if it remembered no label."""
    ids = np.arange(len(problem.y)) + 10**9
    return cal.predict_proba(problem.logits, graph=problem.graph, node_ids=ids)


def test_labels_of_fit_are_used_on_the_same_nodes_only(problem):
    cal = fitted(problem, keep_classes=False)
    same = quiet(cal.predict_proba, problem.logits, graph=problem.graph)
    assert np.abs(same - without_labels(cal, problem)).max() > 0.01
    edge = np.array([[0], [777]])
    more = np.concatenate([problem.graph.edge_index().numpy(), edge], axis=1)
    other = homophilous(seed=1)
    for given in (
        Homophilous(np.roll(problem.logits, 1, axis=0), problem.y, problem.graph),
        Homophilous(problem.logits, problem.y, Graph.from_edges(more, 1200)),
        other,
    ):
        with pytest.warns(CalibrationWarning, match="node_ids"):
            found = cal.predict_proba(given.logits, graph=given.graph)
        np.testing.assert_array_equal(found, without_labels(cal, given))


@pytest.mark.parametrize("kind", [np.int64, np.str_])
@MODES
def test_node_ids_find_the_labels_on_a_renumbered_and_grown_graph(problem, kind, keep, tmp_path):
    names = (np.arange(1200) * 7 + 3).astype(kind)
    cal = fitted(problem, node_ids=names, keep_classes=keep)
    cal.save(tmp_path / "cal.safetensors")
    cal = simi_mailbox.load(tmp_path / "cal.safetensors")
    rng = np.random.default_rng(0)
    grown = homophilous(seed=5, n=100)
    order = rng.permutation(1300)
    place = np.argsort(order)
    old = problem.graph.edge_index().numpy()
    new = grown.graph.edge_index().numpy() + 1200
    graph = Graph.from_edges(place[np.concatenate([old, new], axis=1)], 1300)
    logits = np.concatenate([problem.logits, grown.logits])[order]
    ids = np.concatenate([names, (np.arange(100) + 100_000).astype(kind)])[order]
    found = quiet(cal.predict_proba, logits, graph=graph, node_ids=ids)
    known = place[LABELS], problem.y[LABELS]
    unknown = (np.arange(1300) + 10**9).astype(kind)
    expected = cal.predict_proba(logits, graph=graph, node_ids=unknown, known=known)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # The old part is a graph of its own, so it must be as it was.
    before = cal.predict_proba(problem.logits, graph=problem.graph)
    np.testing.assert_allclose(found[place[:1200]], before, atol=1e-5)


def test_ids_of_another_kind_are_refused(problem):
    cal = fitted(problem, node_ids=np.arange(1200))
    with pytest.raises(TypeError, match="strings in one place and integers in the other"):
        cal.predict_proba(problem.logits, graph=problem.graph, node_ids=np.arange(1200).astype(str))


@MODES
def test_known_labels_on_a_part_of_the_graph_never_move_their_own_node(problem, keep):
    cal = fitted(problem, keep_classes=keep)
    part = np.arange(200, 900)  # some calibration nodes, and others
    pairs = problem.graph.edge_index().numpy()
    pairs = pairs[:, np.isin(pairs, part).all(axis=0)] - 200
    graph = Graph.from_edges(pairs, len(part))
    logits, y = problem.logits[part], problem.y[part].copy()
    nodes = np.arange(0, 300, 2)
    before = cal.predict_proba(logits, graph=graph, known=(nodes, y[nodes]))
    moved = 0.0
    for node in nodes[::10]:
        changed = y.copy()
        changed[node] = (y[node] + 1) % 4
        after = cal.predict_proba(logits, graph=graph, known=(nodes, changed[nodes]))
        assert np.abs(after[node] - before[node]).max() < 1e-12
        moved = max(moved, np.abs(after - before).max())
    assert moved > 1e-3


def test_known_labels_that_the_gnn_was_trained_on_tell_nothing_new(problem):
    cal = fitted(problem)
    given = {"graph": problem.graph, "known": (np.arange(300, 600), problem.y[300:600])}
    some = cal.predict_proba(problem.logits, **given, train_mask=np.arange(400, 700))
    left = given | {"known": (np.arange(300, 400), problem.y[300:400])}
    np.testing.assert_array_equal(some, cal.predict_proba(problem.logits, **left))
    assert np.abs(some - cal.predict_proba(problem.logits, **given)).max() > 0.01


@MODES
def test_labels_of_fit_and_newer_ones_meet_on_a_part_of_the_graph(problem, keep):
    """A part that holds all that its inner nodes depend on gives what the whole graph gives."""
    cal = fitted(problem, keep_classes=keep)
    inner = np.arange(250, 260)
    reached = np.isin(np.arange(1200), inner)
    pairs = problem.graph.edge_index().numpy()
    for _ in range(3):
        reached[pairs[1][reached[pairs[0]]]] = True
    part, place = np.flatnonzero(reached), np.cumsum(reached) - 1
    assert len(part) < 1200
    graph = Graph.from_edges(place[pairs[:, reached[pairs].all(axis=0)]], len(part))
    nodes = np.concatenate([part[part < 300][::2], part[part >= 300][::3]])  # some anew
    labels = (problem.y[nodes] + (nodes < 300)) % 4
    whole = cal.predict_proba(problem.logits, graph=problem.graph, known=(nodes, labels))
    found = quiet(
        cal.predict_proba, problem.logits[part], graph=graph, node_ids=part,
        known=(place[nodes], labels),
    )  # fmt: skip
    np.testing.assert_allclose(found[place[inner]], whole[inner], atol=1e-6)
    before = cal.predict_proba(problem.logits, graph=problem.graph)
    assert np.abs(whole[inner] - before[inner]).max() > 0.01


@MODES
@pytest.mark.parametrize("groups", [1, 20])
def test_selection_bias_is_corrected_whatever_the_number_of_groups(problem, keep, groups):
    both = {"keep_classes": keep, "n_groups": groups}
    used = fitted(problem, **both)
    unused = fitted(problem, **both, used_for_selection=False)
    assert used.coefficients_["level"] < unused.coefficients_["level"]
    shown = [
        cal.predict_proba(problem.logits, graph=problem.graph)[300:].max(axis=1).mean()
        for cal in (used, unused)
    ]
    assert shown[0] < shown[1] - 0.001


def test_as_many_labels_as_are_enough_are_spread_evenly_over_the_confidence(monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", 10)
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(37, 3)) * 2)
    nodes, y = torch.arange(37) * 3, torch.from_numpy(rng.integers(0, 3, 37))
    weight = torch.from_numpy(rng.random(37))
    found = module.enough(Labelled(nodes, y, weight), logits)
    assert len(found) == 10
    order = torch.softmax(logits, dim=1).amax(dim=1).argsort().tolist()
    places = sorted(order.index(int(node) // 3) for node in found.index)
    assert places == [4 * k for k in range(10)]  # of 37, the first and the last among them
    for node, label, of in zip(found.index // 3, found.y, found.weight, strict=True):
        assert (label, of) == (y[node], weight[node])
    assert found.index.tolist() == sorted(found.index.tolist())
    few = Labelled(nodes[:10], y[:10])
    assert module.enough(few, logits[:10]) is few
    monkeypatch.setattr(module, "ENOUGH_NUMBERS", 12)  # four nodes of three classes
    assert len(module.enough(few, logits[:10])) == 4


def test_a_sketch_is_what_saved_calibrators_hold():
    """Sums of z − max z with weights sin(12.9898 (i + 1)), their mean size, and the number."""
    z = np.random.default_rng(0).normal(size=(50, 3))
    expected, size = np.zeros(3), 0.0
    for i, row in enumerate(z):
        expected += np.sin(12.9898 * (i + 1)) * (row - row.max())
        size += (row.max() - row).mean()
    for cuts in ([], [1], [7, 20], [49]):
        found = module.sketch(torch.from_numpy(part) for part in np.split(z, cuts))
        np.testing.assert_allclose(found, [*expected, size, 50])


def test_logits_are_the_same_up_to_a_hundredth_of_their_mean_size():
    one = module.sketch([torch.from_numpy(np.random.default_rng(1).normal(size=(64, 3)))])
    tolerance = 0.01 * one[-2] / 8
    for k in range(3):
        for change, same in ((0.99, True), (-0.99, True), (1.01, False), (-1.01, False)):
            other = one.copy()
            other[k] += change * tolerance
            assert module.same_logits(one, other) == same
    assert not module.same_logits(one, one + np.eye(5)[4])  # one node more
    assert not module.same_logits(one, one[1:])


def test_fit_keeps_what_later_nodes_are_compared_with(problem):
    cal = fitted(problem)
    kept = cal.reference_
    temperature = cal.temperature_
    p = softmax(problem.logits / temperature, axis=1)
    np.testing.assert_allclose(kept["confidence"], p[LABELS].max(axis=1), atol=1e-6)
    np.testing.assert_array_equal(kept["degree"], problem.graph.degree.numpy()[LABELS])
    alike = [
        (p[problem.graph.neighbours(i).numpy()] @ p[i]).mean()
        for i in LABELS
        if problem.graph.degree[i]
    ]
    linked = kept["degree"] > 0
    np.testing.assert_allclose(kept["similarity"][linked], alike, atol=1e-6)
    right = problem.logits[LABELS].argmax(axis=1) == problem.y[LABELS]
    assert kept["accuracy"] == right.mean()
