"""How much groups differ beyond chance, against known answers."""

from __future__ import annotations

import numpy as np
import pytest

from simi_mailbox.prior.model import between_groups


def test_variance_between_groups_is_found_and_chance_is_not():
    rng = np.random.default_rng(0)
    count = np.full(400, 200.0)
    noise = rng.normal(size=400) * np.sqrt(0.16 * count)
    truth = 0.05 * rng.normal(size=400)
    found, _ = between_groups(noise + count * truth, 0.16 * count, count)
    none, error = between_groups(noise, 0.16 * count, count)
    assert found == pytest.approx(0.05**2, rel=0.15)
    assert abs(none) < 3 * error


def test_too_few_groups_say_nothing():
    assert between_groups(np.ones(2), np.ones(2), np.ones(2)) == (0.0, np.inf)
