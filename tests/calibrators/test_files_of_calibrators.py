"""Calibrator files: whole or not at all, readable for long, and no damage goes unnoticed."""

from __future__ import annotations

import json
import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import simi_mailbox
from simi_mailbox import FileFormatError, calibrators, states
from simi_mailbox.states import CHECKSUM
from simi_mailbox.testing import PROBLEM
from tests.calibrators.test_contract import case


def fitted(name: str) -> Any:
    return case(name).fitted


def predict(cal: Any, problem: Any) -> Any:
    return case(cal.name).predict(cal, problem)


OLDER = Path(__file__).parent / "older"
"""Written by version 0.1.0, whose files had no checksum; probabilities of the first nodes."""
KEPT = sorted(path.stem for path in OLDER.glob("*.safetensors"))


@pytest.mark.parametrize("name", KEPT)
def test_files_of_older_versions_give_the_same_probabilities(name: str) -> None:
    cal = simi_mailbox.load(OLDER / f"{name}.safetensors")
    with np.load(OLDER / "probabilities.npz") as expected:
        assert predict(cal, PROBLEM)[:8] == pytest.approx(expected[name], abs=1e-9)


def test_most_methods_have_an_older_file() -> None:
    assert set(KEPT) >= set(calibrators.names()) - {"gets", "simi-mailbox-free"}


def same_value(found: Any, value: Any) -> None:
    if isinstance(value, dict):
        assert set(found) == set(value)
        for name, part in value.items():
            same_value(found[name], part)
    else:
        assert type(found) is type(value)
        same = np.array_equal if isinstance(value, np.ndarray | torch.Tensor) else operator.eq
        assert same(found, value)


@pytest.mark.parametrize("name", calibrators.names())
def test_every_fitted_value_comes_back_to_the_bit(name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path / "cal")
    again = simi_mailbox.load(tmp_path / "cal")
    assert repr(again) == repr(fitted(name))
    same_value(again._state(), fitted(name)._state())


def test_all_kinds_of_values_survive() -> None:
    state = {
        "a_": np.arange(3.0), "t_": torch.ones(2), "d_": {"w": torch.eye(2), "n": None},
        "l_": [1, "two", 3.0, True], "p_": (1, (2.5, "x")), "s_": 0.1,
    }  # fmt: skip
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(states._encode(state, "state", tensors))
    same_value(states._decode(json.loads(text), tensors), state)
    assert states._encode({"s_": np.float64(0.1)}, "state", {}) == {"s_": 0.1}
    with pytest.raises(TypeError, match=r"state\.f is a function"):
        states._encode({"f": same_value}, "state", {})


def test_a_failed_write_leaves_the_old_file_and_no_scrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cal"
    fitted("temperature").save(path)
    before = path.read_bytes()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(states, "save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        fitted("temperature").save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", calibrators.names())
def test_flipped_bits_and_cut_ends_never_change_an_answer(name: str, tmp_path: Path) -> None:
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


def unsealed(name: str, path: Path, **state: Any) -> Path:
    """A file without checksum, as older versions wrote it, with other fitted values."""
    source = OLDER / f"{name}.safetensors"
    with safe_open(source, framework="pt") as file:
        header = json.loads(file.metadata()["simi_mailbox"])
    header["state"] |= state
    for key in [key for key, value in header["state"].items() if value is ...]:
        del header["state"][key]
    save_file(load_file(source), path, metadata={"simi_mailbox": json.dumps(header)})
    return path


BASELINE = {"temperature": 1.0, "log_degree": 0.0, "inverse_degree": 0.0, "blind": 0.0}


