"""Calibrator files: whole or not at all, readable for long, and no damage goes unnoticed."""

import contextlib
import copy
import json
import operator
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import simi_mailbox
from simi_mailbox import FileFormatError, calibrators, parameters
from tests.calibrators.test_contract import case
from tests.test_files import Bomb


def fitted(name):
    return case(name).fitted


def same_value(found, value):
    if isinstance(value, dict):
        assert set(found) == set(value)
        for name, part in value.items():
            same_value(found[name], part)
    else:
        assert type(found) is type(value)
        same = np.array_equal if isinstance(value, np.ndarray | torch.Tensor) else operator.eq
        assert same(found, value)


@pytest.mark.parametrize("name", calibrators.names())
def test_the_same_calibrator_is_the_same_bytes_and_every_fitted_value_comes_back(name, tmp_path):
    """safetensors orders its metadata anew in every call, so that a few calls show it."""
    path, contents = tmp_path / "cal", set()
    for _ in range(8):
        fitted(name).save(path)
        contents.add(path.read_bytes())
    again = simi_mailbox.load(path)
    assert repr(again) == repr(fitted(name))
    same_value(again._state(), fitted(name)._state())
    again.save(path)
    assert contents == {path.read_bytes()}


def test_all_kinds_of_values_survive():
    state = {
        "a_": np.arange(3.0), "t_": torch.ones(2), "d_": {"w": torch.eye(2), "n": None},
        "l_": [1, "two", 3.0, True], "p_": (1, (2.5, "x")), "s_": 0.1,
    }  # fmt: skip
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(parameters._encode(state, "state", tensors))
    same_value(parameters._decode(json.loads(text), tensors), state)
    assert parameters._encode({"s_": np.float64(0.1)}, "state", {}) == {"s_": 0.1}
    with pytest.raises(TypeError, match=r"state\.f is a function"):
        parameters._encode({"f": same_value}, "state", {})


def test_a_failed_write_leaves_the_old_file_and_no_scrap(tmp_path, monkeypatch):
    path = tmp_path / "cal"
    fitted("temperature").save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(parameters, "safetensors_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        fitted("temperature").save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", calibrators.names())
def test_flipped_bits_and_cut_ends_never_change_an_answer(name, tmp_path):
    path, cal = tmp_path / "cal", fitted(name)
    cal.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for bit in rng.integers(8 * len(whole), size=100):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            again = simi_mailbox.load(path)
        except FileFormatError:
            refused += 1
        else:
            assert repr(again) == repr(cal)
            same_value(again._state(), cal._state())
    assert refused > 80
    for size in (0, 4, 60, len(whole) - 1, *rng.integers(len(whole), size=21)):
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match="damaged"):
            simi_mailbox.load(path)


def changed(name, path, **state):
    """A file whose checksum is right, with other fitted values; ``...`` takes one away."""
    cal = copy.copy(fitted(name))
    kept = {key: value for key, value in (cal._state() | state).items() if value is not ...}
    cal._state = lambda: kept
    cal.save(path)
    return path


FIVE = {"num_classes_": 5, "classes_": np.arange(5)}


@pytest.mark.parametrize(
    ("name", "state", "message"),
    [
        ("simi-mailbox", {"temperature_": -2.0}, "temperature_"),
        ("simi-mailbox", {"intercepts_": np.zeros(3)}, r"shape \[4\], expected \[3\]"),
        ("simi-mailbox", {"temperatures_": 3.0}, "temperatures_ must be an array"),
        ("simi-mailbox", {"temperatures_": ...}, "temperatures_ is missing"),
        ("temperature", {"temperature_": -1.5}, "temperature_ must be positive, got -1.5"),
        ("temperature", {"temperature_": 0.0}, "temperature_ must be positive"),
        ("temperature", {"temperature_": float("nan")}, "temperature_ is not finite"),
        ("temperature", {"temperature_": float("inf")}, "temperature_ is not finite"),
        ("temperature", {"temperature_": "warm"}, "temperature_ must be a number"),
        ("temperature", {"temperature_": ...}, "temperature_ is missing"),
        ("temperature", {"num_classes_": "4"}, "num_classes_ must be a whole number ≥ 2"),
        ("temperature", {"num_classes_": 1}, "num_classes_ must be a whole number ≥ 2"),
        ("temperature", {"num_classes_": ...}, "num_classes_ must be a whole number ≥ 2"),
        ("temperature", {"predict_proba": 1}, "'predict_proba' is no fitted value"),
        ("temperature", {"__class__": 1}, "'__class__' is no fitted value"),
        ("dirichlet", FIVE, r"weights_ has shape \[4, 4\], expected \[5, 5\]"),
        ("vector", FIVE, r"has shape \[4\], expected \[5\]"),
    ],
)
def test_fitted_values_that_no_fit_leaves_are_refused(name, state, message, tmp_path):
    with pytest.raises(FileFormatError, match=message):
        simi_mailbox.load(changed(name, tmp_path / "cal", **state))


