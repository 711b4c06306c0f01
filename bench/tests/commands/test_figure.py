"""`simi-mailbox bench figure`: the figures of the paper."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is an optional extra")
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench import figures, methods
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
    result = run(name, "--datasets", "Cora", *options, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "1 of 3 runs are not cached" in result.output
    start = out.read_bytes()[:4]
    assert start == (b"%PDF" if suffix == "pdf" else b"\x89PNG")


def test_what_is_drawn_is_what_the_tables_measure(monkeypatch, cached, source, tmp_path):
    drawn = []
    real = figures.observation_figure

    def keep(columns, **options):
        drawn.extend(columns)
        return real(columns, **options)

    monkeypatch.setattr(figures, "observation_figure", keep)
    out = str(tmp_path / "x.png")
    run(
        "reliability", "--datasets", "Cora", "--methods", "temperature", "--runs", "2", "--out", out
    )
    from simi_mailbox import metrics
    from simi_mailbox.calibrators import TemperatureScaling

    cal = TemperatureScaling().fit(source.logits, source.dataset.y, mask=source.split.val)
    test = source.split.test
    probs = cal.predict_proba(source.logits)[test]
    expected = metrics.reliability(probs, source.dataset.y[test])
    assert drawn[0].curve.counts.tolist() == (2 * expected.counts).tolist()
    assert drawn[0].curve.ece == pytest.approx(expected.ece, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("observation", "--out", "x.gif"), "must end in .pdf"),
        (("observation", "--out", "taken/x.pdf"), "cannot write into taken"),
        (("observation", "--datasets", "Cora,Citeseer"), "draws one graph"),
        (("observation", "--datasets", "Citeseer", "--cached-only"), "no logits of Citeseer"),
        (("observation", "--datasets", "Cora", "--methods", "magic"), "unknown method 'magic'"),
    ],
)
def test_what_cannot_be_drawn_is_told(cached, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file where a folder should be")
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


def test_a_missing_graph_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    advice = {"Cora": "put Cora.npz here"}
    monkeypatch.setattr("simi_mailbox_bench.backbones.cached_runs.missing", lambda names: advice)
    result = run("observation", "--datasets", "Cora")
    assert result.exit_code == 1
    assert "Cora is missing: put Cora.npz here" in result.output


def test_sensitivity_without_results_names_the_command_that_makes_them(tmp_path):
    store, out = str(tmp_path / "rows.jsonl"), str(tmp_path / "x.pdf")
    result = run("sensitivity", "--datasets", "Cora", "--store", store, "--out", out)
    assert result.exit_code == 1
    assert "simi-mailbox bench sensitivity --datasets Cora --backbones gcn" in result.output


def test_sensitivity_draws_the_stored_means(tmp_path, monkeypatch):
    from simi_mailbox_bench.store import ResultStore
    from simi_mailbox_bench.tables import Selection, get

    store = ResultStore(tmp_path / "rows.jsonl")
    units = get("sensitivity").units(Selection(("Cora",), ("gcn",), runs=2))
    for number, unit in enumerate(units):
        for method in unit.items:
            chosen = dict(method.overrides)
            error = 0.01 * chosen.get("n_groups", 1) + 0.001 * chosen.get("penalty", 0)
            row = {"key": unit.key(method), "metrics": {"ece": error + 0.001 * number}}
            store.append(row)
    out = tmp_path / "x.png"
    drawn = {}
    real = figures.sensitivity_figure

    def keep(panels, **options):
        drawn.update(panels)
        return real(panels, **options)

    monkeypatch.setattr(figures, "sensitivity_figure", keep)
    result = run("sensitivity", "--datasets", "Cora", "--store", str(store.path), "--out", str(out))
    assert result.exit_code == 0, result.output
    assert out.exists()
    paper, oracle = drawn["Cora"]
    assert paper.name == "simi-mailbox-paper exact"
    assert oracle.name == "simi-mailbox-oracle exact (reads test labels)"
    groups, weights = np.array([5, 10, 15, 20, 25, 30]), np.array([1, 5, 10, 20, 30, 40, 50])
    assert (list(paper.groups), list(paper.weights)) == (groups.tolist(), weights.tolist())
    np.testing.assert_allclose(paper.mean, groups[:, None] + 0.1 * weights + 0.05)
    assert (paper.runs, paper.reference) == (2, pytest.approx(1.05))


def test_every_figure_says_what_it_shows():
    assert list(SHOWS) == list(FIGURES)


def test_methods_of_the_figures_are_known():
    known = set(methods.names())
    for _, chosen in FIGURES.values():
        assert set(chosen) <= known
