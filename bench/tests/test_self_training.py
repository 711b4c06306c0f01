"""Self-training: who is labelled, by what, and what is read."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox_bench.self_training import self_train
from toy_graph import CLASSES, QUICK, N, never, oracle_trainer, toy

DATASET, SPLIT = toy()
Y = DATASET.y
PARTS = {*SPLIT.train, *SPLIT.val, *SPLIT.test}


def by(backbone, *, calibrator=None, **given):
    """Self-training with a stand-in for the GNN."""
    return self_train(DATASET, SPLIT, backbone=backbone, calibrator=calibrator, **given)


@pytest.fixture(scope="module")
def result():
    return self_train(DATASET, SPLIT, settings=QUICK, stages=3, threshold=0.7)


def test_stages_grow_by_nodes_in_no_part_of_the_split(result):
    stages = result.stages
    assert [stage.number for stage in stages] == list(range(1, len(stages) + 1))
    assert stages[0].train_nodes == 18
    for before, after in pairwise(stages):
        assert after.train_nodes == before.train_nodes + before.added.size
    added = np.concatenate([stage.added for stage in stages])
    labelled = set(np.flatnonzero(result.pseudo_labels >= 0))
    assert labelled == set(added)
    assert len(labelled) == added.size > 0
    assert not labelled & PARTS


def test_counts_of_right_labels_and_accuracies_are_true_and_printed(result):
    for stage in result.stages:
        assert stage.right == (result.pseudo_labels == Y)[stage.added].sum()
    correct = result.predictions == Y
    assert result.test_accuracy == correct[SPLIT.test].mean()
    assert result.stages[-1].val_accuracy == correct[SPLIT.val].mean()
    lines = [line.split() for line in str(result).splitlines()]
    assert lines[0] == ["stage", "labels", "added", "right", "val", "test"]
    assert lines[1][:3] == ["1", "18", str(result.stages[0].added.size)]
    assert len(lines) == len(result.stages) + 1


def test_reads_no_label_but_those_of_training_and_validation():
    spoiled = (Y + 1) % CLASSES
    for part in (SPLIT.train, SPLIT.val):
        spoiled[part] = Y[part]
    clean, spoilt = (
        self_train(replace(DATASET, y=y), SPLIT, settings=QUICK, stages=2, threshold=0.7)
        for y in (Y, spoiled)
    )
    np.testing.assert_array_equal(clean.logits, spoilt.logits)
    np.testing.assert_array_equal(clean.pseudo_labels, spoilt.pseudo_labels)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stages": 0}, "at least one stage"),
        ({"threshold": 1.0}, "strictly between 0 and 1"),
        ({"backbone": "gcnn"}, "unknown backbone 'gcnn'"),
        ({"calibrator": "temprature"}, "temperature"),
    ],
)
def test_wrong_settings_are_refused_before_training(wrong, message, monkeypatch):
    monkeypatch.setattr("simi_mailbox_bench.self_training.train", never)
    with pytest.raises(ValueError, match=message):
        self_train(DATASET, SPLIT, **wrong)


@pytest.mark.parametrize("name", ["gats", "dcgc", "gets", "simi-mailbox-paper"])
def test_calibrators_are_given_what_they_need(name):
    cls = calibrators.get(name)
    few = {key: 5 for key in ("epochs",) if key in cls().get_params()}
    result = by("gcn", calibrator=cls(**few), settings=QUICK, stages=1)
    np.testing.assert_allclose(result.probs.sum(axis=1), 1.0, atol=1e-5)


def test_a_trainer_of_ones_own_sees_no_other_label():
    seen = []

    def train(labels, nodes, seed):
        seen.append((labels.copy(), nodes, seed))
        return torch.from_numpy(oracle_trainer(Y)(labels, nodes, seed))

    by(train, stages=2, seed=7)
    (first, nodes, seed), (second, grown, _) = seen
    assert (nodes, seed) == (SPLIT, 7)
    assert set(np.flatnonzero(first >= 0)) == {*SPLIT.train, *SPLIT.val}
    assert set(np.flatnonzero(second >= 0)) == {*grown.train, *SPLIT.val}
    np.testing.assert_array_equal(grown.test, SPLIT.test)


def test_without_a_calibrator_softmax_decides_until_a_stage_adds_nothing():
    result = by(oracle_trainer(Y), stages=9, threshold=0.8)
    exponentials = np.exp(result.logits)
    confidence = (exponentials / exponentials.sum(axis=1, keepdims=True)).max(axis=1)
    assert set(result.stages[0].added) == set(np.flatnonzero(confidence > 0.8)) - PARTS
    assert [stage.added.size > 0 for stage in result.stages] == [True, False]


def test_calibration_decides_who_is_labelled():
    """Logits that shout are quietened on the validation nodes before any node is believed."""
    wrong = np.where(np.random.default_rng(0).random(N) < 0.4, (Y + 1) % CLASSES, Y)
    raw, calibrated = (
        by(lambda *_: 20.0 * np.eye(CLASSES)[wrong], calibrator=name, stages=2, threshold=0.8)
        for name in (None, "temperature")
    )
    assert raw.stages[0].added.size > 100
    assert calibrated.stages[0].added.size == 0


def rise_and_fall(y):
    """A stand-in for a GNN, right at 80, 95 and 60 % of nodes, confident of more in every stage."""
    stages = iter([(1, 16), (2, 19), (3, 12)])

    def train(labels, nodes, seed):
        confident, right = next(stages)
        predicted = np.where(np.arange(N) % 20 < right, y, (y + 1) % CLASSES)
        scale = np.where(np.arange(N) % 4 < confident, 9.0, 1.0)
        return np.eye(CLASSES)[predicted] * scale[:, None]

    return train


def test_keeps_the_last_stage_or_the_best_on_validation_nodes():
    best = by(rise_and_fall(Y), stages=3, keep="best")
    accuracies = [stage.val_accuracy for stage in best.stages]
    assert best.kept == 1 + int(np.argmax(accuracies)) == 2
    assert (best.predictions == Y)[SPLIT.val].mean() == max(accuracies)
    assert best.test_accuracy == (best.predictions == Y)[SPLIT.test].mean()
    assert [line.endswith("kept") for line in str(best).splitlines()] == [False, False, True, False]
    fall = r"fell from .* in stage 1 to .* in stage 3 \(\d+ of 60 nodes\)"
    with pytest.warns(CalibrationWarning, match=fall):
        last = by(rise_and_fall(Y), stages=3)
    assert last.kept == 3
    assert last.test_accuracy == last.stages[2].test_accuracy
    np.testing.assert_array_equal(last.pseudo_labels, best.pseudo_labels)


def test_warns_of_a_class_that_gets_no_pseudo_label():
    logits = np.eye(CLASSES)[Y] * np.where(Y == 2, 1.0, 9.0)[:, None]
    few = int((Y[SPLIT.train] == 2).sum())
    with pytest.warns(CalibrationWarning, match=rf"none of them as class 2 \({few} training nodes"):
        by(lambda *_: logits, threshold=0.8, stages=2)
    with pytest.warns(CalibrationWarning, match="no node was labelled"):
        by(lambda *_: logits, threshold=0.9999, stages=2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("stages", [1, 3])
def test_does_not_warn_when_all_is_well(stages):
    assert len(by(oracle_trainer(Y), stages=stages).stages) == min(stages, 2)
