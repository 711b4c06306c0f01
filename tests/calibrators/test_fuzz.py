"""Random unpleasant problems: no method crashes, changes a class it keeps, or gives no number."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simi_mailbox import calibrators

BENCH = Path(__file__).parents[2] / "bench" / "speed" / "bench_fuzz.py"
spec = importlib.util.spec_from_file_location("bench_fuzz", BENCH)
assert spec is not None
assert spec.loader is not None
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", calibrators.names())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6))
@example(seed=471388)  # huge logits: the Hessian of vector scaling is singular
def test_whatever_comes_in(name, seed):
    outcome = fuzz.check(name, fuzz.problem(np.random.default_rng(seed)))
    assert outcome == "fine" or outcome.startswith("refused: ")
