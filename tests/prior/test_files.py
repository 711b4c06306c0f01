"""Prior files: what is written is read, and what is wrong is said."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from simi_mailbox import FileFormatError, prior
from simi_mailbox.prior import Corpus, files
from simi_mailbox.prior.evidence import CLASSES, EXPONENTS
from simi_mailbox.prior.model import INPUTS


def test_a_file_gives_back_corpus_and_prior(corpus, tmp_path):
    path = tmp_path / "prior.json"
    prior.write(corpus, path)
    again = prior.read(path)
    assert again.command == corpus.command
    assert again.settings[0].facts == {"note": "x"}
    assert again.settings[1].labels == 1000
    before, after = corpus.prior(), again.prior()
    assert before.origin == after.origin
    assert after.beliefs["plain"].middle == pytest.approx(before.beliefs["plain"].middle, rel=1e-5)
    assert again.without("b").settings[0].blind == pytest.approx(corpus.settings[0].blind)
    assert list(tmp_path.iterdir()) == [path]


def test_what_older_files_lack_may_be_there(corpus):
    assert all("lucky" not in s for s in json.loads(files.dumps(corpus))["settings"])
    assert corpus.prior().lucky_labels == 0
    some = replace(corpus.settings[0], lucky=0.06, lucky_weight=0.002)
    more = Corpus((some, *corpus.settings[1:]), corpus.command)
    again = files.loads(files.dumps(more))
    assert again.settings[0].lucky == 0.06
    assert again.prior().lucky_labels == pytest.approx(30)
    assert again.prior().kept == corpus.prior().kept
    fits = {"plain": {"near": 1.5, "blind": -1.0}, "hidden trained": {"hidden": 2.0, "blind": -1.0}}
    free = {"luck": -1e-4, "luck_weight": 1e-4, "between": 1e-3, "variance": 0.1, "fresh_luck": 0.0}
    (whole,) = files.loads(files.dumps(Corpus((replace(some, fits=fits, free=free),)))).settings
    assert (whole.fits, whole.free) == (fits, free)


def test_a_file_is_readable_and_says_where_it_comes_from(corpus):
    head = json.loads(files.dumps(corpus))
    assert head["prior"]["beliefs"]["plain"]["middle"]["blind"] == -1.5
    assert head["command"].startswith("simi-mailbox prior fit")
    assert {s["graph"] for s in head["settings"]} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not a prior file: its format is 'other'"),
        ({"version": 99}, "has format version 99, this library reads up to 4"),
        ({"version": 1}, "its format version is 1, expected 4"),
        ({"settings": []}, "it holds no setting"),
        ({"settings": [{"graph": "a"}]}, "damaged or not a prior file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(corpus, change, message):
    head = {**json.loads(files.dumps(corpus)), **change}
    with pytest.raises(FileFormatError, match=message):
        files.loads(json.dumps(head))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b'"text"', b"null"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        prior.read(path)


def test_numbers_that_are_none_are_refused(corpus):
    head = json.loads(files.dumps(corpus))
    head["settings"][0]["blind"] = float("nan")
    with pytest.raises(FileFormatError, match="make no sense"):
        files.loads(json.dumps(head))


def test_the_shipped_prior_is_whole():
    shipped = prior.corpus()
    families = set(shipped.families)
    assert {"cora", "citeseer", "pubmed", "amazon", "coauthor"} <= families
    assert all(set(s.fits) == set(INPUTS) for s in shipped.settings)
    learned = prior.learned()
    for level in (learned.kept, learned.free):
        assert level.luck > level.fresh_luck > 0
        assert level.pseudo_labels > 50
    belief = learned.belief(hidden=True, trained=True)
    assert set(belief.terms) == {*EXPONENTS, *CLASSES}
    assert 0 < np.exp(belief.middle["blind"]) < 1
    assert min(belief.middle[name] for name in ("hidden", "near", "far", "shift")) > 0


@pytest.mark.parametrize("dataset", ["Cora", "CoraML", "CoraFull", "Photo", "Arxiv"])
def test_leaving_a_graph_out_leaves_its_relatives_out(dataset):
    left = prior.resolve(prior.leave_out(dataset))
    for name in prior.relatives(dataset):
        assert f"{name}," not in left.origin.replace(" with", ",")
    assert "Pubmed" in left.origin


def test_a_name_pins_the_shipped_file():
    name = prior.leave_out("Cora")
    assert prior.resolve(name) == prior.resolve("learned without cora") != prior.learned()
    for relative in ("Cora", "CoraFull"):
        assert prior.resolve(f"learned without {relative}") == prior.resolve(name)
    with pytest.raises(ValueError, match="older or newer shipped prior"):
        prior.resolve("learned@00000000 without cora")


def test_unknown_priors_are_refused():
    with pytest.raises(FileNotFoundError, match=r"no prior file 'nowhere\.json'"):
        prior.resolve("nowhere.json")
    with pytest.raises(ValueError, match="unknown dataset 'Coraa'; did you mean 'Cora'"):
        prior.resolve("learned without Coraa")
    with pytest.raises(TypeError, match="prior must be 'learned', None or the path"):
        prior.resolve(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": float("inf")}, "format version is inf, not a whole number"),
        ({"version": True}, "not a whole number"),
        ({"version": "3"}, "not a whole number"),
        ({"settings": {"a": 1}}, "damaged or not a prior file"),
        ({"settings": 7}, "damaged or not a prior file"),
        ({"settings": [[1]]}, "damaged or not a prior file"),
        ({"command": "another"}, "does not match its checksum"),
        ({"checksum": None}, "does not match its checksum"),
    ],
)
def test_damage_is_one_sentence(corpus, change, message):
    head = {**json.loads(files.dumps(corpus)), **change}
    with pytest.raises(FileFormatError, match=message):
        files.loads(json.dumps(head))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log_degree", 1e6), ("inverse_degree", -1e300), ("blind", 1e9), ("runs", 1e400),
        ("luck_weight", 0.0), ("labels", -5), ("variance", "x"), ("luck", None),
    ],
)  # fmt: skip
def test_numbers_beyond_all_measure_are_refused(corpus, name, value):
    head = json.loads(files.dumps(corpus))
    del head["checksum"]
    head["settings"][0][name] = value
    with pytest.raises(FileFormatError, match="damaged or not a prior file"):
        files.loads(json.dumps(head))


@pytest.mark.parametrize(
    "table",
    [
        {"fits": {"plain": {"near": 1e6, "blind": 0.0}}},
        {"fits": {"plain": {"near": 1.0}}},
        {"fits": {"by night": {"near": 1.0, "blind": 0.0}}},
        {"fits": {"plain": {"moon": 1.0, "blind": 0.0}}},
        {"free": {"luck": 0.0, "luck_weight": 0.0, "between": 1.0, "variance": 1.0}},
        {"free": {"luck": 0.0}},
        {"fits": [1]},
    ],
)
def test_tables_that_no_fit_leaves_are_refused(corpus, table):
    head = json.loads(files.dumps(corpus))
    del head["checksum"]
    head["settings"][0] |= table
    with pytest.raises(FileFormatError, match="damaged or not a prior file"):
        files.loads(json.dumps(head))


def test_json_without_bottom_is_refused():
    with pytest.raises(FileFormatError, match="nested too deep"):
        files.loads("[" * 100_000 + "]" * 100_000)


def test_flipped_bits_never_change_a_prior(corpus, tmp_path):
    path = tmp_path / "prior.json"
    prior.write(corpus, path)
    whole, expected = path.read_bytes(), prior.read(path).prior()
    rng = np.random.default_rng(0)
    refused = 0
    for bit in rng.integers(8 * len(whole), size=150):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(flipped))
        try:
            assert prior.read(path).prior() == expected
        except FileFormatError:
            refused += 1
    assert refused > 100
