"""Fits in four threads at once: the bits of one after the other, and no state of others changed."""

import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators
from simi_mailbox.testing import PROBLEM
from tests.calibrators.test_contract import case

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")
THREADS = 4
NAMES = calibrators.names()


def probabilities(name: str, seed: int) -> Any:
    cal, inputs = case(name).make(), case(name).inputs(PROBLEM)
    if "seed" in cal.get_params():
        cal.set_params(seed=seed)
    cal.fit(PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **inputs)
    return cal.predict_proba(PROBLEM.logits, **inputs)


def states() -> tuple[Any, ...]:
    return (
        torch.get_rng_state().tolist(),
        repr(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
        list(warnings.filters),
    )


@pytest.mark.parametrize("name", NAMES)
def test_concurrent_fits_give_the_bits_of_serial_ones(name: str) -> None:
    seeds = [0, 1, 0, 1, 2, 0, 2, 1]
    serial = {seed: probabilities(name, seed) for seed in set(seeds)}
    before = states()
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda seed: probabilities(name, seed), seeds))
    assert states() == before
    for seed, probs in zip(seeds, found, strict=True):
        assert (probs == serial[seed]).all()


def test_different_methods_at_once_do_not_disturb_each_other() -> None:
    serial = {name: probabilities(name, 0) for name in NAMES}
    before = states()
    with ThreadPoolExecutor(THREADS) as pool:
        found = dict(zip(NAMES, pool.map(lambda name: probabilities(name, 0), NAMES), strict=True))
    assert states() == before
    assert [name for name in NAMES if not (found[name] == serial[name]).all()] == []
