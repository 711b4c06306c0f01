"""The tables here: what a unit does, that work is resumed, and what a line says."""

import pytest

from simi_mailbox import metrics
from simi_mailbox_bench import ood as detection
from simi_mailbox_bench import paper_tables, runner
from simi_mailbox_bench.backbones.gpn import GPNSettings
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables import Selection, get, gpn, ood, selftraining

ST_COLUMNS = (selftraining.PLAIN, "uncalibrated", "temperature", "simi-mailbox")
SHORT_GPN = GPNSettings(latent_dim=4, max_epochs=15)


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "rows.jsonl")


@pytest.fixture
def quick(monkeypatch, toy_cora):
    monkeypatch.setattr(selftraining, "RATES", (20,))
    monkeypatch.setattr(selftraining, "backbone_settings", lambda *_: Settings(hidden=8, epochs=30))
    monkeypatch.setattr(gpn, "settings_of", lambda run: SHORT_GPN)
    monkeypatch.setattr(ood, "CLASSIFIER", detection.ClassifierSettings(epochs=30))
    monkeypatch.setattr(ood, "GPN", SHORT_GPN)


def do(table, selection, store):
    report = runner.run(runner.plan(table.units(selection), store), store)
    assert not report.failures, report.failures
    return report


def no_training(*_, **__):
    raise AssertionError("trained again")


@pytest.mark.usefixtures("quick")
def test_self_training_rows_and_lines(store):
    table = get("self-training-gcn")
    selection = Selection(datasets=("Cora",), methods=ST_COLUMNS, runs=2)
    assert do(table, selection, store).written == 8

    rows = {(row["method"], row["init"]): row for row in store.rows()}
    for seed in (0, 1):
        plain = rows["plain", seed]["metrics"]["accuracy"]
        for method in ("uncalibrated", "temperature", "simi-mailbox"):
            stages = rows[method, seed]["stage_records"]
            assert stages[0]["test_accuracy"] == plain  # every method starts from the plain GNN
            assert stages[0]["labels"] == 40
            assert all(0 <= stage["right"] <= stage["added"] for stage in stages)

    result = table.result(store, selection)
    assert [line.method for line in result.lines] == list(ST_COLUMNS)
    plain_line = result.line("Cora 20", "gcn", selftraining.PLAIN)
    assert plain_line.printed == paper_tables.Printed(81.46, 0.29)
    expected = 50 * sum(rows["plain", seed]["metrics"]["accuracy"] for seed in (0, 1))
    assert plain_line.summary.mean == pytest.approx(expected)
    remark = next(text for text in result.remarks if text.startswith("Cora 20, simi-mailbox"))
    assert remark.startswith(f"Cora 20, simi-mailbox, 2 seeds: {expected:.2f} → +")
    line = result.line("Cora 20", "gcn", "simi-mailbox")
    assert remark.endswith(f" → {line.summary.mean:.2f}.")


def test_a_seed_that_stopped_early_counts_with_its_last_accuracy():
    def stage(accuracy, added=0, right=0):
        return {"test_accuracy": accuracy, "added": added, "right": right}

    stopped = [stage(0.70)]
    went_on = [stage(0.72, 10, 9), stage(0.76, 20, 15), stage(0.80)]
    assert selftraining._stages([stopped, went_on]) == (
        "71.00 → +5 nodes (90.0 % right) → 73.00 → +10 nodes (75.0 % right) → 75.00."
    )


@pytest.mark.usefixtures("quick")
def test_self_training_resumes_without_training_shared_stages_again(store, monkeypatch):
    table = get("self-training-gcn")
    first = Selection(datasets=("Cora",), methods=("temperature",), runs=1)
    do(table, first, store)
    assert runner.plan(table.units(first), store).rows == 0
    monkeypatch.setattr(selftraining, "train", no_training)
    both = Selection(datasets=("Cora",), methods=(selftraining.PLAIN, "temperature"), runs=1)
    assert do(table, both, store).written == 1  # the plain GNN is the other's kept first stage


@pytest.mark.usefixtures("quick")
def test_gpn_rows_are_those_of_its_log_probabilities(store, monkeypatch):
    table = get("gpn")
    selection = Selection(datasets=("Cora",), methods=("uncalibrated", "temperature"), runs=2)
    planned = runner.plan(table.units(selection), store)
    assert not any(unit.ready() for unit in planned.units)
    assert do(table, selection, store).written == 4
    source = gpn.load_gpn(table.units(selection)[0].run)
    probs = source.logits.exp().numpy()[source.split.test]
    expected = metrics.ece(probs, source.dataset.y[source.split.test])
    row = next(r for r in store.rows() if r["method"] == "uncalibrated" and r["split"] == 0)
    assert row["metrics"]["ece"] == pytest.approx(expected, abs=1e-6)

    monkeypatch.setattr(gpn, "train_gpn", no_training)
    more = Selection(datasets=("Cora",), methods=("simi-mailbox",), runs=2)
    assert all(unit.ready() for unit in runner.plan(table.units(more), store).units)
    assert do(table, more, store).written == 2
    line = table.result(store, selection).line("Cora", "gpn", "uncalibrated")
    assert line.printed == paper_tables.Printed(5.93, 2.38)


@pytest.mark.usefixtures("quick")
def test_detection_rows_lines_and_the_other_metrics(store):
    table = get("ood")
    selection = Selection(datasets=("Cora",), runs=1)
    assert do(table, selection, store).written == 3 * len(ood.SCORES)
    result = table.result(store, selection)
    graphs = [line.dataset for line in result.lines[:: len(ood.SCORES)]]
    assert graphs == ["Cora feature", "Cora structure", "Cora label"]
    safe = result.line("Cora feature", "gcn", "gnnsafe")
    assert safe.printed == paper_tables.Printed(93.44, None)
    assert safe.summary.mean > 50
    for name, metric in (("ood-aupr", "aupr"), ("ood-fpr95", "fpr95")):
        other = get(name)
        assert runner.plan(other.units(selection), store).rows == 0  # nothing is done again
        line = other.result(store, selection).line("Cora label", "gcn", "energy")
        row = next(r for r in store.rows() if r["kind"] == "label" and r["method"] == "energy")
        assert line.summary.mean == pytest.approx(100 * row["metrics"][metric])


def test_problems_perturb_one_thing_only(toy_cora):
    feature, structure, label = (ood.problem("Cora", kind) for kind in ood.KINDS)
    assert feature.ood_graph is feature.graph
    assert (feature.ood_x != feature.x).nnz > 0
    assert structure.ood_x is structure.x
    assert structure.ood_graph != structure.graph
    assert label.num_classes == 1 or set(label.y[label.split.train]) == {*range(label.num_classes)}
    assert set(toy_cora.y[label.ood_nodes]) == {0, 1, 2}
