"""Folders are judged as arrays are, by the nodes that may be judged."""

import numpy as np
import pytest

from simi_mailbox import metrics
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.scale import calibrate, evaluate, run
from simi_mailbox.softmax import scaled_softmax
from tests.scale.conftest import NODES, probabilities, write_table

pytestmark = pytest.mark.usefixtures("many_blocks")


@pytest.fixture
def few_together(monkeypatch):
    monkeypatch.setattr(run, "TOGETHER", 5 * 333)


def _others(known):
    """Labelled nodes that nothing was fitted on."""
    return np.setdiff1d(np.arange(NODES), np.concatenate([known.mask, known.train]))


def _expected(probs, y):
    found = metrics.evaluate(probs, y)
    del found["ece_mass"]
    return pytest.approx(found, abs=1e-9)


@pytest.mark.usefixtures("few_together")
@pytest.mark.parametrize("form", ["vector", "table"])
def test_results_are_judged_by_the_labels_of_the_folder_they_come_from(
    form, shards, tmp_path, known
):
    if form == "table":
        (shards / "labels.npy").unlink()
        write_table(shards / "labels.csv", range(NODES)[::-1], known.y[::-1])
    done = calibrate(shards, tmp_path / "out", engine="memory")
    found, rows = evaluate(done.out), _others(known)
    assert found.metrics.num_nodes == len(rows)
    assert found.left_out == len(known.mask) + len(known.train) - 3  # three have no label
    assert found.metrics.evaluate() == _expected(probabilities(done)[rows], known.y[rows])
    # Nodes may be named, by files from anywhere.
    np.save(tmp_path / "some.npy", rows[:100])
    found = evaluate(done.out, test=tmp_path / "some.npy")
    assert found.metrics.evaluate() == _expected(
        probabilities(done)[rows[:100]], known.y[rows[:100]]
    )
    assert found.left_out == 0


@pytest.mark.usefixtures("few_together")
def test_logits_are_judged_too_if_they_are_called_so(shards, known):
    import torch

    probs, rows = scaled_softmax(torch.from_numpy(known.logits)).numpy(), _others(known)
    found = evaluate(shards, input_type="logits")
    assert found.metrics.evaluate() == _expected(probs[rows], known.y[rows])
    with pytest.raises(ValueError, match=r"part-1\.npy, row 0: it has no probabilities"):
        evaluate(shards)


def test_mistakes_of_a_judge_are_told(shards, tmp_path, known):
    done = calibrate(shards, tmp_path / "out", engine="disk")
    np.save(tmp_path / "shared.npy", known.mask[:4])
    with pytest.raises(ValueError, match=r"calibration\.npy and .*shared\.npy have 4 nodes in"):
        evaluate(done.out, test=tmp_path / "shared.npy")
    np.save(tmp_path / "far.npy", np.array([3, NODES]))
    with pytest.raises(ValueError, match=r"far\.npy: there is no node 2000; nodes are rows"):
        evaluate(done.out, test=tmp_path / "far.npy")
    np.save(tmp_path / "all.npy", np.ones(NODES, dtype=bool))
    with pytest.raises(ValueError, match="no labelled node is left"):
        evaluate(done.out, calibration=tmp_path / "all.npy")
    (shards / "labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no file .*in/labels\.\*"):
        evaluate(done.out)
    (done.out / "manifest.json").write_text("{")
    with pytest.raises(FileFormatError, match=r"manifest\.json: it is damaged"):
        evaluate(done.out)
    (done.out / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError, match="is not finished"):
        evaluate(done.out)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        evaluate(tmp_path / "nowhere")
