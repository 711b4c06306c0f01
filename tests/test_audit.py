"""Leaks of hidden labels are caught, and methods without any pass."""

import pickle
import sys
import types

import numpy as np
import pytest

from simi_mailbox import SimiMailbox, TemperatureScaling, audit, calibrators
from tests.strategies import make_problem

CASE = make_problem(0)


def outcome(calibrator, y=CASE.y, **given):
    return audit.reads_only(calibrator, CASE.logits, y, **{"mask": CASE.mask, **given})


def hint(cal, y, size=1e-3):
    """Let the temperature betray a little of the labels."""
    cal.temperature_ *= 1 + size * float(np.mean(np.asarray(y) == 0))
    return cal


class Cheat(TemperatureScaling):
    """Keeps the labels it was given, before the base class cuts them."""

    def __init__(self, *, size: float = 1e-6) -> None:
        self.size = size

    def fit(self, logits, y, **inputs):
        return hint(super().fit(logits, y, **inputs), y, self.size)


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

    attribute = "y"

    def fit(self, logits, y, *, graph, **inputs):
        return hint(super().fit(logits, y, **inputs), getattr(graph, self.attribute, y))

    def predict_proba(self, logits, *, graph):
        return super().predict_proba(logits)


class ReadsANote(ReadsTheGraph):
    attribute = "note"


class TakesLabels(TemperatureScaling):
    def __init__(self, *, answers=None):
        self.answers = answers


def test_a_sound_calibrator_passes_and_says_what_was_tried():
    found = outcome(SimiMailbox(), graph=CASE.graph)
    assert found
    assert "60 hidden labels" in found.detail
    rest = np.setdiff1d(np.arange(120), CASE.mask)[:30]  # labels of a hold-out may be read
    assert "30 hidden" in outcome(TemperatureScaling(), early_stopping_mask=rest).detail
    assert outcome(TemperatureScaling(), new_process=True)


class Fussy(TemperatureScaling):
    def fit(self, logits, y, **inputs):
        if (np.asarray(y) < 0).any():
            raise ValueError("negative label")
        return super().fit(logits, y, **inputs)


@pytest.mark.parametrize(
    ("leak", "new_process", "told"),
    [
        (Cheat(size=1.0), False, "rows changed"),
        (Cheat(size=1e-6), False, "rows changed"),  # even when it hardly matters
        (Fussy(), False, "negative label"),
        (Remembers(), True, "rows changed"),
        (WalksFrames(), True, "rows changed"),
    ],
)
def test_leaks_are_caught(leak, new_process, told):
    the_true_labels = CASE.y
    found = outcome(leak, the_true_labels, new_process=new_process)
    assert not found
    assert told in found.detail


def test_an_audit_needs_something_to_hide():
    with pytest.raises(ValueError, match="no label to hide"):
        outcome(TemperatureScaling(), mask=np.arange(120))
    with pytest.raises(ValueError, match="full length"):
        outcome(TemperatureScaling(), CASE.y[:50], mask=np.arange(50))


def test_a_new_process_asks_for_what_it_can_import():
    class Local(TemperatureScaling):
        pass

    with pytest.raises(pickle.PicklingError, match="another process can import"):
        outcome(Local(), new_process=True)


def test_the_first_fit_never_sees_the_true_labels():
    seen = []

    class Watches(TemperatureScaling):
        def fit(self, logits, y, **inputs):
            seen.append(np.array(y))
            return super().fit(logits, y, **inputs)

    assert outcome(Watches())
    assert [(labels == CASE.y).all() for labels in seen] == [False] * 7 + [True]


def test_labels_of_a_graph_are_changed_along_or_taken_off():
    data = types.SimpleNamespace(edge_index=CASE.edges, y=CASE.y)
    assert not outcome(ReadsTheGraph(), graph=data)
    assert (data.y == CASE.y).all()
    graph = CASE.graph
    vars(graph)["note"] = CASE.y  # a Graph refuses attributes set the ordinary way
    assert not outcome(ReadsANote(), graph=graph)


@pytest.mark.parametrize("answers", [CASE.y, list(CASE.y), {"a": CASE.y}, CASE.y[:, None]])
def test_labels_as_a_hyper_parameter_are_named(answers):
    found = outcome(TakesLabels(answers=answers))
    assert found.detail == "hyper-parameter 'answers' holds the labels outside the masks"


def test_labels_in_a_feature_column_or_a_closure_are_named():
    features = np.column_stack([CASE.logits, CASE.y])
    found = outcome(calibrators.get("group-calibration")(partitions=1), features=features)
    assert found.detail == "a column of features holds the labels outside the masks"
    answers = CASE.y
    given = {"graph": CASE.graph, "forward": lambda edge_weight: answers}
    found = outcome(calibrators.get("dcgc")(), **given)
    assert found.detail == "forward holds the labels outside the masks"
