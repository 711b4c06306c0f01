"""Methods of probmetrics: in tables that name them, on the same labels as ours, nothing copied."""

import sys

import numpy as np
import pytest

from simi_mailbox import calibrators
from simi_mailbox.audit import reads_only
from simi_mailbox.metrics import nll
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench import methods
from simi_mailbox_bench.rivals import RIVALS

PROBLEM = calibration_problem(600, 3, temperature=2.0, seed=1)
MASK, REST = np.arange(200), np.arange(200, 600)


def test_tables_find_them_and_the_registry_does_not() -> None:
    assert set(RIVALS) <= set(methods.names())
    assert not set(RIVALS) & set(calibrators.names())
    assert all(methods.NOTES[name] == "probmetrics" for name in RIVALS)


def test_where_the_package_is_absent_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "probmetrics.calibrators.factory", None)
    with pytest.raises(ModuleNotFoundError, match=r"simi-mailbox\[rivals\]"):
        methods.find("svs")().fit(PROBLEM.logits, PROBLEM.y, mask=MASK)


@pytest.mark.parametrize("name", RIVALS)
def test_they_give_what_the_package_gives(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    package = pytest.importorskip("probmetrics.calibrators", reason="the bench installs it")
    probs = methods.find("uncalibrated")().fit(PROBLEM.logits, PROBLEM.y, mask=MASK)
    before = probs.predict_proba(PROBLEM.logits.astype(float))
    cal = methods.find(name)().fit(PROBLEM.logits, PROBLEM.y, mask=MASK)
    found = cal.predict_proba(PROBLEM.logits)
    assert capsys.readouterr().out == ""
    theirs = package.get_calibrator(name).fit(before[MASK], PROBLEM.y[MASK])
    np.testing.assert_allclose(found, theirs.predict_proba(before), atol=1e-4)
    assert nll(found[REST], PROBLEM.y[REST]) < nll(before[REST], PROBLEM.y[REST])


def test_they_read_only_the_labels_they_are_given() -> None:
    pytest.importorskip("probmetrics", reason="the bench installs it")
    assert reads_only(methods.find("ts-mix")(), PROBLEM.logits, PROBLEM.y, mask=MASK)
