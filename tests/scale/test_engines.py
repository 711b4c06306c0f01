"""One answer, whoever calls the functions; and after whatever happened on the way."""

import errno
import json
import os
import signal
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simi_mailbox
from simi_mailbox import grouping
from simi_mailbox.calibrators import SimiMailboxFree
from simi_mailbox.calibrators.simi_mailbox import evidence
from simi_mailbox.exceptions import CalibrationWarning, FileFormatError
from simi_mailbox.scale import apply, calibrate, engines, run, tiles
from simi_mailbox.scale.inputs import Folder
from tests.scale.conftest import NODES, add_hidden, groups, probabilities, run_until_killed

pytestmark = pytest.mark.usefixtures("many_blocks")


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_blocks_give_what_the_default_gives_in_memory(engine, shards, tmp_path, known):
    done = calibrate(shards, tmp_path / "out", engine=engine)
    assert done.facts["blocks"] == 7
    assert done.facts["entries"] == known.graph.num_entries
    manifest = json.loads((done.out / "manifest.json").read_text())
    assert {name: manifest[name] for name in done.facts} == done.facts
    told = {name: manifest[name] for name in ("method", "engine", "nodes", "classes", "folder")}
    assert told == {
        "method": "simi-mailbox", "engine": engine, "nodes": NODES, "classes": 5,
        "folder": str(shards),
    }  # fmt: skip
    assert manifest["seconds"] > 0
    assert len(manifest["shards"]) == 14
    ours, theirs = done.calibrator.temperatures_, known.calibrator.temperatures_
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert np.array_equal(groups(done), known.calibrator.groups_)
    np.testing.assert_allclose(probabilities(done), known.probs, atol=1e-6)
    # Its file is a calibrator of arrays, too.
    again = simi_mailbox.load(done.out / "calibrator.safetensors")
    probs = again.predict_proba(known.logits, graph=known.graph)
    np.testing.assert_allclose(probs, known.probs, atol=1e-6)


@pytest.mark.parametrize("method", [simi_mailbox.SimiMailbox, SimiMailboxFree])
def test_edges_of_one_direction_and_nodes_without_any(method, shards, tmp_path, known):
    edges = known.graph.edge_index().numpy()
    edges = edges[:, (edges[0] < edges[1]) & (edges >= 150).all(axis=0)]
    for path in (shards / "edges").iterdir():
        path.unlink()
    np.save(shards / "edges" / "0.npy", edges)
    graph = simi_mailbox.Graph.from_edges(edges, NODES)
    assert int((graph.degree == 0).sum()) >= 150
    expected = method().fit(known.logits, known.y, graph=graph, mask=known.mask)
    done = calibrate(shards, tmp_path / "out", engine="disk", calibrator=method())
    assert np.array_equal(groups(done), expected.groups_)
    # Memory adds neighbours up in float32, blocks in float64.
    assert done.calibrator.bandwidth_ == pytest.approx(expected.bandwidth_, rel=1e-6)
    probs = expected.predict_proba(known.logits, graph=graph)
    np.testing.assert_allclose(probabilities(done), probs, atol=1e-6)
    labels, kept = done.calibrator.labels_, expected.labels_
    assert labels["graph"] == kept["graph"]
    # Sums of float32 that cancel: their error is one of the size of what is summed.
    size = kept["logits"][-2]
    np.testing.assert_allclose(labels["logits"], kept["logits"], rtol=1e-5, atol=1e-7 * size)
    # Labels of fit are evidence here, too, and nowhere else.
    again = apply(expected, shards, tmp_path / "again", engine="disk")
    np.testing.assert_allclose(probabilities(again), probs, atol=1e-6)
    np.save(shards / "logits" / "part-2.npy", np.zeros((1, 5), dtype=np.float32))
    with pytest.warns(CalibrationWarning, match="not those of fit"):
        again = apply(expected, shards, tmp_path / "again", engine="disk")
    assert np.abs(probabilities(again) - probs).max() > 1e-3


