"""Wrong invocations: an exit code, one line that names the problem and the remedy, no file."""

import numpy as np
import pytest

from simi_mailbox import calibrators
from tests.cli.conftest import refused

N = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files, good and bad, made once: nothing changes them."""
    path = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 3)) * 3
    y = z.argmax(1)
    y[::5] = rng.integers(0, 3, len(y[::5]))
    text = {
        "logits.csv": "id,a,b,c\n"
        + "".join(f"n{i},{','.join(map(str, z[i]))}\n" for i in range(N)),
        "labels.csv": "id,label\n" + "".join(f"n{i},{'abc'[y[i]]}\n" for i in range(N)),
        "edges.csv": "source,target\n" + "".join(f"n{i},n{i + 1}\n" for i in range(N - 1)),
        "val.csv": "id\n" + "".join(f"n{i}\n" for i in range(30)),
        "test.csv": "id\n" + "".join(f"n{i}\n" for i in range(20, N)),
        "some.csv": "id,label\nn1,a\nn2,b\n",
        "nan.csv": "id,a,b\nn1,0.5,nan\nn2,0.5,1.5\n",
        "other-classes.csv": "id,a,b,q\nn1,0.5,1.5,2.5\nn2,0.5,1.5,2.5\n",
        "two-classes.csv": "id,a,b\nn1,0.5,1.5\nn2,0.5,1.5\n",
        "broken.safetensors": "xxxxxxxxxxxxxxx",
        "from-one.csv": "id,label\n" + "".join(f"n{i},{y[i] + 1}\n" for i in range(N)),
    }
    for name, content in text.items():
        (path / name).write_text(content)
    (path / "latin.csv").write_bytes("id,a,b\nné,0.5,1.5\n".encode("latin-1"))
    np.save(path / "z.npy", z)
    np.save(path / "one-hot.npy", np.eye(3)[y])
    np.save(path / "matrix.npy", np.zeros((N, N)))
    (path / "folder").mkdir()
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    rows = [",".join([f"n{i}", *map(str, p[i])]) for i in range(N)]
    (path / "probs.csv").write_text("\n".join(["id,a,b,c", *rows]))
    (path / "written.csv").write_text("id,predicted,confidence,p_a,p_b\nn1,a,0.7,0.7,0.3\n")
    graph = np.stack([np.arange(N - 1), np.arange(1, N)])
    for name in ("temperature", "simi-mailbox"):
        calibrator = calibrators.get(name)().fit(z, y, graph=graph, mask=np.arange(30))
        calibrator.class_names_ = ["a", "b", "c"]
        calibrator.save(path / f"{name[0]}.safetensors")
    return path


@pytest.fixture
def folder(files, monkeypatch):
    monkeypatch.chdir(files)
    return files


GOOD = "--labels labels.csv --calibration val.csv --edges edges.csv"
CASES = [
    # what is typed, exit code, what the line must say
    ("calibrate logits.csv extra.csv", 2, "unexpected extra argument"),
    ("calibrate logits.csv --lables labels.csv", 2, "Did you mean"),
    ("calibrate nowhere.csv", 1, "there is no file nowhere.csv; check the name"),
    ("calibrate logit.csv", 1, "there is no file logit.csv; did you mean logits.csv?"),
    ("calibrate logits.csv --edges edge.csv", 1, "--edges: there is no file edge.csv; did you"),
    ("calibrate logits.csv --labels folder", 1, "folder is a folder; name a file"),
    ("calibrate logits.csv", 1, "labels are missing: give --labels FILE"),
    ("calibrate logits.csv --labels some.csv --calibration val.csv", 1, "(the first is n0): take"),
    ("calibrate logits.csv --labels labels.csv", 1, "say which to calibrate with, --calibration"),
    ("calibrate logits.csv --labels labels.csv --calibration val.csv", 1, "needs --edges FILE"),
    (f"calibrate logits.csv {GOOD} --method temprature", 2, "did you mean 'temperature'?"),
    (f"calibrate logits.csv {GOOD} --method dcgc", 1, "no file holds it, so use it from Python"),
    (f"calibrate logits.csv {GOOD} --method gets", 1, "gets needs --features FILE"),
    (f"calibrate logits.csv {GOOD} --set n_groups", 1, "write it as NAME=VALUE"),
    (f"calibrate logits.csv {GOOD} --set grups=3", 1, "grups"),
    (f"calibrate logits.csv {GOOD} --set n_groups=-3", 1, "n_groups"),
    (f"calibrate logits.csv {GOOD} --out probs.xlsx", 1, "'.xlsx' cannot be written; use one of"),
    (f"calibrate logits.csv {GOOD} --save cal.bin", 1, "a calibrator is a .safetensors file"),
    (f"calibrate logits.csv {GOOD} --memory 2GB", 2, "--memory is for folders of shards"),
    (f"calibrate logits.csv {GOOD} --input-type raw", 2, "'raw' is not one of 'logits'"),
    (f"calibrate logits.csv {GOOD} --id-column paper", 1, "no column 'paper' for --id-column"),
    ("evaluate nan.csv --input-type logits --labels some.csv", 1, "'n1' has logits that are NaN"),
    ("calibrate z.npy --labels labels.csv", 1, "the logits have no ids: give them a column 'id'"),
    ("calibrate z.npy --labels one-hot.npy", 1, "of one column per class take argmax(axis=1)"),
    (f"calibrate logits.csv {GOOD} --edges matrix.npy", 1, "got [60, 60]; transpose it, or save"),
    (f"calibrate logits.csv {GOOD} --labels from-one.csv", 1, "the logits, 0..2; count them from"),
    (f"compare logits.csv {GOOD} --train test.csv", 1, "is n20): a model looks better than it is"),
    (f"calibrate logits.csv {GOOD} --input-type probabilities", 1, "'n2' (and 57 more) has no"),
    (f"calibrate probs.csv {GOOD} --out p.csv", 1, "say --i"),
    (f"calibrate probs.csv {GOOD}", 1, "cannot write probs.csv: it is what LOGITS reads; name"),
    ("report logits.csv --methods magic", 2, "unknown method 'magic'"),
    (f"report logits.csv {GOOD} --train test.csv", 1, "in --train (the first is n20)"),
    ("report probs.csv --labels labels.csv", 1, "pass the logits, or say --input-type"),
    ("calibrate written.csv --labels labels.csv", 1, "say --input-type probabilities"),
    ("evaluate logits.csv --input-type logits", 1, "labels are missing: give --labels FILE"),
    ("fit logits.csv --labels some.csv --method temperature --out cal.pkl", 1, ".safetensors"),
    ("apply broken.safetensors logits.csv", 1, "broken.safetensors"),
    ("apply s.safetensors logits.csv", 1, "s.safetensors is a simi-mailbox, which needs --edges"),
    ("apply t.safetensors two-classes.csv", 1, "2 classes, but this calibrator was fitted on 3"),
    ("apply t.safetensors other-classes.csv", 1, "knows no class 'q'; it was fitted on: a, b, c"),
    (f"calibrate latin.csv {GOOD}", 1, "latin.csv: it is not UTF-8 text (byte 8 is 0xe9); say"),
    ("evaluate logits.csv --labels labels.csv", 1, "If these are logits"),
    ("evaluate logits.csv --input-type logits --labels labels.csv --bins 0", 1, "positive integer"),
    (
        "evaluate probs.csv --labels labels.csv --test test.csv --train val.csv",
        1,
        "10 nodes are both in --train and in --test (the first is n20)",
    ),
    (f"compare logits.csv {GOOD} --test test.csv", 1, "both in --calibration and in --test"),
    (f"compare logits.csv {GOOD} --methods ,", 2, "name at least one method"),
    (f"compare logits.csv {GOOD} --folds 1", 1, "folds is 1; expected at least 2"),
    (f"compare logits.csv {GOOD} --methods gats,gets", 1, "gets needs --features FILE"),
    (f"compare logits.csv {GOOD} --folds 20", 1, "30 calibration nodes are too few for 20 folds"),
    (f"compare logits.csv {GOOD} --by roc", 2, "'roc' is not one of"),
]


@pytest.mark.parametrize(("typed", "code", "told"), CASES, ids=[case[0] for case in CASES])
def test_a_mistake_is_one_line_with_a_remedy_and_leaves_nothing(folder, typed, code, told):
    refused(typed, told, folder, code)
