from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from simi_mailbox.synthetic import calibration_problem


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Files of a graph whose first 300 nodes have labels, and a calibrator fitted on them."""
    monkeypatch.chdir(tmp_path)
    p = calibration_problem(900, 3, temperature=1.5, seed=0)
    rows = [f"n{i},{','.join(f'{v:.6f}' for v in row)}" for i, row in enumerate(p.logits)]
    Path("logits.csv").write_text("id,a,b,c\n" + "\n".join(rows) + "\n")
    edges = p.graph.edge_index().numpy().T
    lines = [f"n{i},n{j}" for i, j in edges if i < j]
    Path("edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    write("labels.csv", range(300), p.y)
    assert run("fit logits.csv --edges edges.csv --labels labels.csv --out cal.safetensors")[0] == 0
    return p


def write(path: str, nodes: Any, y: Any) -> None:
    Path(path).write_text("id,label\n" + "".join(f"n{i},{'abc'[y[i]]}\n" for i in nodes))


def run(line: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, line.split())
    return result.exit_code, result.output


def test_a_verdict_for_people_and_for_machines(files: Any) -> None:
    code, text = run("monitor cal.safetensors logits.csv --edges edges.csv")
    assert code == 0
    assert text.startswith("ok: the nodes look like the calibration nodes")
    code, text = run("monitor cal.safetensors logits.csv --edges edges.csv --json")
    found = json.loads(text)
    assert (code, found["verdict"], found["nodes"]) == (0, "ok", 600)
    assert set(found) >= {"accuracy", "interval", "drift", "to_label", "advice"}


def test_known_labels_and_a_stream_over_days(files: Any) -> None:
    write("known.csv", range(300, 420), (files.y + 1) % 3)
    line = "monitor cal.safetensors logits.csv --edges edges.csv --known known.csv --stream s.json"
    code, text = run(f"{line} --json")
    found = json.loads(text)
    assert (code, found["verdict"], found["labels"]) == (0, "do not trust", 120)
    assert found["stream"]["alarm"] == "overconfident"
    assert "stream: alarm on day 1" in run(line)[1]
    assert json.loads(Path("s.json").read_text())["days"] == 2
    Path("s.json").write_text("{}")
    code, text = run(line)
    assert code == 1
    assert "s.json is no stream that monitor has written" in text


def test_late_labels_are_added_to_a_saved_calibrator(files: Any) -> None:
    write("known.csv", range(300, 400), files.y)
    line = "update cal.safetensors logits.csv --edges edges.csv --known known.csv"
    code, text = run(f"{line} --out new.safetensors --json")
    found = json.loads(text)
    assert (code, found["late_labels"], found["labels_that_test_the_level"]) == (0, 100, 100)
    apply = "apply {} logits.csv --edges edges.csv --out {}"
    assert run(apply.format("new.safetensors", "with.csv"))[0] == 0
    given = " --known known.csv"
    assert run(apply.format("cal.safetensors", "known-only.csv") + given)[0] == 0
    one, other = (
        np.loadtxt(name, delimiter=",", skiprows=1, usecols=(1, 2, 3), dtype=str).shape
        for name in ("with.csv", "known-only.csv")
    )
    assert one == other


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("update cal.safetensors logits.csv --edges edges.csv", "give --known FILE"),
        ("monitor cal.safetensors logits.csv", "needs --edges FILE"),
        ("monitor ts.safetensors logits.csv", "a monitor needs a simi-mailbox"),
        ("update ts.safetensors logits.csv", "only a simi-mailbox is updated"),
    ],
)
def test_what_is_missing_is_named(files: Any, line: str, message: str) -> None:
    run("fit logits.csv --labels labels.csv --method temperature --out ts.safetensors")
    code, text = run(line)
    assert code == 1
    assert message in text
