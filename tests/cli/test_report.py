"""`simi-mailbox report`: good files make a report, bad ones a sentence and no file."""

import pickle

import numpy as np
import pytest

pytest.importorskip("click", reason="click is an optional extra")
from click.testing import CliRunner

from simi_mailbox.cli.report import report


@pytest.fixture
def folder(tmp_path, model):
    np.save(tmp_path / "logits.npy", model.logits)
    np.save(tmp_path / "edges.npy", model.graph.edge_index().numpy())
    np.save(tmp_path / "y.npy", model.y)
    np.save(tmp_path / "val.npy", model.calibration)
    np.save(tmp_path / "test.npy", np.isin(np.arange(900), model.test))
    (tmp_path / "names.txt").write_text("a\nb\n<i>c</i>\nd\n", "utf-8")
    np.savez(
        tmp_path / "bundle.npz",
        logits=model.logits,
        edge_index=model.graph.edge_index().numpy(),
        y=model.y,
        val=model.calibration,
        test=model.test,
        class_names=np.array(["a", "b", "<i>c</i>", "d"]),
    )
    return tmp_path


def run(folder, *arguments):
    paths = [str(folder / a) if a.endswith((".npy", ".npz", ".txt")) else a for a in arguments]
    return CliRunner().invoke(report, [*paths, "--out", str(folder / "out.html")])


def test_files_and_bundle_make_the_same_report(folder):
    options = ("--edges", "edges.npy", "--labels", "y.npy", "--calibration", "val.npy")
    options += ("--test", "test.npy", "--classes", "names.txt", "--title", "T & T")
    options += ("--methods", "temperature")
    single = run(folder, "logits.npy", *options)
    assert single.exit_code == 0, single.output
    assert "wrote" in single.output
    first = (folder / "out.html").read_text("utf-8")
    assert "T &amp; T" in first
    assert "&lt;i&gt;c&lt;/i&gt;" in first
    bundle = run(folder, "bundle.npz", "--title", "T & T", "--methods", "temperature")
    assert bundle.exit_code == 0, bundle.output
    cut = first.index("fitted in")
    assert (folder / "out.html").read_text("utf-8")[:cut] == first[:cut]


def test_logits_alone_make_a_report_named_after_the_file(folder):
    result = run(folder, "logits.npy")
    assert result.exit_code == 0, result.output
    assert "<title>logits</title>" in (folder / "out.html").read_text("utf-8")


class Bomb:
    """What a pickle could do: run code when it is read."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def bad_files(folder):
    (folder / "text.npy").write_text("1,2,3")
    (folder / "empty.npy").write_bytes(b"")
    (folder / "pickle.npy").write_bytes(pickle.dumps(Bomb()))
    np.save(folder / "objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    np.savez(folder / "objects.npz", logits=np.array([Bomb()], dtype=object))
    np.savez(folder / "nothing.npz", other=np.zeros(3), more=np.zeros(2))
    np.savez(folder / "both.npz", logits=np.zeros((3, 2)), y=np.zeros(3), labels=np.zeros(3))
    whole = (folder / "bundle.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "cut.npy").write_bytes((folder / "logits.npy").read_bytes()[:200])
    np.save(folder / "flat.npy", np.zeros(900))
    np.save(folder / "short.npy", np.zeros(7, dtype=int))
    np.save(folder / "floats.npy", np.array([0.5, 1.5]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent.npy",), "there is no file"),
        (("text.npy",), "not a NumPy file"),
        (("empty.npy",), "is empty"),
        (("pickle.npy",), "is a pickle"),
        (("objects.npy",), "holds Python objects"),
        (("objects.npz",), "holds Python objects"),
        (("nothing.npz",), "no array 'logits'; it has: other, more"),
        (("both.npz",), "holds both 'labels' and 'y'"),
        (("cut.npz",), "is damaged"),
        (("cut.npy",), "is damaged"),
        (("flat.npy",), "must have shape [nodes, classes]"),
        (("logits.npy", "--labels", "short.npy"), "expected one per node, [900]"),
        (("logits.npy", "--labels", "absent.npy"), "there is no file"),
        (("logits.npy", "--edges", "y.npy"), "an edge index has shape [2, E]"),
        (("logits.npy", "--edges", "nothing.npz"), "no array 'edges'"),
        (("logits.npy", "--test", "floats.npy"), "test must be boolean or integer"),
        (("bundle.npz", "--calibration", "test.npy"), "both in --calibration and in --test"),
        (("logits.npy", "--classes", "absent.txt"), "absent.txt"),
    ],
)
def test_bad_files_are_told_in_a_sentence_and_nothing_is_written(folder, arguments, message):
    bad_files(folder)
    before = sorted(folder.iterdir())
    result = run(folder, *arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert sorted(folder.iterdir()) == before


def test_targets_are_checked_before_the_work(folder):
    targets = (
        (folder, "it is a folder; name a file in it"),
        (folder / "y.npy" / "r.html", "cannot write into"),
    )
    for target, message in targets:
        result = CliRunner().invoke(report, [str(folder / "logits.npy"), "--out", str(target)])
        assert result.exit_code == 1
        assert message in result.output


def test_folders_that_are_missing_are_made(folder):
    target = folder / "new" / "folder" / "r.html"
    command = [str(folder / "logits.npy"), "--methods", "temperature", "--out", str(target)]
    assert CliRunner().invoke(report, command).exit_code == 0
    assert target.is_file()
