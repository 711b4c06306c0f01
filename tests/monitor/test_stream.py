import json

import numpy as np
import pytest
from scipy.stats import ks_2samp

from simi_mailbox.monitor import Stream
from simi_mailbox.monitor.drift import drift_tests


def days(rng: np.random.Generator, count: int, drop: float, labels: int = 20) -> Stream:
    stream = Stream()
    for _ in range(count):
        confidence = rng.uniform(0.6, 1.0, size=labels)
        stream.add(confidence, rng.random(labels) < confidence - drop, p=float(rng.random()))
    return stream


def test_streams_without_drift_hardly_ever_raise_an_alarm() -> None:
    rng = np.random.default_rng(0)
    alarms = sum(bool(days(rng, 100, 0.0).alarm) for _ in range(60))
    assert alarms <= 6  # at most 5 % of 60 are expected; long runs are in bench/speed


@pytest.mark.parametrize(("drop", "alarm"), [(0.15, "overconfident"), (-0.15, "underconfident")])
def test_a_gap_is_found_and_named(drop: float, alarm: str) -> None:
    stream = days(np.random.default_rng(1), 60, drop)
    assert stream.alarm == alarm
    assert stream.since * 20 < 600
    assert f"the probabilities are {alarm}" in stream.sentence


def test_drift_without_labels_is_held_against_a_rate_that_adds_up() -> None:
    stream = Stream()
    for _ in range(9):
        stream.add([], [], p=1e-4)
    assert stream.alarm == "drift"  # on the first day: 1 % · 6 / π² are allowed
    assert stream.since == 1
    late = Stream()
    for day in range(1, 200):
        late.add([], [], p=1.0 if day < 150 else 1e-6)
    assert late.alarm == ""
    assert late.add([], [], p=1e-9).alarm == "drift"


def test_a_stream_goes_on_from_what_it_wrote() -> None:
    rng = np.random.default_rng(2)
    one = days(rng, 5, 0.0)
    other = Stream.from_dict(json.loads(json.dumps(one.to_dict())))
    for stream in (one, other):
        stream.add([0.9] * 30, [False] * 30)
    assert one.alarm == other.alarm == "overconfident"
    assert np.allclose(one.wealth, other.wealth)


def test_distances_are_those_of_kolmogorov_and_smirnov() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 9, 200).astype(float), rng.integers(2, 11, 300).astype(float)
    found = drift_tests({"degree": first}, {"degree": second})["degree"]
    assert found["distance"] == pytest.approx(ks_2samp(first, second).statistic)
    shares = drift_tests({"groups": first}, {"groups": second})["groups"]["distance"]
    expected = np.abs(np.bincount(first.astype(int), minlength=11) / 200
                      - np.bincount(second.astype(int), minlength=11) / 300).sum() / 2  # fmt: skip
    assert shares == pytest.approx(expected)
