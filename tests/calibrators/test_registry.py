"""Files: whole or not at all, readable or refused with a reason, never executed."""

import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import simi_mailbox
from simi_mailbox import FileFormatError, NotFittedError, SimiMailbox, states
from simi_mailbox.calibrators.base import KIND
from tests.strategies import make_problem


@pytest.fixture
def saved(tmp_path):
    case = make_problem(0)
    calibrator = SimiMailbox(n_groups=5).fit(case.logits, case.y, graph=case.graph, mask=case.mask)
    path = tmp_path / "cal.safetensors"
    calibrator.save(path)
    return case, calibrator, path


def same_value(found, value):
    assert type(found) is type(value)
    if isinstance(value, dict):
        assert set(found) == set(value)
        for name, part in value.items():
            same_value(found[name], part)
    else:
        np.testing.assert_array_equal(found, value)


def test_a_loaded_calibrator_is_the_saved_one_to_the_bit(saved):
    case, calibrator, path = saved
    again = simi_mailbox.load(path)
    assert repr(again) == repr(calibrator)
    for name, value in calibrator._state().items():
        same_value(getattr(again, name), value)
    np.testing.assert_array_equal(
        again.predict_proba(case.logits, graph=case.graph),
        calibrator.predict_proba(case.logits, graph=case.graph),
    )


def test_unfitted_calibrators_have_nothing_to_save(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        SimiMailbox().save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_no_scrap(saved, monkeypatch):
    _, calibrator, path = saved
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(states, "save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        calibrator.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_every_truncation_is_refused(saved):
    _, _, path = saved
    whole = path.read_bytes()
    for size in (0, 4, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match="damaged"):
            simi_mailbox.load(path)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit('ran')",))

    path = tmp_path / "bomb.safetensors"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileFormatError, match="damaged or not a safetensors file"):
        simi_mailbox.load(path)


def test_a_missing_file_is_an_ordinary_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        simi_mailbox.load(tmp_path / "nowhere")


def rewrite(path, **changes):
    header = {
        "format": KIND.format, "version": 1, "written_by": "9.9",
        "calibrator": "temperature", "params": {},
        "state": {"temperature_": 2.0, "num_classes_": 3},
    }  # fmt: skip
    header.update(changes)
    save_file({"x": torch.zeros(1)}, path, metadata={"simi_mailbox": json.dumps(header)})
    return path


def test_the_hand_written_file_is_a_valid_one(tmp_path):
    calibrator = simi_mailbox.load(rewrite(tmp_path / "f"))
    assert calibrator.temperature_ == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, r"format version 2.*reads up to 1.*simi-mailbox 9\.9; upgrade"),
        ({"version": "new"}, "not a simi-mailbox calibrator"),
        ({"format": "other"}, "not a simi-mailbox calibrator"),
        ({"calibrator": "oracle"}, "unknown calibrator 'oracle'"),
        ({"params": {"colour": 1}}, "does not describe a calibrator"),
        ({"state": {"w_": {"$array": "gone"}}}, "does not describe a calibrator"),
    ],
)
def test_foreign_and_future_files_are_refused(tmp_path, changes, message):
    with pytest.raises(FileFormatError, match=message):
        simi_mailbox.load(rewrite(tmp_path / "f", **changes))


def test_a_safetensors_file_without_our_header_is_refused(tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / "f")
    with pytest.raises(FileFormatError, match="not a simi-mailbox calibrator"):
        simi_mailbox.load(tmp_path / "f")


def test_all_kinds_of_values_survive(tmp_path):
    state = {
        "a_": np.arange(3.0), "t_": torch.ones(2), "d_": {"w": torch.eye(2), "n": None},
        "l_": [1, "two", 3.0, True], "p_": (1, (2.5, "x")), "s_": np.float64(0.1),
    }  # fmt: skip
    tensors: dict[str, torch.Tensor] = {}
    decoded = states._decode(
        json.loads(json.dumps(states._encode(state, "state", tensors))), tensors
    )
    assert decoded["p_"] == (1, (2.5, "x"))
    assert decoded["l_"] == [1, "two", 3.0, True]
    assert decoded["s_"] == 0.1
    assert torch.equal(decoded["d_"]["w"], torch.eye(2))
    np.testing.assert_array_equal(decoded["a_"], np.arange(3.0))
    with pytest.raises(TypeError, match=r"state\.f is a function"):
        states._encode({"f": rewrite}, "state", {})
