"""Shards as people have them; and mistakes in them, told with file and row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pytest

from simi_mailbox import SimiMailbox
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.scale import calibrate
from simi_mailbox.scale.shards import Shards
from simi_mailbox.softmax import scaled_softmax
from tests.scale.conftest import CLASSES, NODES, Known, probabilities

pytestmark = pytest.mark.usefixtures("many_blocks")


def test_parquet_float16_probabilities_and_tables_of_labels(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    import torch
    from pyarrow import parquet

    p16 = scaled_softmax(torch.from_numpy(known.logits)).numpy().astype(np.float16)
    for path in (shards / "logits").iterdir():
        path.unlink()
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
    rows = "".join(f"{node},{known.y[node]}\n" for node in known.mask[::-1])
    (shards / "labels.csv").write_text("id,label\n" + rows)
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
def test_a_masked_class_gets_nothing(
    engine: Any, shards: Path, tmp_path: Path, known: Known
) -> None:
    wide = np.insert(known.logits, 2, -1e9, axis=1)
    for path in (shards / "logits").iterdir():
        path.unlink()
    np.save(shards / "logits" / "0.npy", np.asfortranarray(wide))
    np.save(shards / "labels.npy", known.y + (known.y >= 2))
    found = probabilities(calibrate(shards, tmp_path / "out", engine=engine))
    assert (found[:, 2] == 0).all()
    np.testing.assert_allclose(np.delete(found, 2, axis=1), known.probs, atol=1e-6)


def _cut_off(folder: Path) -> None:
    path = folder / "logits" / "part-10.npy"
    path.write_bytes(path.read_bytes()[:-1000])


def _nan(folder: Path) -> None:
    z = np.load(folder / "logits" / "part-10.npy")
    z[1234, 3] = np.nan
    np.save(folder / "logits" / "part-10.npy", z)


def _too_far(folder: Path) -> None:
    edges = np.load(folder / "edges" / "b.npy")
    edges[17, 1] = -4
    np.save(folder / "edges" / "b.npy", edges)


def _no_parquet(folder: Path) -> None:
    (folder / "edges" / "c.parquet").write_bytes(b"PAR1 and nothing else PAR1")


def _strange_label(folder: Path) -> None:
    y = np.load(folder / "labels.npy")
    y[np.load(folder / "calibration.npy")[2]] = 9
    np.save(folder / "labels.npy", y)


def _other_width(folder: Path) -> None:
    np.save(folder / "logits" / "part-2.npy", np.zeros((1, CLASSES + 1), dtype=np.float32))


def _no_calibration(folder: Path) -> None:
    (folder / "calibration.npy").unlink()


def _trained_on(folder: Path) -> None:
    np.save(folder / "train.npy", np.load(folder / "calibration.npy")[:3])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_cut_off, r"part-10\.npy: it is cut off: 1,000 bytes are missing, from row 12"),
        (_nan, r"part-10\.npy, row 1234: a logit is NaN or infinite"),
        (_too_far, r"b\.npy, row 17: the edge joins nodes \d+ and -4, but .* 0\.\.1999"),
        (_no_parquet, r"c\.parquet: it is damaged or no Parquet file"),
        (_strange_label, r"labels\.npy: node \d+ has label 9, but the classes are 0\.\.4"),
        (_other_width, r"part-2\.npy: it has 6 columns, but .*part-1\.npy has 5"),
        (_no_calibration, r"there is no file .*calibration\.\*"),
        (_trained_on, "calibration and train have 3 nodes in common"),
    ],
)
def test_mistakes_are_told_with_file_and_row(
    damage: Callable[[Path], None], words: str, shards: Path, tmp_path: Path
) -> None:
    damage(shards)
    for engine in ("memory", "disk"):
        with pytest.raises((ValueError, FileFormatError, FileNotFoundError), match=words):
            calibrate(shards, tmp_path / "out", engine=engine)  # type: ignore[arg-type]
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_probabilities_that_are_called_logits_are_refused(
    engine: Any, shards: Path, tmp_path: Path, known: Known
) -> None:
    for path in (shards / "logits").iterdir():
        path.unlink()
    np.save(shards / "logits" / "0.npy", known.probs)
    with pytest.raises(ValueError, match=r'say input_type="probabilities"'):
        calibrate(shards, tmp_path / "out", engine=engine)
    np.save(shards / "logits" / "0.npy", known.logits)
    with pytest.raises(ValueError, match=r"0\.npy, row 0: these are no probabilities"):
        calibrate(shards, tmp_path / "out", engine=engine, input_type="probabilities")


def _as_parquet(folder: Path, known: Known, ids: dict[int, np.ndarray], name: str) -> None:
    """Logits in two Parquet files, with a first column ``name`` that numbers the nodes."""
    from pyarrow import parquet

    for path in (folder / "logits").iterdir():
        path.unlink()
    for number, rows in ((0, slice(0, 900)), (1, slice(900, None))):
        columns = {f"c{k}": known.logits[rows, k] for k in range(CLASSES)}
        nodes = ids.get(number, np.arange(NODES)[rows])
        table = arrow.table({name: nodes, **columns})
        parquet.write_table(table, folder / "logits" / f"{number}.parquet", row_group_size=256)


@pytest.mark.parametrize("name", ["nodeid", "ids", "node", "account_id", "__index_level_0__"])
def test_a_column_of_node_numbers_is_no_class(
    name: str, shards: Path, tmp_path: Path, known: Known
) -> None:
    _as_parquet(shards, known, {}, name)
    done = calibrate(shards, tmp_path / "out", engine="memory")
    assert done.facts["classes"] == CLASSES
    np.testing.assert_allclose(done.calibrator.temperatures_, known.calibrator.temperatures_, 1e-6)


def test_a_column_of_a_shard_that_is_no_class_score_is_refused_by_name(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    _as_parquet(shards, known, {0: np.arange(900) % 60, 1: np.arange(NODES - 900) % 60}, "age")
    with pytest.raises(FileFormatError, match="column 'age' holds whole numbers"):
        calibrate(shards, tmp_path / "out", engine="memory")


def test_two_edges_are_read_as_in_memory(shards: Path) -> None:
    np.save(shards / "edges" / "a.npy", np.array([[0, 1], [2, 3]]))
    found = Shards.open(shards / "edges", "edges").shards[0].read(0, 2)
    assert found.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("part", ["logits/part-10.npy", "edges/b.npy"])
def test_a_shard_that_is_rewritten_during_a_run_is_noticed(
    part: str, shards: Path, tmp_path: Path
) -> None:
    def rewrite(step: str, done: int, _total: int) -> None:
        if step == "reading logits" and done == 0:
            np.save(shards / part, np.load(shards / part)[::-1])

    with pytest.raises(FileFormatError, match=r"it was changed during the run: start again"):
        calibrate(shards, tmp_path / "out", engine="disk", progress=rewrite)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize(("engine", "last"), [("memory", "reading"), ("disk", "cutting tiles")])
def test_a_shard_that_is_rewritten_after_it_was_read_is_noticed(
    engine: Any, last: str, shards: Path, tmp_path: Path
) -> None:
    path = shards / "logits" / "part-10.npy"

    def rewrite(step: str, done: int, total: int) -> None:
        if step == last and done == total:
            np.save(path, np.load(path)[::-1])

    with pytest.raises(FileFormatError, match=r"part-10\.npy: it was changed during the run"):
        calibrate(shards, tmp_path / "out", engine=engine, progress=rewrite)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("ending", [".npy", ".csv"])
def test_two_labels_for_one_node_are_refused(
    ending: str, shards: Path, tmp_path: Path, known: Known
) -> None:
    (shards / "labels.npy").unlink()
    twice = [*known.mask, known.mask[3]]
    rows = np.stack([twice, known.y[twice]], axis=1)
    rows[-1, 1] = (rows[-1, 1] + 1) % CLASSES
    if ending == ".npy":
        np.save(shards / "labels.npy", rows)
    else:
        text = "".join(f"{node},{label}\n" for node, label in rows)
        (shards / "labels.csv").write_text("id,label\n" + text)
    with pytest.raises(
        ValueError, match=rf"labels\{ending}: it names node '{known.mask[3]}' twice"
    ):
        calibrate(shards, tmp_path / "out", engine="memory")


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_a_class_masked_by_infinity_is_what_it_is_in_memory(
    engine: Any, shards: Path, tmp_path: Path, known: Known
) -> None:
    wide = np.insert(known.logits, 2, -np.inf, axis=1)
    y = np.where(known.y >= 2, known.y + 1, known.y)
    for path in (shards / "logits").iterdir():
        path.unlink()
    np.save(shards / "logits" / "0.npy", wide)
    np.save(shards / "labels.npy", y)
    expected = SimiMailbox().fit(
        wide, y, graph=known.graph, mask=known.mask, train_mask=known.train
    )
    probs = expected.predict_proba(wide, graph=known.graph)
    done = calibrate(shards, tmp_path / "out", engine=engine)
    np.testing.assert_allclose(probabilities(done), probs, atol=1e-6)
    wide[1500, 2] = 0.5
    np.save(shards / "logits" / "0.npy", wide)
    with pytest.raises(ValueError, match="masked by −inf on every node or on none"):
        calibrate(shards, tmp_path / "out", engine=engine)


def test_logits_that_hardly_differ_have_the_range_that_they_have_in_memory(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    for path in (shards / "logits").iterdir():
        np.save(path, np.load(path) / 100)
    wide = [
        calibrate(shards, tmp_path / engine, engine=engine).calibrator.widest_  # type: ignore[arg-type]
        for engine in ("memory", "disk")
    ]
    assert wide[1] == pytest.approx(wide[0], rel=1e-6)


@pytest.mark.parametrize("classes", [3, 4])
def test_a_masked_class_among_few_is_left_out_as_in_memory(
    classes: int, shards: Path, tmp_path: Path, known: Known
) -> None:
    for path in (shards / "logits").iterdir():
        z = np.load(path)[:, :classes]
        z[:, -1] = -1e9
        np.save(path, z)
    np.save(shards / "labels.npy", np.where(known.y < 0, known.y, known.y % (classes - 1)))
    done = [
        calibrate(shards, tmp_path / engine, engine=engine)  # type: ignore[arg-type]
        for engine in ("memory", "disk")
    ]
    for one in done:
        assert one.calibrator.classes_.tolist() == list(range(classes - 1))
    np.testing.assert_allclose(*map(probabilities, done), atol=1e-5)
