"""The default method without one of its parts."""

import numpy as np
import pytest

from simi_mailbox import SimiMailbox
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench import tables
from simi_mailbox_bench.ablation import PARTS, TERMS, SimiMailboxAblated
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.tables import Selection

P = calibration_problem(600, 3, temperature=2.0, seed=1)
Y = np.where(np.random.default_rng(0).random(600) < 0.2, (P.y + 1) % 3, P.y)
"""With errors of confident nodes, so that the uniform mixture has something to do."""


def fitted(cls=SimiMailboxAblated, **parameters):
    cal = cls(**parameters)
    cal.fit(P.logits, Y, graph=P.graph, mask=range(200))
    return cal, cal.predict_proba(P.logits, graph=P.graph)


def test_without_nothing_it_is_the_default():
    np.testing.assert_array_equal(fitted()[1], fitted(SimiMailbox)[1])


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_left_out_and_nothing_else(part):
    cal, probs = fitted(without=part, keep_classes=False)
    whole, before = fitted(keep_classes=False)
    assert np.abs(probs - before).max() > 1e-5
    gone = {name for name, value in cal.coefficients_.items() if value == 0.0}
    assert gone == set(TERMS.get(part, ()))
    assert (cal.coefficients_["uniform"] < 1e-3) == (part == "uniform mixture")
    assert (cal.coefficients_["level"] == 1.0) == (part == "selection bias")
    if part == "intercepts":
        assert np.abs(cal.intercepts_).max() < 1e-3 < np.abs(whole.intercepts_).max()


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="without must be one of degree"):
        fitted(without="everything")


def test_every_part_has_a_row_in_both_modes():
    cells = tables.get("ablation").cells(Selection(datasets=("Cora",), backbones=("gcn",)))
    names = [cell.method for cell in cells]
    for part in (*PARTS, "groups"):
        assert {f"simi-mailbox − {part}", f"simi-mailbox-free − {part}"} <= set(names)
    assert len({key for cell in cells for key in cell.keys.values()}) == 15 * len(cells)


def test_the_hidden_layer_is_part_of_a_rows_identity():
    run = RunKey("Cora", "gcn")
    plain, hidden = (Method.of(n).identity(run) for n in ("simi-mailbox", "simi-mailbox+hidden"))
    assert plain["settings"] == hidden["settings"]
    assert (plain["method"], hidden["method"]) == ("simi-mailbox", "simi-mailbox+hidden")
