"""What is learned from past runs, against known answers."""

from __future__ import annotations

import numpy as np
import pytest

from simi_mailbox.experiments.prior.learning import gather, residuals_of
from simi_mailbox.prior import Corpus
from simi_mailbox.prior.model import NUMBERS, OPTIONAL
from tests.experiments.prior.conftest import past_run


def test_known_numbers_are_recovered_from_graphs():
    runs = [past_run(seed, blind=0.1, inverse_degree=-4.0, name=str(seed)) for seed in range(6)]
    blind = Corpus(tuple(gather(runs))).prior()
    none = Corpus(tuple(gather(past_run(seed, name=str(seed)) for seed in range(6)))).prior()
    assert blind.inverse_degree < none.inverse_degree - 1
    assert abs(none.log_degree) < 0.2
    assert blind.blind > none.blind + 1


def test_runs_of_one_setting_are_averaged():
    one, two = past_run(0), past_run(1)
    (both,) = gather([one, two])
    parts = [next(iter(gather([run]))) for run in (one, two)]
    assert both.runs == 2
    for name in (*NUMBERS, *OPTIONAL):
        expected = np.mean([getattr(part, name) for part in parts])
        assert getattr(both, name) == pytest.approx(expected)


def test_luck_is_weighted_least_squares():
    seen = residuals_of(past_run(0))
    right, weight = seen.luck()
    c = seen.confidence
    root = 1 / np.sqrt(c * (1 - c) + 0.005)
    term = seen.error * c / 300
    slope = np.linalg.lstsq((term * root)[:, None], seen.residual * root, rcond=None)[0][0]
    assert right / weight == pytest.approx(slope)


def test_labels_that_could_not_be_wrong_are_counted():
    lucky, found = 60, []
    for seed in range(12):
        run = past_run(seed, name=str(seed))
        y = np.array(run.y)
        chosen = np.random.default_rng(seed).choice(300, lucky, replace=False)
        y[chosen] = np.asarray(run.logits).argmax(axis=1)[chosen]  # these are right by luck
        found.append(type(run)(**{**vars(run), "y": y}))
    plain = Corpus(tuple(gather(past_run(seed, name=str(seed)) for seed in range(12)))).prior()
    assert Corpus(tuple(gather(found))).prior().lucky_labels == pytest.approx(lucky, abs=15)
    assert plain.lucky_labels < 15


def test_training_and_unlabelled_nodes_are_not_looked_at():
    run = past_run(0)
    train = np.arange(1000, 1500)
    y = run.y.copy()
    y[train] = (y[train] + 1) % 4
    y[2000:2500] = -1
    base = {**vars(run), "train": train}
    known = type(run)(**{**base, "y": np.where(np.arange(3000) // 500 == 4, -1, run.y)})
    spoilt = type(run)(**{**base, "y": y})
    found = [next(iter(gather([r]))) for r in (known, spoilt)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(10)}, "labels of all 3000 nodes"),
        ({"train": np.arange(300, 3000)}, "no labelled node is left"),
    ],
)
def test_past_runs_that_teach_nothing_are_refused(change, message):
    run = past_run(0)
    with pytest.raises(ValueError, match=message):
        list(gather([type(run)(**{**vars(run), **change})]))
