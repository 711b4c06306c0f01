"""A hidden layer, moved classes and labels known by now: on blocks what they are in memory."""

from typing import Any

import numpy as np
import pytest
import torch

from simi_mailbox import SimiMailbox
from simi_mailbox.calibrators import SimiMailboxFree, TemperatureScaling
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.scale import apply, calibrate
from tests.scale.conftest import NODES, add_hidden, groups, probabilities, put_logits, write_table

pytestmark = pytest.mark.usefixtures("many_blocks")


def _given_as(shards, known, kind):
    """The numbers of all nodes as ``kind``, in float16, in the folder, too."""
    z = torch.from_numpy(known.logits)
    values = {"logits": z, "log-probabilities": z.log_softmax(1), "probabilities": z.softmax(1)}
    found = values[kind].numpy().astype(np.float16)
    put_logits(shards, found[:1200], found[1200:])
    return found


@pytest.mark.parametrize(
    ("method", "kind", "width"),
    [
        (SimiMailboxFree, "logits", 600),
        (SimiMailboxFree, "probabilities", 7),
        (SimiMailbox, "log-probabilities", 7),
        (SimiMailbox, "logits", 7),
    ],
)
def test_every_input_gives_on_blocks_what_it_gives_in_memory(
    method, kind, width, shards, tmp_path, known
):
    values, hidden = _given_as(shards, known, kind), add_hidden(shards, known, width)
    given = {"graph": known.graph, "train_mask": known.train, "hidden": hidden}
    cal = method(n_groups=12)
    labels = {"mask": known.mask, "input_type": kind}
    expected = method(n_groups=12).fit(values, known.y, **given, **labels)
    done = calibrate(shards, tmp_path / "out", engine="disk", calibrator=cal, input_type=kind)
    assert done.facts["blocks"] == 7
    assert done.facts["method"] == method.name
    np.testing.assert_allclose(done.calibrator.temperatures_, expected.temperatures_, rtol=1e-6)
    assert len(expected.temperatures_) == 12
    assert np.array_equal(groups(done), expected.groups_)
    probs = expected.predict_proba(values, **given)
    np.testing.assert_allclose(probabilities(done), probs, atol=1e-6)
    assert not hasattr(cal, "temperatures_")
    # What comes later: more labels, and one that has changed; the file is used in memory, too.
    later = np.sort(np.random.default_rng(3).choice(NODES, 200, replace=False))
    later = np.union1d(later, [known.mask[0], known.train[5]])
    y = known.y[later].clip(min=0)
    y[0] = (y[0] + 1) % 5
    told = expected.predict_proba(values, **given, known=(later, y))
    assert np.abs(told - probs).max() > 1e-3
    file = done.out / "calibrator.safetensors"
    again = apply(file, shards, tmp_path / "later", engine="disk", known=(later, y))
    assert again.facts["known_labels"] == len(later)
    np.testing.assert_allclose(probabilities(again), told, atol=1e-6)


def test_labels_known_by_now_are_read_from_a_file(shards, tmp_path, known):
    nodes = np.array([1500, 4, 77])
    write_table(shards / "known.csv", nodes, known.y[nodes])
    (shards / "train.npy").unlink()
    (shards / "labels.npy").unlink()
    edges = np.load(shards / "edges" / "b.npy")
    np.save(shards / "edges" / "b.npy", edges[:-1])  # another graph: labels of fit do not count
    done = apply(known.calibrator, shards, tmp_path / "out", engine="disk")
    every = np.concatenate([np.load(shards / "edges" / "a.npy"), edges[:-1].T], axis=1)
    expected = known.calibrator.predict_proba(
        known.logits, graph=every, known=(nodes, known.y[nodes])
    )
    np.testing.assert_allclose(probabilities(done), expected, atol=1e-6)
    assert np.abs(expected - known.calibrator.predict_proba(known.logits, graph=every)).max() > 1e-4


MISTAKES: dict[str, tuple[str, Any]] = {
    r"known\.npy: there is no node 2000; nodes are rows, numbered 0\.\.1999": (
        "known.npy", np.array([[5, 1], [NODES, 0]]),
    ),
    r"known\.npy: it names node 5 twice": ("known.npy", np.array([[5, 1], [5, 0]])),
    r"node 6 of .*known\.npy has label 9, but the classes are 0\.\.4": (
        "known.npy", np.array([[5, 1], [6, 9]]),
    ),
    r"hidden: it has 705 rows, but there are 2,000 nodes": ("hidden/1.npy", np.zeros((5, 7))),
    r"1\.npy: it has 3 columns, but .*0\.npy has 7": ("hidden/1.npy", np.zeros((1300, 3))),
    r"1\.npy, row 0: the hidden layer is NaN or infinite": (
        "hidden/1.npy", np.full((1300, 7), np.nan),
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_in_evidence_are_told(words, shards, tmp_path, known):
    hidden = add_hidden(shards, known, 7)
    given = {"graph": known.graph, "mask": known.mask, "hidden": hidden}
    cal = SimiMailbox().fit(known.logits, known.y, **given)
    name, array = MISTAKES[words]
    np.save(shards / name, array)
    with pytest.raises(ValueError, match=words):
        apply(cal, shards, tmp_path / "out", engine="disk")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_hidden_layer_is_needed_where_there_was_one_and_mentioned_where_it_is_of_no_use(
    shards, tmp_path, known
):
    hidden = add_hidden(shards, known, 7)
    with pytest.warns(CalibrationWarning, match="hidden is not used"):
        done = apply(known.calibrator, shards, tmp_path / "unused", engine="memory")
    np.testing.assert_allclose(probabilities(done), known.probs, atol=1e-6)
    given = {"graph": known.graph, "mask": known.mask, "hidden": hidden}
    cal = SimiMailbox().fit(known.logits, known.y, **given)
    for path in (shards / "hidden").iterdir():
        np.save(path, np.load(path)[:, :3])
    with pytest.raises(ValueError, match=r"3 columns of hidden/, but .* fitted on 5 and 7"):
        apply(cal, shards, tmp_path / "out", engine="disk")
    (shards / "hidden").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"0 columns of hidden/, but .* fitted on 5 and 7"):
        apply(cal, shards, tmp_path / "out", engine="disk")


def test_shards_are_calibrated_by_a_simi_mailbox(shards, tmp_path):
    wrong = TemperatureScaling()
    with pytest.raises(TypeError, match="by a SimiMailbox, not by TemperatureScaling"):
        calibrate(shards, tmp_path / "out", calibrator=wrong)
    with pytest.raises(ValueError, match="n_groups"):
        calibrate(shards, tmp_path / "out", calibrator=SimiMailbox(n_groups=0))
