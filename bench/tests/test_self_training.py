"""Self-training: who is labelled, by what, and what is read."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox_bench.datasets import Split
from simi_mailbox_bench.self_training import self_train
from toy_graph import CLASSES, QUICK, N, never, oracle_trainer, toy


@pytest.fixture(scope="module")
def result() -> object:
    dataset, split = toy()
    return self_train(dataset, split, settings=QUICK, stages=3, threshold=0.7)


def test_stages_grow_by_what_was_added(result) -> None:
    assert result.stages[0].train_nodes == 18
    for before, after in zip(result.stages, result.stages[1:], strict=False):
        assert after.train_nodes == before.train_nodes + before.added.size
    assert result.stages[0].added.size > 0
    assert [stage.number for stage in result.stages] == list(range(1, len(result.stages) + 1))


def test_validation_and_test_nodes_are_never_labelled(result) -> None:
    _, split = toy()
    labelled = set(np.flatnonzero(result.pseudo_labels >= 0))
    assert labelled
    assert not labelled & {*split.train, *split.val, *split.test}
    added = np.concatenate([stage.added for stage in result.stages])
    assert len(set(added)) == added.size
    assert set(added) == labelled


def test_counts_of_right_labels_and_accuracies_are_true(result) -> None:
    dataset, split = toy()
    y = dataset.y
    for stage in result.stages:
        assert stage.right == (stage.labels == y[stage.added]).sum()
    assert result.test_accuracy == (result.predictions == y)[split.test].mean()
    assert result.stages[-1].val_accuracy == (result.predictions == y)[split.val].mean()


def test_reads_no_label_but_those_of_training_and_validation() -> None:
    dataset, split = toy()
    spoiled = (dataset.y + 1) % CLASSES
    for part in (split.train, split.val):
        spoiled[part] = dataset.y[part]
    arguments = {"settings": QUICK, "stages": 2, "threshold": 0.7}
    clean = self_train(dataset, split, **arguments)
    spoilt = self_train(replace(dataset, y=spoiled), split, **arguments)
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
def test_wrong_settings_are_refused_before_training(wrong, message, monkeypatch) -> None:
    monkeypatch.setattr("simi_mailbox_bench.self_training.train", never)
    with pytest.raises(ValueError, match=message):
        self_train(*toy(), **wrong)


def test_some_nodes_must_be_in_no_part() -> None:
    dataset, split = toy()
    rest = np.setdiff1d(np.arange(N), np.concatenate([split.train, split.val]))
    with pytest.raises(ValueError, match="no node is left to be labelled"):
        self_train(dataset, Split(split.train, split.val, rest))


@pytest.mark.parametrize("name", ["gats", "dcgc", "gets", "simi-mailbox-paper"])
def test_calibrators_are_given_what_they_need(name) -> None:
    cls = calibrators.get(name)
    few = {key: 5 for key in ("epochs",) if key in cls().get_params()}
    result = self_train(*toy(), calibrator=cls(**few), settings=QUICK, stages=1)
    np.testing.assert_allclose(result.probs.sum(axis=1), 1.0, atol=1e-5)


def test_a_trainer_of_ones_own_sees_no_other_label() -> None:
    dataset, split = toy()
    y = dataset.y
    seen: list[tuple[np.ndarray, Split, int]] = []

    def train(labels: np.ndarray, nodes: Split, seed: int) -> torch.Tensor:
        seen.append((labels.copy(), nodes, seed))
        return torch.from_numpy(oracle_trainer(y)(labels, nodes, seed))

    self_train(dataset, split, backbone=train, calibrator=None, stages=2, seed=7)
    (first, nodes, seed), (second, grown, _) = seen
    assert seed == 7
    assert nodes == split
    assert set(np.flatnonzero(first >= 0)) == {*split.train, *split.val}
    assert set(np.flatnonzero(second >= 0)) == {*grown.train, *split.val}
    np.testing.assert_array_equal(grown.test, split.test)


def test_without_a_calibrator_plain_softmax_decides() -> None:
    dataset, split = toy()
    y = dataset.y
    result = self_train(
        dataset, split, backbone=oracle_trainer(y), calibrator=None, stages=2, threshold=0.8
    )
    exponentials = np.exp(result.logits)
    confidence = (exponentials / exponentials.sum(axis=1, keepdims=True)).max(axis=1)
    confident = set(np.flatnonzero(confidence > 0.8)) - {*split.train, *split.val, *split.test}
    assert set(result.stages[0].added) == confident


def test_a_stage_that_adds_nothing_is_the_last() -> None:
    dataset, split = toy()
    y = dataset.y
    result = self_train(
        dataset, split, backbone=oracle_trainer(y), calibrator=None, stages=9, threshold=0.8
    )
    assert len(result.stages) == 2
    assert result.stages[-1].added.size == 0


def test_the_last_stage_labels_nothing() -> None:
    dataset, split = toy()
    y = dataset.y
    result = self_train(
        dataset, split, backbone=oracle_trainer(y), calibrator=None, stages=1, threshold=0.5
    )
    assert len(result.stages) == 1
    assert (result.pseudo_labels == -1).all()


def test_calibration_decides_who_is_labelled() -> None:
    """Logits that shout are quietened on the validation nodes before any node is believed."""
    dataset, split = toy()
    y = dataset.y
    rng = np.random.default_rng(0)
    wrong = np.where(rng.random(N) < 0.4, (y + 1) % CLASSES, y)

    def shouting(labels: np.ndarray, nodes: Split, seed: int) -> np.ndarray:
        return 20.0 * np.eye(CLASSES)[wrong]

    arguments = {"backbone": shouting, "stages": 2, "threshold": 0.8}
    raw = self_train(dataset, split, calibrator=None, **arguments)
    calibrated = self_train(dataset, split, calibrator="temperature", **arguments)
    assert raw.stages[0].added.size > 100
    assert calibrated.stages[0].added.size == 0


def test_takes_an_unfitted_calibrator_and_leaves_it_unfitted() -> None:
    dataset, split = toy()
    given = calibrators.get("simi-mailbox")(n_groups=3)
    by_object = self_train(
        dataset, split, calibrator=given, settings=QUICK, stages=2, threshold=0.7
    )
    assert not hasattr(given, "temperatures_")
    assert by_object.stages[0].added.size > 0


def test_prints_one_line_per_stage(result) -> None:
    lines = str(result).splitlines()
    assert lines[0].split() == ["stage", "labels", "added", "right", "val", "test"]
    assert len(lines) == len(result.stages) + 1
    assert lines[1].split()[:3] == ["1", "18", str(result.stages[0].added.size)]


def rise_and_fall(y: np.ndarray) -> object:
    """A stand-in for a GNN, right at 80, 95 and 60 % of nodes, confident of more in every stage."""
    stages = iter([(1, 16), (2, 19), (3, 12)])

    def train(labels: np.ndarray, nodes: Split, seed: int) -> np.ndarray:
        confident, right = next(stages)
        predicted = np.where(np.arange(N) % 20 < right, y, (y + 1) % CLASSES)
        return (
            np.eye(CLASSES)[predicted] * np.where(np.arange(N) % 4 < confident, 9.0, 1.0)[:, None]
        )

    return train


def test_keeps_the_last_stage_or_the_best_on_validation_nodes() -> None:
    dataset, split = toy()
    y = dataset.y
    arguments = {"calibrator": None, "stages": 3}
    best = self_train(dataset, split, backbone=rise_and_fall(y), keep="best", **arguments)
    accuracies = [stage.val_accuracy for stage in best.stages]
    assert best.kept == 1 + int(np.argmax(accuracies)) == 2
    assert (best.predictions == y)[split.val].mean() == max(accuracies)
    assert best.test_accuracy == (best.predictions == y)[split.test].mean()
    assert [line.endswith("kept") for line in str(best).splitlines()] == [False, False, True, False]

    fall = r"fell from .* in stage 1 to .* in stage 3 \(\d+ of 60 nodes\)"
    with pytest.warns(CalibrationWarning, match=fall):
        last = self_train(dataset, split, backbone=rise_and_fall(y), **arguments)
    assert last.kept == 3
    assert last.test_accuracy == last.stages[2].test_accuracy
    np.testing.assert_array_equal(last.pseudo_labels, best.pseudo_labels)


def test_warns_of_a_class_that_gets_no_pseudo_label() -> None:
    dataset, split = toy()
    y = dataset.y

    def train(labels: np.ndarray, nodes: Split, seed: int) -> np.ndarray:
        return np.eye(CLASSES)[y] * np.where(y == 2, 1.0, 9.0)[:, None]

    few = int((y[split.train] == 2).sum())
    arguments = {"backbone": train, "calibrator": None, "threshold": 0.8}
    with pytest.warns(CalibrationWarning, match=rf"none of them as class 2 \({few} training nodes"):
        self_train(dataset, split, **arguments, stages=2)
    with pytest.warns(CalibrationWarning, match="no node was labelled"):
        self_train(dataset, split, **{**arguments, "threshold": 0.9999}, stages=2)


def test_does_not_warn_when_all_is_well() -> None:
    dataset, split = toy()
    y = dataset.y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        self_train(dataset, split, backbone=oracle_trainer(y), calibrator=None, stages=3)
        self_train(dataset, split, backbone=oracle_trainer(y), calibrator=None, stages=1)
