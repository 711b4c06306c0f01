import pickle
import sys
import types

import numpy as np
import pytest

from simi_mailbox import SimiMailbox, TemperatureScaling, audit, calibrators
from tests.strategies import make_problem


class Cheat(TemperatureScaling):
    """Keeps the labels it was given, before the base class cuts them."""

    def __init__(self, *, size: float = 1e-6) -> None:
        self.size = size

    def fit(self, logits, y, **inputs):
        super().fit(logits, y, **inputs)
        self.temperature_ *= 1 + self.size * float(np.mean(np.asarray(y) == 0))
        return self


def test_an_honest_calibrator_passes_and_says_what_was_tried():
    case = make_problem(0)
    outcome = audit.reads_only(SimiMailbox(), case.logits, case.y, mask=case.mask, graph=case.graph)
    assert outcome
    assert "60 hidden labels" in outcome.detail


@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_a_peeking_calibrator_is_caught_even_when_it_hardly_matters(size):
    case = make_problem(0)
    outcome = audit.reads_only(Cheat(size=size), case.logits, case.y, mask=case.mask)
    assert not outcome
    assert "rows changed" in outcome.detail


def test_a_calibrator_that_fails_on_hidden_labels_is_caught():
    class Fussy(TemperatureScaling):
        def fit(self, logits, y, **inputs):
            if (np.asarray(y) < 0).any():
                raise ValueError("negative label")
            return super().fit(logits, y, **inputs)

    case = make_problem(0)
    outcome = audit.reads_only(Fussy(), case.logits, case.y, mask=case.mask)
    assert not outcome
    assert "negative label" in outcome.detail


def test_holdout_labels_may_be_read_and_are_not_hidden():
    case = make_problem(0)
    rest = np.setdiff1d(np.arange(120), case.mask)[:30]
    outcome = audit.reads_only(
        TemperatureScaling(), case.logits, case.y, mask=case.mask, early_stopping_mask=rest
    )
    assert "30 hidden labels" in outcome.detail


def test_an_audit_needs_something_to_hide():
    case = make_problem(0)
    with pytest.raises(ValueError, match="no label to hide"):
        audit.reads_only(TemperatureScaling(), case.logits, case.y, mask=np.arange(120))
    with pytest.raises(ValueError, match="full length"):
        audit.reads_only(TemperatureScaling(), case.logits, case.y[:50], mask=np.arange(50))


CASE = make_problem(0)


def hint(cal, y):
    """Let the temperature betray a little of the labels."""
    cal.temperature_ *= 1 + 1e-3 * float(np.mean(np.asarray(y) == 0))
    return cal


class Remembers(TemperatureScaling):
    """Keeps the labels of the first fit of the process."""

    first = None

    def fit(self, logits, y, **inputs):
        Remembers.first = y if Remembers.first is None else Remembers.first
        return hint(super().fit(logits, y, **inputs), Remembers.first)


class WalksFrames(TemperatureScaling):
    """Looks for labels in the frames of its callers."""

    def fit(self, logits, y, **inputs):
        frame, found = sys._getframe(), y
        while frame is not None:
            found = frame.f_locals.get("the_true_labels", found)
            frame = frame.f_back
        return hint(super().fit(logits, y, **inputs), found)


class ReadsTheGraph(TemperatureScaling):
    """Takes labels from whatever is passed as graph."""

    def fit(self, logits, y, *, graph, **inputs):
        return hint(super().fit(logits, y, **inputs), graph.y)

    def predict_proba(self, logits, *, graph):
        return super().predict_proba(logits)


class ReadsANote(ReadsTheGraph):
    def fit(self, logits, y, *, graph, **inputs):
        return hint(TemperatureScaling.fit(self, logits, y, **inputs), getattr(graph, "note", y))


class TakesLabels(TemperatureScaling):
    def __init__(self, *, answers=None):
        self.answers = answers


def test_an_honest_method_passes_in_fresh_processes():
    outcome = audit.reads_only(
        TemperatureScaling(), CASE.logits, CASE.y, mask=CASE.mask, new_process=True
    )
    assert outcome.passed


def test_a_memory_of_the_first_fit_is_caught_in_fresh_processes():
    outcome = audit.reads_only(Remembers(), CASE.logits, CASE.y, mask=CASE.mask, new_process=True)
    assert not outcome
    assert "rows changed" in outcome.detail


def test_walking_the_frames_is_caught_in_fresh_processes():
    the_true_labels = CASE.y
    outcome = audit.reads_only(
        WalksFrames(), CASE.logits, the_true_labels, mask=CASE.mask, new_process=True
    )
    assert not outcome


def test_the_first_fit_never_sees_the_true_labels():
    seen = []

    class Watches(TemperatureScaling):
        def fit(self, logits, y, **inputs):
            seen.append(np.array(y))
            return super().fit(logits, y, **inputs)

    assert audit.reads_only(Watches(), CASE.logits, CASE.y, mask=CASE.mask)
    assert [(labels == CASE.y).all() for labels in seen] == [False] * 7 + [True]


def test_labels_of_a_data_object_are_changed_along():
    data = types.SimpleNamespace(edge_index=CASE.edges, y=CASE.y)
    inputs = {"mask": CASE.mask, "graph": data}
    assert not audit.reads_only(ReadsTheGraph(), CASE.logits, CASE.y, **inputs)
    assert (data.y == CASE.y).all()


def test_an_attribute_on_the_graph_is_taken_off():
    graph = CASE.graph
    vars(graph)["note"] = CASE.y  # a Graph refuses attributes set the ordinary way
    assert not audit.reads_only(ReadsANote(), CASE.logits, CASE.y, mask=CASE.mask, graph=graph)


@pytest.mark.parametrize("answers", [CASE.y, list(CASE.y), {"a": CASE.y}, CASE.y[:, None]])
def test_labels_as_a_hyper_parameter_are_named(answers):
    outcome = audit.reads_only(TakesLabels(answers=answers), CASE.logits, CASE.y, mask=CASE.mask)
    assert not outcome
    assert "hyper-parameter" in outcome.detail
    assert "answers" in outcome.detail


def test_labels_in_a_feature_column_are_named():
    features = np.column_stack([CASE.logits, CASE.y])
    cal = calibrators.get("group-calibration")(partitions=1)
    outcome = audit.reads_only(cal, CASE.logits, CASE.y, mask=CASE.mask, features=features)
    assert outcome.detail == "a column of features holds the labels outside the masks"


def test_labels_in_a_closure_are_named():
    answers = CASE.y

    def forward(edge_weight):
        return answers

    cal = calibrators.get("dcgc")()
    inputs = {"mask": CASE.mask, "graph": CASE.graph, "forward": forward}
    outcome = audit.reads_only(cal, CASE.logits, CASE.y, **inputs)
    assert outcome.detail == "forward holds the labels outside the masks"


def test_a_fresh_process_asks_for_what_it_can_import():
    class Local(TemperatureScaling):
        pass

    with pytest.raises(pickle.PicklingError, match="another process can import"):
        audit.reads_only(Local(), CASE.logits, CASE.y, mask=CASE.mask, new_process=True)
