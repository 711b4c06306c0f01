"""`simi-mailbox bench figure`: the figures of the paper."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is an optional extra")
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench import methods
from simi_mailbox_bench.commands import figure as module
from simi_mailbox_bench.commands.figure import FIGURES, SHOWS
from simi_mailbox_bench.datasets import Split


@pytest.fixture(scope="module")
def source():
    problem = calibration_problem(600, 3, temperature=2.0, seed=1)
    dataset = SimpleNamespace(
        graph=problem.graph, y=np.asarray(problem.y), x=None, labelled=np.ones(600, dtype=bool)
    )
    split = Split(np.arange(100), np.arange(100, 250), np.arange(250, 600))
    return SimpleNamespace(
        dataset=dataset,
        split=split,
        logits=np.asarray(problem.logits),
        seconds=0.0,
        features=lambda kind: None,
    )


@pytest.fixture
def cached(monkeypatch, source):
    """A bank that holds the runs of Cora and of nothing else."""
    monkeypatch.setattr("simi_mailbox_bench.backbones.cached_runs.load_logits", lambda run: source)
    monkeypatch.setattr(
        "simi_mailbox_bench.backbones.cached_runs.RunCache.__contains__",
        lambda bank, run: run.dataset == "Cora" and run.split < 2,
    )
    monkeypatch.setattr("simi_mailbox_bench.backbones.cached_runs.missing", lambda names: {})


def run(*arguments):
    return CliRunner().invoke(cli, ["bench", "figure", *arguments])


@pytest.mark.filterwarnings("error")  # matplotlib only warns when a layout does not work out
@pytest.mark.parametrize("name", ["observation", "qualitative", "reliability"])
@pytest.mark.parametrize("suffix", ["pdf", "png"])
def test_figures_are_written_from_banked_logits(tmp_path, cached, name, suffix):
    out = tmp_path / f"x.{suffix}"
    options = ("--methods", "uncalibrated,simi-mailbox", "--cached-only", "--runs", "3")
    result = run(name, "--dataset", "Cora", *options, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "1 of 3 runs are not cached" in result.output
    start = out.read_bytes()[:4]
    assert start == (b"%PDF" if suffix == "pdf" else b"\x89PNG")


def test_what_is_drawn_is_what_the_tables_measure(monkeypatch, cached, source, tmp_path):
    drawn = []
    real = module.draw

    def keep(columns, *options):
        drawn.extend(columns)
        return real(columns, *options)

    monkeypatch.setattr(module, "draw", keep)
    out = str(tmp_path / "x.png")
    run("reliability", "--dataset", "Cora", "--methods", "temperature", "--runs", "2", "--out", out)
    from simi_mailbox import metrics
    from simi_mailbox.calibrators import TemperatureScaling

    cal = TemperatureScaling().fit(source.logits, source.dataset.y, mask=source.split.val)
    test = source.split.test
    probs = cal.predict_proba(source.logits)[test]
    expected = metrics.reliability(probs, source.dataset.y[test])
    assert drawn[0][1].counts.tolist() == (2 * expected.counts).tolist()
    assert drawn[0][1].ece == pytest.approx(expected.ece, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("observation", "--out", "x.gif"), "must end in .pdf"),
        (("observation", "--out", "taken/x.pdf"), "cannot write into taken"),
        (("observation", "--dataset", "Citeseer", "--cached-only"), "no logits of Citeseer"),
        (("observation", "--dataset", "Cora", "--methods", "magic"), "unknown method 'magic'"),
    ],
)
def test_what_cannot_be_drawn_is_told(cached, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file where a folder should be")
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


def test_figures_say_what_they_show_and_their_methods_are_known():
    assert list(SHOWS) == list(FIGURES)
    for _, chosen in FIGURES.values():
        assert set(chosen) <= set(methods.names())
