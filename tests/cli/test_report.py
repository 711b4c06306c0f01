"""`simi-mailbox report`: good files make a report, bad ones a sentence and no file."""

import pickle

import numpy as np
import pytest

from tests.cli.conftest import refused, run
from tests.test_files import Bomb

BUNDLE = "report bundle.npz --methods temperature"


@pytest.fixture(autouse=True)
def folder(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edges, names = model.graph.edge_index().numpy(), ["a", "b", "<i>c</i>", "d"]
    arrays = {"logits": model.logits, "edges": edges, "y": model.y, "val": model.calibration}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    np.save("test.npy", np.isin(np.arange(900), model.test))
    (tmp_path / "names.txt").write_text("\n".join(names), "utf-8")
    np.savez("bundle.npz", **arrays, test=model.test, class_names=np.array(names))
    return tmp_path


def test_files_and_bundle_make_the_same_report_in_a_folder_that_is_made(folder):
    files = "--edges edges.npy --labels y.npy --calibration val.npy --test test.npy"
    told = run(f"report logits.npy {files} --classes names.txt --methods temperature --title T&T")
    assert "wrote" in told.output
    first = (folder / "report.html").read_text("utf-8")
    assert "T&amp;T" in first
    assert "&lt;i&gt;c&lt;/i&gt;" in first
    run(f"{BUNDLE} --title T&T --out new/folder/r.html")
    cut = first.index("fitted in")
    assert (folder / "new/folder/r.html").read_text("utf-8")[:cut] == first[:cut]


def test_logits_alone_make_a_report_named_after_the_file(folder):
    run("report logits.npy")
    assert "<title>logits</title>" in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("absent.npy", "there is no file"),
        ("pickle.npy", "is a pickle"),
        ("logits.npy --labels absent.npy", "there is no file"),
        ("bundle.npz --calibration test.npy", "both in --calibration and in --test"),
        ("logits.npy --classes absent.txt", "absent.txt"),
        ("logits.npy --out .", "it is a folder; name a file in it"),
        ("logits.npy --out y.npy/r.html", "cannot write into"),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_nothing_is_written(folder, line, message):
    """What may be wrong in a file is tested in node_files."""
    (folder / "pickle.npy").write_bytes(pickle.dumps(Bomb()))
    refused(f"report {line}", message, folder)
