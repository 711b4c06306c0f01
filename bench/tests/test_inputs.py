"""What a row of a table was made from."""

from types import SimpleNamespace

import numpy as np
import pytest

from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.calibration import inputs_of
from simi_mailbox_bench.methods import HIDDEN, Method

RUN = RunKey("Cora", "gcn")


def given(name, hidden):
    split = SimpleNamespace(train=np.arange(3), val=np.arange(3, 6))
    source = SimpleNamespace(dataset=SimpleNamespace(graph="graph"), split=split, hidden=hidden)
    return inputs_of(name, Method.of(name).build(RUN), source)


@pytest.mark.parametrize("name", ["simi-mailbox", "simi-mailbox-free"])
def test_the_default_is_measured_with_the_inputs_of_the_readme(name):
    assert given(name, "hidden") == {"graph": "graph"}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_row_with_hidden_has_it_or_is_not_made(name):
    assert given(name, "hidden") == {"graph": "graph", "hidden": "hidden"}
    with pytest.raises(ValueError, match="needs a hidden layer"):
        given(name, None)
