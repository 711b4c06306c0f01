"""Shards as people have them; and mistakes in them, told with file and row."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest

from simi_mailbox import SimiMailbox
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.scale import calibrate
from simi_mailbox.softmax import scaled_softmax
from tests.scale.conftest import CLASSES, NODES, Known, probabilities, put_logits, write_table

pytestmark = pytest.mark.usefixtures("many_blocks")


def test_parquet_float16_probabilities_and_tables_of_labels(shards, tmp_path, known):
    import torch
    from pyarrow import parquet

    p16 = scaled_softmax(torch.from_numpy(known.logits)).numpy().astype(np.float16)
    put_logits(shards)
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(p16[:900].ravel()), CLASSES)
    parquet.write_table(
        arrow.table({"prob": lists}), shards / "logits" / "0.parquet", row_group_size=200
    )
    columns = {f"c{k}": p16[900:, k] for k in range(CLASSES)}
    table = arrow.table({"nid": np.arange(900, NODES), **columns})
    parquet.write_table(table, shards / "logits" / "1.parquet")
    edges = np.load(shards / "edges" / "a.npy")
    (shards / "edges" / "a.npy").unlink()
    parquet.write_table(
        arrow.table({"src": edges[0], "dst": edges[1]}), shards / "edges" / "a.parquet"
    )
    (shards / "labels.npy").unlink()
    write_table(shards / "labels.csv", known.mask[::-1], known.y[known.mask[::-1]])
    np.save(shards / "calibration.npy", np.isin(np.arange(NODES), known.mask))
    expected = SimiMailbox().fit(
        p16, known.y, graph=known.graph, mask=known.mask, input_type="probabilities"
    )
    (shards / "train.npy").unlink()
    probs = expected.predict_proba(p16, graph=known.graph)
    done = calibrate(shards, tmp_path / "out", engine="disk", input_type="probabilities")
    found = parquet.read_table(tmp_path / "out" / "probabilities")
    found = np.stack([found[f"p_{k}"].to_numpy() for k in range(CLASSES)], axis=1)
    np.testing.assert_allclose(found, probs, atol=1e-6)
    np.testing.assert_allclose(done.calibrator.temperatures_, expected.temperatures_, rtol=1e-6)


@pytest.mark.parametrize("engine", ["memory", "disk"])
@pytest.mark.parametrize("mask", [-1e9, -np.inf])
def test_a_masked_class_gets_nothing(mask, engine, shards, tmp_path, known):
    wide = np.insert(known.logits, 2, mask, axis=1)
    put_logits(shards, np.asfortranarray(wide))
    np.save(shards / "labels.npy", known.y + (known.y >= 2))
    found = probabilities(calibrate(shards, tmp_path / "out", engine=engine))
    assert (found[:, 2] == 0).all()
    np.testing.assert_allclose(np.delete(found, 2, axis=1), known.probs, atol=1e-6)


@pytest.mark.parametrize("engine", ["memory", "disk"])
@pytest.mark.parametrize("node", [0, 1500])
def test_a_class_is_masked_on_every_node_or_on_none(node, engine, shards, tmp_path, known):
    wide = np.insert(known.logits, 2, -np.inf, axis=1)
    wide[node, 2] = 0.5
    put_logits(shards, wide)
    with pytest.raises(ValueError, match="masked by −inf on every node or on none"):
        calibrate(shards, tmp_path / "out", engine=engine)


def _save(folder, name, place, value):
    """The same array with another value in one place."""
    array = np.load(folder / name)
    array[place] = value
    np.save(folder / name, array)


MISTAKES: dict[str, Callable[[Path, Known], object]] = {
    r"part-10\.npy: it is cut off: 1,000 bytes are missing": lambda f, _: (
        f / "logits/part-10.npy"
    ).write_bytes((f / "logits/part-10.npy").read_bytes()[:-1000]),
    r"part-10\.npy, row 1234: it has logits that are NaN or infinite": lambda f, _: _save(
        f, "logits/part-10.npy", (1234, 3), np.nan
    ),
    r"b\.npy, row 17: the edge joins nodes \d+ and -4, but .* 0\.\.1999": lambda f, _: _save(
        f, "edges/b.npy", (17, 1), -4
    ),
    r"c\.parquet: it is damaged or no Parquet file": lambda f, _: (
        f / "edges/c.parquet"
    ).write_bytes(b"PAR1 and nothing else PAR1"),
    r"node \d+ of .*labels\.npy has label 9, but the classes are 0\.\.4": lambda f, known: _save(
        f, "labels.npy", known.mask[2], 9
    ),
    r"part-2\.npy: it has 6 columns, but .*part-1\.npy has 5": lambda f, _: np.save(
        f / "logits/part-2.npy", np.zeros((1, CLASSES + 1), dtype=np.float32)
    ),
    r"there is no file .*calibration\.\*": lambda f, _: (f / "calibration.npy").unlink(),
    "calibration and train have 3 nodes in common": lambda f, known: np.save(
        f / "train.npy", known.mask[:3]
    ),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_told_with_file_and_row(words, shards, tmp_path, known):
    MISTAKES[words](shards, known)
    for engine in ("memory", "disk"):
        with pytest.raises((ValueError, FileFormatError, FileNotFoundError), match=words):
            calibrate(shards, tmp_path / "out", engine=engine)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_probabilities_that_are_called_logits_are_refused(engine, shards, tmp_path, known):
    put_logits(shards, known.probs)
    with pytest.raises(ValueError, match=r'say input_type="probabilities"'):
        calibrate(shards, tmp_path / "out", engine=engine)
    put_logits(shards, known.logits)
    with pytest.raises(ValueError, match=r"0\.npy, row 0: it has no probabilities"):
        calibrate(shards, tmp_path / "out", engine=engine, input_type="probabilities")


def _as_parquet(folder, known, ids, name):
    """Logits in two Parquet files, with a first column ``name`` that numbers the nodes."""
    from pyarrow import parquet

    put_logits(folder)
    for number, rows in ((0, slice(0, 900)), (1, slice(900, None))):
        columns = {f"c{k}": known.logits[rows, k] for k in range(CLASSES)}
        nodes = ids.get(number, np.arange(NODES)[rows])
        table = arrow.table({name: nodes, **columns})
        parquet.write_table(table, folder / "logits" / f"{number}.parquet", row_group_size=256)


@pytest.mark.parametrize("name", ["nodeid", "ids", "node", "account_id", "__index_level_0__"])
def test_a_column_of_node_numbers_is_no_class(name, shards, tmp_path, known):
    _as_parquet(shards, known, {}, name)
    done = calibrate(shards, tmp_path / "out", engine="memory")
    assert done.facts["classes"] == CLASSES
    np.testing.assert_allclose(done.calibrator.temperatures_, known.calibrator.temperatures_, 1e-6)


def test_a_column_of_a_shard_that_is_no_class_score_is_refused_by_name(shards, tmp_path, known):
    _as_parquet(shards, known, {0: np.arange(900) % 60, 1: np.arange(NODES - 900) % 60}, "age")
    with pytest.raises(FileFormatError, match="column 'age' holds whole numbers"):
        calibrate(shards, tmp_path / "out", engine="memory")


@pytest.mark.parametrize(
    ("engine", "part", "when", "begun"),
    [
        ("disk", "logits/part-10.npy", "reading logits", True),
        ("disk", "edges/b.npy", "reading logits", True),
        ("disk", "logits/part-10.npy", "cutting tiles", False),
        ("memory", "logits/part-10.npy", "reading", False),
    ],
)
def test_a_shard_that_is_rewritten_during_a_run_is_noticed(
    engine, part, when, begun, shards, tmp_path
):
    def rewrite(step, done, total):
        if step == when and done == (0 if begun else total):
            np.save(shards / part, np.load(shards / part)[::-1])

    with pytest.raises(FileFormatError, match=rf"{part}: it was changed during the run: start"):
        calibrate(shards, tmp_path / "out", engine=engine, progress=rewrite)
    assert not (tmp_path / "out" / "manifest.json").exists()
