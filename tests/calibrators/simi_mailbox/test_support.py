"""Calibration nodes that are no random sample of the graph."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.calibrators import SimiMailbox, load
from simi_mailbox.calibrators.simi_mailbox.evidence import degree_terms, drawn_at_random
from simi_mailbox.calibrators.simi_mailbox.support import FLOOR, HOTTER, LEFT_OUT, Support
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.graph import Graph
from simi_mailbox.synthetic import calibration_problem

PROBLEM = calibration_problem(1500, 3, temperature=2.0, seed=3)
DEGREE = PROBLEM.graph.degree
POPULAR = DEGREE.argsort(descending=True)[:300].numpy()


def fitted(mask, **options):
    return SimiMailbox(**options).fit(PROBLEM.logits, PROBLEM.y, graph=PROBLEM.graph, mask=mask)


@pytest.fixture(scope="module")
def popular():
    return fitted(POPULAR)


def test_a_random_sample_changes_nothing_and_the_most_popular_nodes_do(popular):
    rng = np.random.default_rng(0)
    for _ in range(20):
        drawn = torch.from_numpy(rng.choice(1500, 300, replace=False))
        assert drawn_at_random(DEGREE[drawn], degree_terms(DEGREE).mean(dim=0).numpy())
    plain = fitted(rng.choice(1500, 300, replace=False))
    assert not hasattr(plain, "support_")
    assert LEFT_OUT in plain.coefficients_
    assert hasattr(popular, "support_")
    assert LEFT_OUT not in popular.coefficients_


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.lists(st.integers(0, 60)))
def test_evidence_counts_half_where_no_calibration_node_was(degrees, at):
    support = Support(np.sort(np.array(degrees)), 0.1)
    found = support.believed(torch.tensor(at, dtype=torch.int64)).numpy()
    assert ((found >= FLOOR) & (found <= 1.0)).all()
    for degree, count in zip(at, found, strict=True):
        outside = degree < min(degrees) or degree > max(degrees)
        assert (count == FLOOR) == outside


@given(st.lists(st.floats(0.0, 1.0, width=32), min_size=1), st.floats(0.001, 1.0))
def test_fewer_labels_near_a_node_never_make_it_more_confident(labels, shown):
    found = Support(np.array([1]), shown).heat(torch.tensor(sorted(labels)))
    assert (found.diff() <= 0).all()
    assert found.min() >= 0
    assert found.max() <= HOTTER
    enough = torch.tensor(sorted(labels)).double() >= shown
    assert (found[enough] == 0).all()


def test_degrees_beyond_those_shown_count_as_the_nearest_shown(popular):
    """A node with one neighbour and one with none differ in no term of the temperature."""
    edges = torch.tensor([[0, 1], [1, 2]]).T
    few = popular._read_fitted(PROBLEM.logits[:4], graph=Graph.from_edges(edges, 4))
    sums_of = popular._in_memory(few)
    nodes = popular._nodes(sums_of.sums(torch.arange(4)))
    assert torch.equal(nodes.exponents[0], nodes.exponents[3])


def test_a_saved_calibrator_and_late_labels_keep_it(popular, tmp_path):
    popular.save(tmp_path / "cal.simi")
    loaded = load(tmp_path / "cal.simi")
    before = popular.predict_proba(PROBLEM.logits, graph=PROBLEM.graph)
    same = loaded.predict_proba(PROBLEM.logits, graph=PROBLEM.graph)
    np.testing.assert_allclose(same, before, atol=1e-6)
    rest = np.setdiff1d(np.arange(1500), POPULAR)[:200]
    with pytest.warns(CalibrationWarning):  # all of one wrong class: a refit is better
        loaded.update(
            rest, np.zeros(200, dtype=int), logits=PROBLEM.logits, graph=PROBLEM.graph,
            all_ids=np.arange(1500),
        )  # fmt: skip
    after = loaded.predict_proba(PROBLEM.logits, graph=PROBLEM.graph)
    others = np.setdiff1d(np.arange(1500), np.concatenate([rest, POPULAR]))
    assert after[others, 0].mean() > before[others, 0].mean() + 0.02


@pytest.mark.parametrize("keep", [True, False])
def test_probabilities_are_probabilities_and_classes_are_kept(keep):
    found = fitted(POPULAR, keep_classes=keep).predict_proba(PROBLEM.logits, graph=PROBLEM.graph)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
    if keep:
        own = np.asarray(PROBLEM.logits).argmax(axis=1)
        assert (found[np.arange(1500), own] >= found.max(axis=1) - 1e-6).all()
