import json

import numpy as np
import pytest

from simi_mailbox import SimiMailbox
from simi_mailbox.calibrators import TemperatureScaling
from simi_mailbox.monitor import Monitor
from simi_mailbox.synthetic import calibration_problem


def problem(seed=0, n=900):
    return calibration_problem(n, 3, temperature=1.5, seed=seed)


def monitor(p, labelled=300, **more):
    cal = SimiMailbox(n_groups=5)
    return Monitor(cal.fit(p.logits, p.y, graph=p.graph, mask=range(labelled), **more))


def test_nodes_like_the_calibration_nodes_are_ok_and_their_accuracy_is_estimated():
    p = problem()
    found = monitor(p).check(p.logits, graph=p.graph)
    assert (found.verdict, found.nodes, found.labels, found.z) == ("ok", 600, 0, None)
    low, high = found.interval
    accuracy = (p.logits.argmax(axis=1) == p.y)[300:].mean()
    assert low <= accuracy <= high
    assert abs(found.accuracy - accuracy) < 0.05
    assert not found.drifted
    assert found.outside < 0.1
    assert len(found.to_label) == 0
    plain = json.loads(json.dumps(found.to_dict()))
    assert (plain["verdict"], plain["interval"]) == ("ok", [low, high])
    assert set(plain["drift"]) == {"confidence", "similarity", "degree", "groups"}
    assert str(found).startswith("ok: ")
    assert str(found).count("\n") == 5


def test_drift_is_found_and_named():
    p = problem()
    flat = np.where(np.arange(900)[:, None] < 600, p.logits, 0.2 * p.logits)
    given = {"graph": p.graph, "nodes": range(600, 900), "node_ids": np.arange(900)}
    found = monitor(p, node_ids=np.arange(900)).check(flat, **given)
    assert found.drift["confidence"]["p"] <= 0.01
    assert found.verdict == "unknown"
    assert "drifted far" in found.sentence
    assert f"label {len(found.to_label)} nodes" in found.sentence
    assert set(found.to_label) <= set(range(600, 900))


def test_features_that_contradict_confidence_are_believed():
    p = problem()
    boosted = np.where(np.arange(900)[:, None] < 600, p.logits, 4 * p.logits[::-1])
    by_features = np.eye(3)[p.logits.argmax(axis=1)]  # agrees inside, and only by chance outside
    ids = np.arange(900)
    given = {"graph": p.graph, "nodes": range(600, 900), "node_ids": ids}
    found = monitor(p, node_ids=ids).check(boosted, feature_probs=by_features, **given)
    assert found.verdict == "do not trust"
    assert found.how == "A and D"
    assert "features" in found.sentence
    assert found.confidence - found.accuracy > 0.2
    fine = monitor(p).check(p.logits, graph=p.graph, features=p.logits)
    assert (fine.how, fine.verdict) == ("A and D", "ok")


def test_another_graph_is_unknown_until_labels_tell_more():
    p, other = problem(), problem(1, 700)
    watch = monitor(p)
    found = watch.check(other.logits, graph=other.graph)
    assert (found.verdict, found.accuracy, found.interval) == ("unknown", None, None)
    assert found.advice == "label"
    nodes = found.to_label
    right = watch.check(other.logits, graph=other.graph, known=(nodes, other.y[nodes]))
    assert right.verdict in ("ok", "watch")
    assert right.labels == len(nodes)
    assert right.how == "labels"
    wrong = watch.check(other.logits, graph=other.graph, known=(nodes, (other.y[nodes] + 1) % 3))
    assert wrong.verdict == "do not trust"
    assert wrong.z < -1.96
    assert wrong.advice in ("update", "refit")


def test_underconfidence_is_no_reason_for_distrust():
    p = problem()
    nodes = np.arange(300, 500)
    found = monitor(p).check(p.logits, graph=p.graph, known=(nodes, p.logits.argmax(axis=1)[nodes]))
    assert (found.verdict, found.advice) == ("watch", "update")
    assert "underconfidence" in found.sentence


def test_false_alarms_have_their_rate():
    alarms = 0
    for seed in range(40):
        p = problem(seed, 400)
        alarms += monitor(p, 150).check(p.logits, graph=p.graph).drifted
    assert alarms <= 6  # 5 % of 40 are 2; seven or more have a probability of .4 %


def test_the_calibrator_and_its_labels_stay_as_they_were():
    p = problem()
    watch = monitor(p)
    before = watch.calibrator.predict_proba(p.logits, graph=p.graph)
    watch.check(p.logits, graph=p.graph, known=([400], [0]))
    assert np.array_equal(before, watch.calibrator.predict_proba(p.logits, graph=p.graph))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"nodes": [900]}, ValueError, "nodes names node 900"),
        ({"feature_probs": np.zeros((900, 2))}, ValueError, r"feature_probs has shape \[900, 2\]"),
        ({"features": np.zeros((5, 2))}, ValueError, r"features has shape \[5, 2\]"),
        ({"known": [1]}, TypeError, "known must be a pair"),
    ],
)
def test_what_cannot_be_is_refused(given, error, message):
    p = problem()
    with pytest.raises(error, match=message):
        monitor(p).check(p.logits, graph=p.graph, **given)


def test_only_a_fitted_simi_mailbox_is_watched():
    with pytest.raises(TypeError, match="a Monitor watches a fitted SimiMailbox, got Temperature"):
        Monitor(TemperatureScaling())  # type: ignore[arg-type]
    with pytest.raises(Exception, match="not fitted"):
        Monitor(SimiMailbox())


def test_batches_of_a_stream_are_checks_or_probabilities_with_labels():
    p = problem()
    watch = monitor(p)
    probs = watch.calibrator.predict_proba(p.logits, graph=p.graph)
    stream = watch.update((probs[300:400], p.y[300:400]))
    known = (np.arange(400, 500), p.y[400:500])
    stream = watch.update(watch.check(p.logits, graph=p.graph, known=known))
    assert (stream.days, stream.labels, stream.alarm) == (2, 200, "")
    with pytest.raises(ValueError, match="a batch is a Check, or probabilities"):
        watch.update((probs[:5], p.y[:4]))
