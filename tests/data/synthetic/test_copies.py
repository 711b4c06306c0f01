"""Pages and copies: labels follow the stated probabilities, and one temperature cannot be right."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from simi_mailbox import calibrators, metrics
from simi_mailbox.data.synthetic import copied_pages


@pytest.fixture(scope="module")
def pages():
    return copied_pages(seed=1)


def test_labels_are_drawn_from_the_probabilities(pages):
    for nodes in (pages.copied, ~pages.copied):
        probs, y = pages.probs[nodes], pages.dataset.y[nodes]
        floor = metrics.noise_floor(probs)
        assert metrics.ece(probs, y) < floor.mean + 4 * floor.std


def test_copies_link_to_copies_of_the_same_page(pages):
    graph, copied = pages.dataset.graph, pages.copied
    rows, columns = graph.rows().numpy(), graph.indices.numpy()
    assert (copied[rows] == copied[columns]).all()
    ends = pages.dataset.x[rows[copied[rows]]], pages.dataset.x[columns[copied[rows]]]
    assert np.abs(ends[0] - ends[1]).mean() < 0.2


def test_a_model_that_adds_up_neighbours_errs_in_both_directions(pages):
    data, split = pages.dataset, pages.dataset.official[0]
    model = LogisticRegression(max_iter=1000).fit(pages.sums[split.train], data.y[split.train])
    logits = model.decision_function(pages.sums)

    def gap(method, nodes):
        cal = calibrators.get(method)().fit(logits, data.y, graph=data.graph, mask=split.val)
        probs = cal.predict_proba(logits, graph=data.graph)
        return (pages.probs[np.arange(len(probs)), probs.argmax(1)] - probs.max(1))[nodes].mean()

    for method in ("uncalibrated", "temperature"):
        assert gap(method, pages.copied) < -0.05
        assert gap(method, ~pages.copied) > 0.1
    left = {
        method: abs(gap(method, pages.copied)) + abs(gap(method, ~pages.copied))
        for method in ("temperature", "simi-mailbox")
    }
    assert left["simi-mailbox"] < 0.6 * left["temperature"]


def test_pages_of_one_kind_are_refused():
    with pytest.raises(ValueError, match="share=0"):
        copied_pages(100, share=0)
