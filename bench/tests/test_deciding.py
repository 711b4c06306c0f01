"""Rows of decisions are what a user would measure, and their tables say whether guarantees held."""

import numpy as np
import pytest

from simi_mailbox import decide, metrics
from simi_mailbox.calibrators.simi_mailbox.prior import leave_out
from simi_mailbox_bench.backbones.cached_runs import RunKey, load_logits
from simi_mailbox_bench.calibration import probabilities
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables import Selection, get
from simi_mailbox_bench.tables import decide as deciding
from simi_mailbox_bench.tables.decide import (
    ACCEPT,
    SCORES,
    DecideTable,
    DecideUnit,
    Prepared,
    Question,
)

RUN = RunKey("Digits", "gcn", "sparse")
PLAIN = Method.of("uncalibrated")


@pytest.fixture(scope="module")
def source(cache):
    return load_logits(RUN)


@pytest.fixture(scope="module")
def rows(source):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "DRAWS", 3)
        unit = DecideUnit(RUN, tuple(Question(PLAIN, rule) for rule in (*SCORES, ACCEPT)))
        made = unit.execute(lambda key: False)
        return dict(zip((*SCORES, ACCEPT), made, strict=True))


@pytest.mark.parametrize("score", list(SCORES))
@pytest.mark.parametrize("prior", [None, leave_out("Digits")], ids=["plain", "corrected"])
def test_sets_are_those_of_the_rule(source, rows, score, prior):
    dataset, split = source.dataset, source.split
    probs = probabilities(RUN, PLAIN, source)
    given = {"graph": dataset.graph, "features": dataset.x}
    rule = decide.PredictionSets(score=score, prior=prior)
    rule.fit(probs, dataset.y, mask=split.val, **given)
    sets, y = rule.predict_sets(probs, **given)[split.test], dataset.y[split.test]
    kind = "plain" if prior is None else "corrected"
    found = rows[score]["metrics"]
    assert found[f"coverage_{kind}_90"] == pytest.approx(metrics.coverage(sets, y), rel=1e-4)
    assert found[f"size_{kind}_90"] == pytest.approx(metrics.mean_set_size(sets), rel=1e-4)
    assert found[f"worst_{kind}_90"] <= found[f"coverage_{kind}_90"]
    if kind == "corrected":
        rule = decide.PredictionSets(coverage=0.95, score=score, prior=prior, condition_on="degree")
        rule.fit(probs, dataset.y, mask=split.val, **given)
        sets = rule.predict_sets(probs, **given)[split.test]
        covered = metrics.coverage(sets, y)
        assert found["coverage_corrected_95_by_degree"] == pytest.approx(covered, rel=1e-4)


def test_a_method_that_tells_labels_is_also_measured_without_a_nodes_own(source, rows):
    dataset, split, ours = source.dataset, source.split, Method.of("simi-mailbox")
    prepared = Prepared(RUN, source)
    probs, parts = prepared.probabilities(ours), prepared.cross_fitted(ours)
    assert parts is not None
    assert sum(len(nodes) for nodes, _ in parts) == len(split.val)
    asked = [Question(ours, rule) for rule in ("daps", ACCEPT)]
    sets, accepted = (DecideUnit(RUN, ()).measure(item, prepared)["metrics"] for item in asked)
    rule = decide.PredictionSets(score="daps", prior=prepared.prior)
    given = {"mask": split.val, "cross_fitted": parts}
    rule.fit(probs, dataset.y, graph=dataset.graph, **given)
    made = rule.predict_sets(probs, graph=dataset.graph)[split.test]
    covered = metrics.coverage(made, dataset.y[split.test])
    assert sets["coverage_crossfit_90"] == pytest.approx(covered, rel=1e-4)
    gate = decide.Accept(prior=prepared.prior).fit(probs, dataset.y, **given)
    share = gate.accepts(probs)[split.test].mean()
    assert accepted["accepted_crossfit"] == pytest.approx(share, rel=1e-4)
    assert "coverage_crossfit_90" not in rows["daps"]["metrics"]


def test_acceptance_is_that_of_the_rule(source, rows):
    test, y = source.split.test, source.dataset.y
    probs = probabilities(RUN, PLAIN, source)
    found = rows[ACCEPT]["metrics"]
    assert found["aurc"] == pytest.approx(metrics.aurc(probs[test], y[test]), rel=1e-4)
    gate = decide.Accept(prior=None).fit(probs, y, mask=source.split.val)
    assert found["accepted_plain"] == pytest.approx(gate.accepts(probs)[test].mean(), rel=1e-4)


def test_unselected_nodes_are_test_nodes_and_judge_nothing(source):
    drawn = [s for s in Prepared(RUN, source).samples(PLAIN) if s[0] == "unselected"]
    assert len(drawn) == deciding.DRAWS
    for _, nodes, judged in drawn:
        assert len(nodes) == len(source.split.val)
        np.testing.assert_array_equal(np.union1d(nodes, judged), np.sort(source.split.test))
        assert not np.intersect1d(nodes, judged).size
    assert (drawn[0][1] != drawn[1][1]).any()


def test_the_table_shows_each_metric_of_the_rows(tmp_path):
    store = ResultStore(tmp_path / "rows.jsonl")
    runs = [RunKey("Cora", "gcn", "folds", split) for split in range(2)]
    unlike = {"lac": (0.88, 1.4), "aps": (0.90, 1.2)}
    for run in runs:
        for score, (covered, size) in unlike.items():
            for method, more in (("uncalibrated", 0.0), ("temperature", 0.1)):
                unit, item = DecideUnit(run, ()), Question(Method.of(method), score)
                grown = size + more + 0.01 * run.split * more
                found = {"coverage_corrected_90": covered, "size_unselected_90": grown}
                found |= {"worst_unselected_90": 0.85, "worst_unselected_90_by_degree": 0.9}
                assert store.append({"key": unit.key(item), "metrics": found})
    part = Selection(datasets=("Cora",), backbones=("gcn",), runs=2)
    coverage = get("decide").result(store, part)
    assert (coverage.name, coverage.target) == ("decide/coverage_corrected_90", 90.0)
    line = coverage.line("Cora", "gcn", "temperature/aps")
    assert line.summary.mean == pytest.approx(90.0)
    size = get("decide").with_metric("size_unselected_90").result(store, part)
    assert size.line("Cora", "gcn", "uncalibrated/lac").summary.mean == pytest.approx(1.4)

    worst = get("decide").with_metric("worst_unselected_90").result(store, part)
    shown = [f"uncalibrated/lac{way}" for way in ("", " by degree")]
    means = [worst.line("Cora", "gcn", name).summary.mean for name in shown]
    assert means == pytest.approx([85.0, 90.0])


def test_any_metric_makes_the_rows_of_all():
    table = get("decide").with_metric("aurc")
    assert isinstance(table, DecideTable)
    (unit,) = table.units(Selection(datasets=("Cora",), backbones=("gcn",), runs=1))
    assert {item.rule for item in unit.items} == {*SCORES, ACCEPT}
    (one,) = table.units(Selection(("Cora",), ("gcn",), ("gats/accept",), 1))
    assert [str(item) for item in one.items] == ["gats/accept"]