@pytest.mark.parametrize(
    ("name", "state", "message"),
    [
        ("simi-mailbox", {"baseline_": BASELINE | {"blind": 5}}, "blind share .* got 5"),
        ("simi-mailbox", {"baseline_": BASELINE | {"blind": -0.1}}, "blind share .* got -0.1"),
        ("simi-mailbox", {"baseline_": BASELINE | {"blind": 1.0}}, "blind share"),
        ("simi-mailbox", {"baseline_": BASELINE | {"temperature": -2.0}}, "temperature of basel"),
        ("simi-mailbox", {"baseline_": BASELINE | {"inverse_degree": 1e9}}, "effects of baseline"),
        ("simi-mailbox", {"baseline_": [1, 2]}, "must be tables"),
        ("simi-mailbox", {"baseline_": {"blind": "x"}}, "does not describe a calibrator"),
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
        ("dirichlet", {"num_classes_": 5}, r"weights_ has shape \[4, 4\], expected \[5, 5\]"),
        ("vector", {"num_classes_": 7}, r"has shape \[4\], expected \[7\]"),
        ("histogram", {"values_": {"$array": "state.edges_"}}, "one value between every two"),
        ("cagcn", {"weights_": [1, 2]}, "weights_ must be a table of tensors"),
        ("cagcn", {"weights_": ...}, "does not describe a calibrator"),
        ("dcgc", {"base_state_": []}, "base_state_ must be a table"),
        ("dcgc", {"base_state_": {}}, "is missing"),
    ],
)
def test_fitted_values_that_no_fit_leaves_are_refused(
    name: str, state: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(FileFormatError, match=message):
        simi_mailbox.load(unsealed(name, tmp_path / "cal", **state))


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("simi-mailbox-paper", {"lam": 50.0}, {"penalty": 50.0}),
        ("group-calibration", {"groups": 2}, {"n_groups": 2}),
        ("histogram", {"pseudo_labels": 1.0}, {"prior_strength": 1.0}),
        ("dirichlet", {"off_diagonal": 10.0, "intercept": None}, {"penalty": 10.0}),
    ],
)
def test_files_with_the_names_of_older_versions_still_load(
    name: str, then: dict[str, Any], now: dict[str, Any]
) -> None:
    with safe_open(OLDER / f"{name}.safetensors", framework="pt") as file:
        written = json.loads(file.metadata()["simi_mailbox"])["params"]
    assert then.items() <= written.items()
    assert now.items() <= simi_mailbox.load(OLDER / f"{name}.safetensors").get_params().items()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def header(**changes: str) -> str:
    """The text of a header, with JSON texts in place of its parts."""
    parts = {
        "format": '"simi-mailbox calibrator"', "version": "1", "calibrator": '"temperature"',
        "written_by": '"9.9"', "params": "{}", "state": '{"temperature_": 2.0, "num_classes_": 3}',
    }  # fmt: skip
    return "{" + ", ".join(f'"{key}": {text}' for key, text in (parts | changes).items()) + "}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (header(version="2"), r"format version 2.*reads up to 1.*simi-mailbox 9\.9; upgrade"),
        (header(version='"new"'), "not a simi-mailbox calibrator"),
        (header(version="Infinity"), "not a simi-mailbox calibrator"),
        (header(version="1e400"), "not a simi-mailbox calibrator"),
        (header(version="true"), "not a simi-mailbox calibrator"),
        (header(version="[1]"), "not a simi-mailbox calibrator"),
        (header(version="0"), "not a simi-mailbox calibrator"),
        (header(format='"other"'), "not a simi-mailbox calibrator"),
        (header(format="{}"), "not a simi-mailbox calibrator"),
        ("[]", "not a simi-mailbox calibrator"),
        ("null", "not a simi-mailbox calibrator"),
        ("{", "not a simi-mailbox calibrator"),
        (nested(100_000), "not a simi-mailbox calibrator"),
        (header(state=nested(100_000)), "not a simi-mailbox calibrator"),
        (header(state="[]"), "must be a name and two tables"),
        (header(params="[]"), "must be a name and two tables"),
        (header(params="null"), "must be a name and two tables"),
        (header(calibrator='"oracle"'), "unknown calibrator 'oracle'"),
        (header(params='{"colour": 1}'), "does not describe a calibrator"),
        (header(state='{"w_": {"$array": "gone"}}'), "does not describe a calibrator"),
        (header(calibrator='["temperature"]'), "must be a name and two tables"),
        (header(state='{"$array": "x"}'), "must be a name and two tables"),
        (header(state='{"$array": {}}'), "does not describe a calibrator"),
        (header(state='{"$tuple": 3}'), "does not describe a calibrator"),
        (header(checksum='"sha256"'), "does not match its checksum"),
    ],
)
def test_headers_that_are_none_are_refused_in_one_sentence(
    text: str, message: str, tmp_path: Path
) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "f", metadata={"simi_mailbox": text})
    with pytest.raises(FileFormatError, match=message):
        simi_mailbox.load(tmp_path / "f")


def test_the_header_that_the_cases_change_is_a_valid_one(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "f", metadata={"simi_mailbox": header()})
    assert simi_mailbox.load(tmp_path / "f").temperature_ == 2.0


def test_a_header_that_claims_terabytes_is_refused(tmp_path: Path) -> None:
    for size in (1 << 45, (1 << 64) - 1):
        (tmp_path / "f").write_bytes(size.to_bytes(8, "little") + b"{}")
        with pytest.raises(FileFormatError, match="damaged or not a safetensors file"):
            simi_mailbox.load(tmp_path / "f")
    claim = {"x": {"dtype": "F64", "shape": [1 << 40], "data_offsets": [0, 1 << 43]}}
    text = json.dumps(claim).encode()
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text + bytes(64))
    with pytest.raises(FileFormatError, match="damaged or not a safetensors file"):
        simi_mailbox.load(tmp_path / "f")


class Bomb:
    """What a pickle could do: run code when it is read."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('ran')",))


def test_what_is_no_such_file_is_told(tmp_path: Path) -> None:
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


def test_a_checksum_that_was_taken_out_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "cal"
    fitted("temperature").save(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    assert len(metadata.pop(CHECKSUM)) == 64
    save_file({}, path, metadata=metadata)
    with pytest.raises(FileFormatError, match="does not match its checksum"):
        simi_mailbox.load(path)
