"""Labels used twice: a calibration node can be looked at where its own label was not known."""

import numpy as np
import pytest

from simi_mailbox import CalibrationWarning, Graph, NotFittedError
from simi_mailbox.decide import APS, DAPS, LAC, Accept, PredictionSets
from tests.decide import references as by_hand

PROBLEM = by_hand.make_problem(1, n=120, labelled=60)
OTHER = by_hand.make_problem(2, n=120).probs
HALVES = PROBLEM.mask[::2], PROBLEM.mask[1::2]
WHOLE = DAPS(base=APS(randomized=False))

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


def fit(rule, cross_fitted):
    given = {"mask": PROBLEM.mask, "used_for_selection": False, "cross_fitted": cross_fitted}
    given |= {"graph": PROBLEM.graph} if isinstance(rule, PredictionSets) else {}
    return rule.fit(PROBLEM.probs, PROBLEM.y, **given)


def test_a_score_is_taken_where_the_label_was_left_out():
    near = [(0.5, by_hand.neighbour_lists(PROBLEM.graph))]
    own = []
    for nodes, probs in zip(HALVES, (PROBLEM.probs, OTHER), strict=True):
        mixed = by_hand.mixed(np.array([by_hand.aps(p, 0.0) for p in probs]), near)
        own += mixed[nodes, PROBLEM.y[nodes]].tolist()
    parts = zip(HALVES, (PROBLEM.probs, OTHER), strict=True)
    rule = fit(PredictionSets(coverage=0.8, score=WHOLE), parts)
    assert rule.thresholds_[0] == pytest.approx(by_hand.threshold(own, 0.8), abs=1e-9)
    assert rule.thresholds_[0] != fit(PredictionSets(coverage=0.8, score=WHOLE), None).thresholds_


@pytest.mark.parametrize("condition", [None, "class", "mailbox"])
def test_parts_that_are_all_alike_change_nothing(condition):
    rule = PredictionSets(coverage=0.7, score="daps", condition_on=condition)
    plain = fit(rule, None).thresholds_
    backwards = [(nodes[::-1], PROBLEM.probs) for nodes in HALVES[::-1]]
    np.testing.assert_array_equal(fit(rule, backwards).thresholds_, plain)


def test_groups_by_mailbox_are_those_of_the_parts():
    rule = PredictionSets(coverage=0.7, score="lac", condition_on="mailbox")
    plain = fit(rule, None)
    edges, counts = plain.edges_, plain.counts_
    apart = fit(rule, [(nodes, OTHER) for nodes in HALVES])
    np.testing.assert_array_equal(apart.edges_, edges)
    assert (apart.counts_ != counts).any()


def test_acceptance_counts_errors_where_labels_were_left_out():
    sure = np.linspace(0.5, 1.0, 400)
    probs = np.stack([sure, 1 - sure], axis=1)
    unsure, y = np.full((400, 2), 0.5), np.zeros(400, dtype=int)
    nodes = np.arange(0, 400, 2)
    given = {"mask": nodes, "used_for_selection": False}
    rule = Accept(max_error=0.1)
    assert rule.fit(probs, y, **given).expected_share_ > 0.9
    again = rule.fit(probs, y, **given, cross_fitted=[(nodes[:100], probs), (nodes[100:], probs)])
    assert again.expected_share_ > 0.9
    with pytest.warns(CalibrationWarning, match="nothing is accepted"):
        rule.fit(probs, y, **given, cross_fitted=[(nodes, unsure)])


def test_a_label_that_comes_back_through_neighbours_breaks_the_promise_unless_left_out():
    n, covered = 2000, []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        partner = np.arange(n) ^ 1
        graph = Graph.from_edges(np.stack([np.arange(n), partner]), n)
        y = np.repeat(rng.integers(0, 5, n // 2), 2)
        logits = rng.normal(size=(n, 5))  # they know nothing
        mask = rng.permutation(n)[:500]
        rest = np.setdiff1d(np.arange(n), mask)

        def told(nodes, logits=logits, partner=partner, y=y):
            """Probabilities of a calibrator that tells the labels of nodes to their neighbours."""
            moved = logits.copy()
            moved[partner[nodes], y[nodes]] += 4.0
            raised = np.exp(moved)
            return raised / raised.sum(axis=1, keepdims=True)

        probs = told(mask)
        parts = [(part, told(np.setdiff1d(mask, part))) for part in np.split(mask, 20)]
        row = []
        for given in (None, parts):
            rule = PredictionSets(coverage=0.8, score=DAPS(base=LAC()))
            rule.fit(probs, y, mask=mask, graph=graph, used_for_selection=False, cross_fitted=given)
            sets = rule.predict_sets(probs, graph=graph)
            row.append(sets[rest, y[rest]].mean())
        covered.append(row)
    twice, apart = np.mean(covered, axis=0)
    assert twice < 0.6
    assert 0.78 < apart < 0.84


@pytest.mark.parametrize(
    ("cross_fitted", "message"),
    [
        ([(HALVES[0], PROBLEM.probs)], "names 30 of the 60 calibration nodes"),
        ([(HALVES[0], PROBLEM.probs)] * 2, "each of them once"),
        ([([int(np.setdiff1d(range(120), PROBLEM.mask)[0])], PROBLEM.probs)], "nodes of the mask"),
        ([(HALVES[0], PROBLEM.probs[:60])], "expected those of all nodes"),
        ([(HALVES[0], PROBLEM.probs * 2)], "expected a probability within"),
    ],
)
@pytest.mark.parametrize("rule", [PredictionSets(score="daps"), Accept()], ids=["sets", "accept"])
def test_parts_that_make_no_sense_are_refused(rule, cross_fitted, message):
    with pytest.raises(ValueError, match=message):
        fit(rule, cross_fitted)
    with pytest.raises(NotFittedError):
        rule.save("nowhere")