def nested(depth):
    return "[" * depth + "]" * depth


STATE = {"temperature_": 2.0, "num_classes_": 3, "classes_": [0, 1, 2]}
STATE |= {"input_type_": "logits", "widest_": 9.0}


NONE, TABLES = "not a simi-mailbox calibrator", "must be a name and two tables"
UNDESCRIBED = "does not describe a calibrator"


def header(**changes):
    """The text of a header, with JSON texts in place of its parts."""
    parts = {
        "format": '"simi-mailbox calibrator"', "version": "1", "calibrator": '"temperature"',
        "written_by": '"9.9"', "params": "{}", "state": json.dumps(STATE),
    }  # fmt: skip
    return "{" + ", ".join(f'"{key}": {text}' for key, text in (parts | changes).items()) + "}"


def sealed(text, path):
    """A file with this header, and its checksum."""
    tensors = {"x": torch.zeros(1)}
    with contextlib.suppress(ValueError, TypeError, RecursionError):  # no header: it has none
        text = parameters.sealed(json.loads(text), tensors)
    save_file(tensors, path, metadata={"simi_mailbox": text})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (header(version="2"), r"format version 2.*reads up to 1.*simi-mailbox 9\.9; upgrade"),
        *((header(version=v), NONE) for v in ('"new"', "Infinity", "1e400", "true", "[1]", "0")),
        *((header(format=f), NONE) for f in ('"other"', "{}")),
        *((text, NONE) for text in ("[]", "null", "{", nested(10**5), header(state=nested(10**5)))),
        (header(calibrator='"oracle"'), "unknown calibrator 'oracle'"),
        (header(calibrator='["temperature"]'), TABLES),
        *((header(params=text), TABLES) for text in ("[]", "null")),
        *((header(state=text), TABLES) for text in ("[]", '{"$array": "x"}')),
        (header(params='{"colour": 1}'), UNDESCRIBED),
        (header(state='{"w_": {"$array": "gone"}}'), UNDESCRIBED),
        *((header(state=text), UNDESCRIBED) for text in ('{"$array": {}}', '{"$tuple": 3}')),
    ],
)
def test_headers_that_are_none_are_refused_in_one_sentence(text, message, tmp_path):
    sealed(text, tmp_path / "f")
    with pytest.raises(FileFormatError, match=message):
        simi_mailbox.load(tmp_path / "f")


def test_the_header_that_the_cases_change_is_a_valid_one_with_its_checksum(tmp_path):
    sealed(header(), tmp_path / "f")
    assert simi_mailbox.load(tmp_path / "f").temperature_ == 2.0
    save_file({"x": torch.zeros(1)}, tmp_path / "f", metadata={"simi_mailbox": header()})
    with pytest.raises(FileFormatError, match="does not match its checksum"):
        simi_mailbox.load(tmp_path / "f")


def test_a_header_that_claims_terabytes_is_refused(tmp_path):
    claim = {"x": {"dtype": "F64", "shape": [1 << 40], "data_offsets": [0, 1 << 43]}}
    text = json.dumps(claim).encode()
    for size, rest in ((1 << 45, b"{}"), ((1 << 64) - 1, b"{}"), (len(text), text + bytes(64))):
        (tmp_path / "f").write_bytes(size.to_bytes(8, "little") + rest)
        with pytest.raises(FileFormatError, match="damaged or not a safetensors file"):
            simi_mailbox.load(tmp_path / "f")


def test_what_is_no_such_file_is_told(tmp_path):
    (tmp_path / "pickle").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileFormatError, match="damaged or not a safetensors file"):
        simi_mailbox.load(tmp_path / "pickle")
    save_file({"x": torch.zeros(1)}, tmp_path / "arrays")
    with pytest.raises(FileFormatError, match="not a simi-mailbox calibrator"):
        simi_mailbox.load(tmp_path / "arrays")
    with pytest.raises(FileFormatError, match="is a folder"):
        simi_mailbox.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        simi_mailbox.load(tmp_path / "nowhere")
