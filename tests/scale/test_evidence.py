"""A hidden layer, moved classes and labels known by now: on blocks what they are in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simi_mailbox import SimiMailbox
from simi_mailbox.calibrators import SimiMailboxFree, TemperatureScaling
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.scale import apply, calibrate
from tests.scale.conftest import NODES, Known, add_hidden, groups, probabilities

pytestmark = pytest.mark.usefixtures("many_blocks")


def _given_as(shards: Path, known: Known, kind: str) -> np.ndarray:
    """The numbers of all nodes as ``kind``, in float16, in the folder, too."""
    z = torch.from_numpy(known.logits)
    values = {"logits": z, "log-probabilities": z.log_softmax(1), "probabilities": z.softmax(1)}
    for path in (shards / "logits").iterdir():
        path.unlink()
    found = values[kind].numpy().astype(np.float16)
    np.save(shards / "logits" / "0.npy", found[:1200])
    np.save(shards / "logits" / "1.npy", found[1200:])
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
    method: Any, kind: Any, width: int, shards: Path, tmp_path: Path, known: Known
) -> None:
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


@pytest.mark.parametrize("form", ["vector", "pairs", "table"])
def test_labels_known_by_now_are_read_from_a_file(
    form: str, shards: Path, tmp_path: Path, known: Known
) -> None:
    nodes = np.array([1500, 4, 77])
    if form == "vector":
        y = np.full(NODES, -1)
        y[nodes] = known.y[nodes]
        np.save(shards / "known.npy", y)
    elif form == "pairs":
        np.save(shards / "known.npy", np.stack([nodes, known.y[nodes]], axis=1))
    else:
        rows = "".join(f"{node},{known.y[node]}\n" for node in nodes)
        (shards / "known.csv").write_text("id,label\n" + rows)
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


def _known_outside(folder: Path) -> None:
    np.save(folder / "known.npy", np.array([[5, 1], [NODES, 0]]))


def _known_twice(folder: Path) -> None:
    np.save(folder / "known.npy", np.array([[5, 1], [5, 0]]))


def _known_strange(folder: Path) -> None:
    np.save(folder / "known.npy", np.array([[5, 1], [6, 9]]))


def _short_hidden(folder: Path) -> None:
    np.save(folder / "hidden" / "1.npy", np.zeros((5, 7)))


def _narrow_hidden(folder: Path) -> None:
    for path in (folder / "hidden").iterdir():
        np.save(path, np.load(path)[:, :3])


def _nan_in_hidden(folder: Path) -> None:
    x = np.load(folder / "hidden" / "1.npy")
    x[42, 3] = np.nan
    np.save(folder / "hidden" / "1.npy", x)


def _no_hidden(folder: Path) -> None:
    (folder / "hidden").rename(folder / "elsewhere")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_known_outside, r"known\.npy: there is no node 2000; nodes are rows, numbered 0\.\.1999"),
        (_known_twice, r"known\.npy: it names node '5' twice"),
        (_known_strange, r"known\.npy: node 6 has label 9, but the classes are 0\.\.4"),
        (_short_hidden, r"hidden: it has 705 rows, but there are 2,000 nodes"),
        (_narrow_hidden, r"hidden has 3 columns, but the calibrator was fitted on 7"),
        (_nan_in_hidden, r"1\.npy, row 42: the hidden layer is NaN or infinite"),
        (_no_hidden, r"there is no folder .*hidden, but the calibrator was fitted with a hidden"),
    ],
)
def test_mistakes_in_evidence_are_told(
    damage: Any, words: str, shards: Path, tmp_path: Path, known: Known
) -> None:
    hidden = add_hidden(shards, known, 7)
    given = {"graph": known.graph, "mask": known.mask, "hidden": hidden}
    cal = SimiMailbox().fit(known.logits, known.y, **given)
    damage(shards)
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        apply(cal, shards, tmp_path / "out", engine="disk")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_hidden_layer_that_is_of_no_use_is_mentioned(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    add_hidden(shards, known, 7)
    with pytest.warns(CalibrationWarning, match="hidden is not used"):
        done = apply(known.calibrator, shards, tmp_path / "out", engine="memory")
    np.testing.assert_allclose(probabilities(done), known.probs, atol=1e-6)


def test_shards_are_calibrated_by_a_simi_mailbox(shards: Path, tmp_path: Path) -> None:
    wrong: Any = TemperatureScaling()
    with pytest.raises(TypeError, match="by a SimiMailbox, not by TemperatureScaling"):
        calibrate(shards, tmp_path / "out", calibrator=wrong)
    with pytest.raises(ValueError, match="n_groups"):
        calibrate(shards, tmp_path / "out", calibrator=SimiMailbox(n_groups=0))
