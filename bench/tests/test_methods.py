"""Methods of the bench alone: without a part, as released, of other packages."""

import sys

import numpy as np
import pytest

import simi_mailbox
from simi_mailbox import SimiMailbox, calibrators
from simi_mailbox.audit import reads_only
from simi_mailbox.metrics import nll
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench import methods, tables
from simi_mailbox_bench.ablation import PARTS, TERMS, SimiMailboxAblated
from simi_mailbox_bench.oracle import ORACLE, SimiMailboxOracle
from simi_mailbox_bench.rivals import RIVALS
from simi_mailbox_bench.tables import Selection

P = calibration_problem(1200, 3, temperature=2.0, seed=1)
Y = np.where(np.random.default_rng(0).random(1200) < 0.2, (P.y + 1) % 3, P.y)
"""With errors of confident nodes, so that the uniform mixture has something to do."""
MASK, REST = np.arange(200), np.arange(200, 1200)


def test_only_the_tables_find_them_and_mark_them():
    for name in (ORACLE, *RIVALS):
        assert name in methods.names()
        assert name not in calibrators.names()
        assert methods.NOTES[name] == ("reads test labels" if name == ORACLE else "probmetrics")
    with pytest.raises(ValueError, match="unknown calibrator"):
        calibrators.get(ORACLE)
    assert not hasattr(simi_mailbox, "SimiMailboxOracle")
    assert not hasattr(calibrators, "SimiMailboxOracle")


# --- the default method without one of its parts ------------------------------------------------


def ablated(cls=SimiMailboxAblated, **parameters):
    cal = cls(**parameters)
    cal.fit(P.logits, Y, graph=P.graph, mask=MASK)
    return cal, cal.predict_proba(P.logits, graph=P.graph)


def test_without_nothing_it_is_the_default():
    np.testing.assert_array_equal(ablated()[1], ablated(SimiMailbox)[1])


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_left_out_and_nothing_else(part):
    cal, probs = ablated(without=part, keep_classes=False)
    whole, before = ablated(keep_classes=False)
    assert np.abs(probs - before).max() > 1e-5
    gone = {name for name, value in cal.coefficients_.items() if value == 0.0}
    assert gone == set(TERMS.get(part, ()))
    assert (cal.coefficients_["uniform"] < 1e-3) == (part == "uniform mixture")
    assert (cal.coefficients_["level"] == 1.0) == (part == "selection bias")
    if part == "intercepts":
        assert np.abs(cal.intercepts_).max() < 1e-3 < np.abs(whole.intercepts_).max()


def test_every_part_has_a_row_in_both_modes():
    cells = tables.get("ablation").cells(Selection(datasets=("Cora",), backbones=("gcn",)))
    names = [cell.method for cell in cells]
    for part in (*PARTS, "groups"):
        assert {f"simi-mailbox − {part}", f"simi-mailbox-free − {part}"} <= set(names)
    assert len({key for cell in cells for key in cell.keys.values()}) == 15 * len(cells)


# --- the released method, which reads test labels -----------------------------------------------


def oracle(y, **settings):
    given = {"graph": P.graph, "mask": MASK, "early_stopping_mask": REST}
    unfitted = SimiMailboxOracle(n_groups=4, **settings)
    return unfitted.fit(P.logits, y, **given, train_mask=REST[:200])


def test_it_reads_labels_outside_the_mask():
    y = np.array(P.y)
    before = oracle(y).temperatures_
    y[REST] = np.random.default_rng(0).permutation(y[REST])
    assert np.abs(oracle(y).temperatures_ - before).max() > 0.1


def test_with_a_large_weight_every_group_is_as_confident_as_it_is_accurate():
    cal = oracle(P.y, penalty=1e6, solver="exact")
    probs = np.asarray(cal.predict_proba(P.logits, graph=P.graph))
    right = probs.argmax(axis=1) == P.y
    for group in range(4):
        members = cal.groups_ == group
        assert probs[members].max(axis=1).mean() == pytest.approx(right[members].mean(), abs=2e-3)


# --- methods of probmetrics: on the same labels as ours, nothing copied -------------------------


def test_where_the_package_is_absent_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "probmetrics.calibrators.factory", None)
    with pytest.raises(ModuleNotFoundError, match=r"simi-mailbox\[rivals\]"):
        methods.find("svs")().fit(P.logits, P.y, mask=MASK)


@pytest.mark.parametrize("name", RIVALS)
def test_they_give_what_the_package_gives(name, capsys):
    package = pytest.importorskip("probmetrics.calibrators", reason="the bench installs it")
    probs = methods.find("uncalibrated")().fit(P.logits, P.y, mask=MASK)
    before = probs.predict_proba(P.logits.astype(float))
    cal = methods.find(name)().fit(P.logits, P.y, mask=MASK)
    found = cal.predict_proba(P.logits)
    assert capsys.readouterr().out == ""
    theirs = package.get_calibrator(name).fit(before[MASK], P.y[MASK])
    np.testing.assert_allclose(found, theirs.predict_proba(before), atol=1e-4)
    assert nll(found[REST], P.y[REST]) < nll(before[REST], P.y[REST])


def test_they_read_only_the_labels_they_are_given():
    pytest.importorskip("probmetrics", reason="the bench installs it")
    assert reads_only(methods.find("ts-mix")(), P.logits, P.y, mask=MASK)