@pytest.mark.parametrize("kind", ["integers", "strings", "table"])
@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_ids_find_the_labels_of_fit_in_other_shards(engine, kind, shards, tmp_path, known):
    """The shards of another day hold the same nodes in another order."""
    ids = 5 * np.arange(NODES) + 3
    ids = ids if kind == "integers" else np.char.add("n", ids.astype(str))
    order = np.random.default_rng(0).permutation(NODES)
    place = np.argsort(order)

    def write(folder, ids):
        if kind == "table":
            pq.write_table(pa.table({"node_id": ids, "colour": ids}), folder / "node_ids.parquet")
        else:
            np.save(folder / "node_ids.npy", ids)

    write(shards, ids)
    fitted = calibrate(shards, tmp_path / "out", engine=engine)
    later = tmp_path / "later"
    for part in ("logits", "edges"):
        (later / part).mkdir(parents=True)
    np.save(later / "logits" / "0.npy", known.logits[order])
    np.save(later / "edges" / "0.npy", place[known.graph.edge_index().numpy()])
    with pytest.warns(CalibrationWarning, match="not those of fit"):
        nobody = apply(fitted.calibrator, later, tmp_path / "nobody", engine=engine)
    write(later, ids[order])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cal = simi_mailbox.load(fitted.out / "calibrator.safetensors")
        found = apply(cal, later, tmp_path / "found", engine=engine)
    np.testing.assert_allclose(probabilities(found)[place], known.probs, atol=1e-5)
    assert np.abs(probabilities(nobody)[place] - known.probs).max() > 1e-3


def test_ids_that_name_no_node_are_refused(shards, tmp_path):
    np.save(shards / "node_ids.npy", np.arange(7))
    with pytest.raises(FileFormatError, match="7 node_ids for 2000"):
        calibrate(shards, tmp_path / "out")


@pytest.mark.parametrize("constant", ["PSEUDO_NEIGHBOURS", "PSEUDO_MASS"])
def test_the_formula_is_written_once(constant, shards, tmp_path, known, monkeypatch):
    """One constant changed changes memory, disk and Dask alike."""
    monkeypatch.setattr(evidence, constant, 20.0)
    out, found = tmp_path / "out", {}
    for engine in ("memory", "disk"):
        found[engine] = probabilities(calibrate(shards, out, engine=engine))
    assert np.abs(found["memory"] - known.probs).max() > 1e-3
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, processes=False, dashboard_address=None) as cluster:
        done = calibrate(shards, out, scheduler=cluster.scheduler_address)
        found["dask"] = probabilities(done)
    for probs in found.values():
        np.testing.assert_allclose(probs, found["memory"], atol=1e-6)


@pytest.mark.parametrize(
    ("scaling", "above"), [("min-max", 100), ("standard", 100), ("standard", 10_000)]
)
def test_a_histogram_is_merged_and_points_are_scaled_as_if_they_were_never_cut(
    scaling, above, shards, tmp_path, known, monkeypatch
):
    monkeypatch.setattr(grouping, "HISTOGRAM_ABOVE", above)
    expected = simi_mailbox.SimiMailbox(scaling=scaling).fit(
        known.logits, known.y, graph=known.graph, mask=known.mask, train_mask=known.train
    )
    scaled = simi_mailbox.SimiMailbox(scaling=scaling)
    done = calibrate(shards, tmp_path / "out", engine="disk", calibrator=scaled)
    assert np.array_equal(groups(done), expected.groups_)
    np.testing.assert_allclose(done.calibrator.scale_, expected.scale_, rtol=1e-7)  # float32 sums
    np.testing.assert_allclose(done.calibrator.temperatures_, expected.temperatures_, rtol=1e-6)


def _dies(folder, out, moment):
    seen = [0]

    def progress(_step, _done, _total):
        seen[0] += 1
        if seen[0] == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    calibrate(folder, out, engine="disk", progress=progress)


def test_what_was_killed_goes_on_and_ends_in_the_same_bits(shards, tmp_path, on_disk):
    out = tmp_path / "out"
    for moment in (5, 25, 70):
        run_until_killed(_dies, shards, out, moment)
        assert not (out / "manifest.json").exists()
    cut = {path: path.stat().st_mtime_ns for path in (out / ".simi-mailbox" / "tile").iterdir()}
    assert cut

    def untouched(*_):
        if (out / ".simi-mailbox" / "tile").exists():
            assert all(path.stat().st_mtime_ns == stamp for path, stamp in cut.items())

    done = calibrate(shards, out, engine="disk", progress=untouched)
    assert np.array_equal(probabilities(done), on_disk)
    assert not (out / ".simi-mailbox").exists()


