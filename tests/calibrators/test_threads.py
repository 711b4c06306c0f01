"""Fits in four threads at once: the bits of one after the other, and no state of others changed."""

import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators
from simi_mailbox.testing import PROBLEM
from tests.calibrators.test_contract import case

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")
THREADS = 4
NAMES = calibrators.names()


def probabilities(name, seed):
    cal, inputs = case(name).make(), case(name).inputs(PROBLEM)
    if "seed" in cal.get_params():
        cal.set_params(seed=seed)
    cal.fit(PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **inputs)
    return cal.predict_proba(PROBLEM.logits, **inputs)


def states():
    return (
        torch.get_rng_state().tolist(),
        repr(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
        list(warnings.filters),
    )


def test_concurrent_fits_give_the_bits_of_serial_ones():
    """Several of each method, with equal and other seeds, and different methods at once."""
    jobs = [(name, seed) for name in NAMES for seed in (0, 1, 0, 1)]
    serial = {job: probabilities(*job) for job in dict.fromkeys(jobs)}
    before = states()
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda job: probabilities(*job), jobs))
    assert states() == before
    assert [job for job, p in zip(jobs, found, strict=True) if not (p == serial[job]).all()] == []
