"""Shards as people have them; and mistakes in them, told with file and row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simi_mailbox import SimiMailbox
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.scale import calibrate
from simi_mailbox.softmax import scaled_softmax
from tests.scale.conftest import CLASSES, NODES, Known, probabilities

pytestmark = pytest.mark.usefixtures("many_blocks")


def test_parquet_float16_probabilities_and_tables_of_labels(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    import torch

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
    done = calibrate(shards, tmp_path / "out", engine="memory", input_type="probabilities")
    found = parquet.read_table(tmp_path / "out" / "probabilities")
    found = np.stack([found[f"p_{k}"].to_numpy() for k in range(CLASSES)], axis=1)
    np.testing.assert_allclose(found, probs, atol=1e-6)
    np.testing.assert_allclose(done.calibrator.temperatures_, expected.temperatures_, rtol=1e-6)


def test_a_masked_class_gets_nothing(shards: Path, tmp_path: Path, known: Known) -> None:
    wide = np.insert(known.logits, 2, -1e9, axis=1)
    for path in (shards / "logits").iterdir():
        path.unlink()
    np.save(shards / "logits" / "0.npy", np.asfortranarray(wide))
    np.save(shards / "labels.npy", known.y + (known.y >= 2))
    found = probabilities(calibrate(shards, tmp_path / "out", engine="memory"))
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
    pytest.importorskip("pyarrow")
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
    with pytest.raises((ValueError, FileFormatError, FileNotFoundError), match=words):
        calibrate(shards, tmp_path / "out", engine="disk")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_probabilities_that_are_called_logits_are_refused(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    for path in (shards / "logits").iterdir():
        path.unlink()
    np.save(shards / "logits" / "0.npy", known.probs)
    with pytest.raises(ValueError, match=r'say input_type="probabilities"'):
        calibrate(shards, tmp_path / "out", engine="memory")
    np.save(shards / "logits" / "0.npy", known.logits)
    with pytest.raises(ValueError, match=r"0\.npy, row 0: these are no probabilities"):
        calibrate(shards, tmp_path / "out", engine="memory", input_type="probabilities")
