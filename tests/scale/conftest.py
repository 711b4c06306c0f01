"""A small graph in memory and as shards, cut into many blocks."""

import multiprocessing
import signal
from dataclasses import dataclass

import numpy as np
import pytest

from simi_mailbox import Graph, SimiMailbox
from simi_mailbox.scale import Calibrated, calibrate, tiles
from simi_mailbox.synthetic import calibration_problem

NODES, CLASSES, LABELLED = 2000, 5, 300


@dataclass(frozen=True)
class Known:
    """A problem, and what the default makes of it in memory."""

    logits: np.ndarray
    y: np.ndarray
    graph: Graph
    mask: np.ndarray
    train: np.ndarray
    calibrator: SimiMailbox
    probs: np.ndarray


@pytest.fixture(scope="session")
def known():
    problem = calibration_problem(NODES, CLASSES, temperature=2.0, seed=0)
    rng = np.random.default_rng(0)
    labelled = rng.choice(NODES, 2 * LABELLED, replace=False)
    mask, train = np.sort(labelled[:LABELLED]), np.sort(labelled[LABELLED:])
    z, y = problem.logits.astype(np.float32), np.array(problem.y)
    y[train[:3]] = -1  # not known
    calibrator = SimiMailbox().fit(z, y, graph=problem.graph, mask=mask, train_mask=train)
    probs = calibrator.predict_proba(z, graph=problem.graph)
    return Known(z, y, problem.graph, mask, train, calibrator, probs)


def write_shards(folder, known):
    """The problem as a folder: three shards of logits, edges in no order and of two shapes."""
    for part in ("logits", "edges"):
        (folder / part).mkdir(parents=True)
    for number, rows in ((1, slice(0, 700)), (2, slice(700, 701)), (10, slice(701, None))):
        np.save(folder / "logits" / f"part-{number}.npy", known.logits[rows])
    rng = np.random.default_rng(1)
    edges = known.graph.edge_index().numpy()
    one_way = edges[:, edges[0] < edges[1]]
    edges = np.concatenate([one_way, edges[:, :500], [[3], [3]]], axis=1)  # duplicates and a loop
    edges = edges[:, rng.permutation(edges.shape[1])]
    np.save(folder / "edges" / "a.npy", edges[:, :3000])
    np.save(folder / "edges" / "b.npy", edges[:, 3000:].T.astype(np.int32))
    np.save(folder / "labels.npy", known.y)
    np.save(folder / "calibration.npy", known.mask)
    np.save(folder / "train.npy", known.train)
    return folder


@pytest.fixture
def shards(known, tmp_path):
    """The problem as a folder of the test's own."""
    return write_shards(tmp_path / "in", known)


@pytest.fixture(scope="session")
def on_disk(known, tmp_path_factory):
    """The probabilities that a run on disk ends with, whatever happens on the way."""
    folder = tmp_path_factory.mktemp("on_disk")
    with pytest.MonkeyPatch.context() as patch:
        _many_blocks(patch)
        return probabilities(
            calibrate(write_shards(folder / "in", known), folder / "out", engine="disk")
        )


def add_hidden(folder, known, width):
    """A hidden layer beside the logits, in two shards of other lengths; it is returned whole."""
    rng = np.random.default_rng(2)
    x = known.logits @ rng.normal(size=(CLASSES, width)) + rng.normal(size=(NODES, width))
    (folder / "hidden").mkdir()
    x = x.astype(np.float16)
    np.save(folder / "hidden" / "0.npy", x[:700])
    np.save(folder / "hidden" / "1.npy", x[700:])
    return x


@pytest.fixture
def many_blocks(monkeypatch):
    """Seven blocks, some together, and a handful of chunks."""
    _many_blocks(monkeypatch)


def _many_blocks(monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_BLOCK", 300)
    monkeypatch.setattr(tiles, "LARGEST_BAND", 1000)
    monkeypatch.setattr(tiles, "LARGEST_CHUNK", 2500)


def probabilities(done):
    """All shards of a result, in order."""
    out = done.out if isinstance(done, Calibrated) else done
    return np.concatenate([np.load(file) for file in sorted((out / "probabilities").iterdir())])


def groups(done):
    return np.concatenate([np.load(file) for file in sorted((done.out / "groups").iterdir())])


def put_logits(folder, *parts):
    """These shards of logits in place of those that are there."""
    for path in (folder / "logits").iterdir():
        path.unlink()
    for number, part in enumerate(parts):
        np.save(folder / "logits" / f"{number}.npy", part)


def write_table(path, nodes, labels):
    """A table of nodes and labels."""
    rows = "".join(f"{node},{label}\n" for node, label in zip(nodes, labels, strict=True))
    path.write_text("id,label\n" + rows)


def run_until_killed(target, *args):
    """Run a function that kills its process, in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=target, args=args)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