def test_a_work_folder_is_used_again_and_damage_in_it_is_noticed(shards, tmp_path):
    work = tmp_path / "work"
    first = calibrate(shards, tmp_path / "a", engine="disk", work=work)
    tiles = sorted((work / ".simi-mailbox" / "tile").iterdir())
    before = [path.stat().st_mtime_ns for path in tiles]
    with tiles[0].open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    second = calibrate(shards, tmp_path / "b", engine="disk", work=work)
    after = [path.stat().st_mtime_ns for path in tiles]
    assert after[0] != before[0]
    assert after[-1] == before[-1]
    assert np.array_equal(probabilities(first), probabilities(second))
    # Other logits: nothing of what was there holds any more.
    np.save(shards / "logits" / "part-2.npy", np.ones((1, 5), dtype=np.float32))
    third = calibrate(shards, tmp_path / "c", engine="disk", work=work)
    facts = json.loads((work / ".simi-mailbox" / "work.json").read_text())
    assert facts["input_type"] == "logits"
    assert not np.array_equal(probabilities(first)[700], probabilities(third)[700])


def test_a_full_disk_leaves_finished_shards_and_no_half(shards, tmp_path, monkeypatch):
    out, real = tmp_path / "out", np.save

    def save(file, array):
        if "00002" in file.name and "probabilities" in file.name:
            file.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, array)

    with monkeypatch.context() as full:
        full.setattr(np, "save", save)
        with pytest.raises(OSError, match=r"No space left.*00002\.npy"):
            calibrate(shards, out, engine="disk")
    names = sorted(path.name for path in (out / "probabilities").iterdir())
    assert names == ["00000.npy", "00001.npy"]
    assert not (out / "manifest.json").exists()
    stamp = (out / "probabilities" / "00000.npy").stat().st_mtime_ns
    calibrate(shards, out, engine="disk")
    assert (out / "probabilities" / "00000.npy").stat().st_mtime_ns == stamp


def test_the_engine_follows_from_the_memory_and_the_scheduler(shards, tmp_path, known):
    source = Folder.open(shards)

    def engine(memory, scheduler=None, chosen="auto"):
        return run._Job(source, tmp_path / "out", chosen, memory, scheduler, "logits").engine

    enough = tiles.PROCESS + run.in_memory(source)
    assert enough > tiles.PROCESS + 8 * NODES * 5  # the logits alone, in float64
    assert (engine(enough), engine(enough - 1), engine("1.2GB")) == ("memory", "disk", "memory")
    assert (engine(enough, "tcp://a:1"), engine(0, None, "memory")) == ("dask", "memory")
    add_hidden(shards, known, 9)
    assert run.in_memory(Folder.open(shards)) >= run.in_memory(source) + 4 * NODES * 9
    with pytest.raises(ValueError, match=r"engine='dask' needs scheduler.*got 'disk' with 'tcp"):
        engine("2GB", "tcp://a:1", "disk")
    with pytest.raises(
        ValueError, match="engine must be one of auto, memory, disk, dask, got 'gpu'"
    ):
        engine("2GB", None, "gpu")


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as found:
        yield found


def test_a_cluster_that_loses_a_worker_gives_the_same_bits(
    cluster, shards, tmp_path, known, monkeypatch
):
    monkeypatch.setattr("simi_mailbox.scale.tiles.LARGEST_BLOCK", 600)  # fewer tasks
    add_hidden(shards, known, 7)
    free = simi_mailbox.SimiMailbox(keep_classes=False)
    expected = calibrate(shards, tmp_path / "disk", engine="disk", calibrator=free)
    killed = []

    def progress(step, done, _total):
        if step == "cutting tiles" and done and not killed:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    address = {"scheduler": cluster.scheduler_address}
    done = calibrate(shards, tmp_path / "out", calibrator=free, progress=progress, **address)
    assert killed
    assert done.facts["engine"] == "dask"
    assert np.array_equal(done.calibrator.temperatures_, expected.calibrator.temperatures_)
    assert np.array_equal(probabilities(done), probabilities(expected))
    (shards / "hidden").rename(tmp_path / "elsewhere")
    given = {"known": ([4, 5], known.y[[4, 5]])}
    expected = apply(known.calibrator, shards, tmp_path / "disk", engine="disk", **given)
    done = apply(known.calibrator, shards, tmp_path / "out", **given, **address)
    assert np.array_equal(probabilities(done), probabilities(expected))
    # What a worker finds wrong is told like anywhere else.
    edges = np.load(shards / "edges" / "a.npy")
    edges[0, 7] = NODES  # the first number that no node has
    np.save(shards / "edges" / "a.npy", edges)
    with pytest.raises(ValueError, match=r"a\.npy, row 7: the edge joins nodes 2000"):
        calibrate(shards, tmp_path / "out", **address)


def test_a_scheduler_that_is_not_there_is_one_clear_error(shards, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "PATIENCE", 0.2)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        calibrate(shards, tmp_path / "out", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(ValueError, match="needs scheduler"):
        calibrate(shards, tmp_path / "out", engine="dask")
