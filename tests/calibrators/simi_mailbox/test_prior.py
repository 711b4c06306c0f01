"""Priors: made of medians of settings; files that are written are read, and damage is said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import FileFormatError, SimiMailbox, prior
from simi_mailbox.calibrators.simi_mailbox.evidence import term_names
from simi_mailbox.calibrators.simi_mailbox.families import family_of, relatives
from simi_mailbox.synthetic import calibration_problem

PLAIN = (*term_names(hidden=False), "uniform")


def setting(graph, labels_term=1.0, bias=2.0, *, family="", labels=100, error_free=0.0, **terms):
    """A setting that speaks for exactly these numbers."""
    plain = dict.fromkeys(PLAIN, 0.0) | {"labels": labels_term} | terms
    weight = (0.9 / labels) ** 2
    return prior.Setting(
        graph, family or graph, "gcn", 15, labels, plain, {**plain, "hidden": 3.0},
        {mode: bias * weight for mode in prior.MODES}, weight, error_free * 1e-3, 1e-3,
    )  # fmt: skip


@pytest.fixture
def settings():
    return (
        setting("a", 1.0, labels=100),
        setting("b", 1.4, labels=1000),
        setting("c", 30.0, labels=400, family="b"),
    )


def test_a_prior_is_made_of_medians(settings):
    found = prior.prior_of(settings)
    assert found.plain.location["labels"] == 1.4
    assert found.plain.spread["labels"] == pytest.approx(prior.DEVIATION * 0.4)
    assert found.plain.spread["log_degree"] == prior.NARROWEST["log_degree"]
    assert found.coefficients(hidden=True).location["hidden"] == 3.0
    assert found.bias == pytest.approx(dict.fromkeys(prior.MODES, 2.0))
    assert found.fewest_labels == 100
    assert found.origin == "a, b, c with gcn, 45 runs"


def test_of_some_terms_other_graphs_tell_the_size_and_not_the_sign():
    found = prior.prior_of([setting(str(v), neighbours=v) for v in (0.9, 1.0, 1.1)]).plain
    assert found.location["neighbours"] == 0.0
    assert found.spread["neighbours"] == pytest.approx(prior.DEVIATION)


def test_one_setting_says_nothing_about_how_others_differ():
    found, vague = prior.prior_of([setting("a")]), prior.Prior.vague()
    assert found.plain.spread == vague.plain.spread


def test_settings_without_a_hidden_layer_say_nothing_of_it(settings):
    bare = [replace(one, hidden={}) for one in settings]
    assert prior.prior_of(bare).hidden == prior.Prior.vague().hidden
    assert prior.prior_of(bare).plain == prior.prior_of(settings).plain


def test_bias_is_decided_by_those_who_can_tell_and_never_negative():
    few, some, many = (
        setting(str(n), bias=bias, labels=n) for n, bias in ((100, 3.0), (130, 5.0), (3000, -90.0))
    )
    assert 3.0 < prior.prior_of([few, some, many]).bias["kept"] < 5.0
    assert prior.prior_of([setting("a", bias=-3.0)]).bias["free"] == 0


def test_the_drop_falls_with_the_labels_and_is_not_extrapolated(settings):
    found = prior.prior_of(settings)
    given = {"keep_classes": True, "selected": True}
    assert found.drop(0.1, 400, **given) == pytest.approx(2.0 * 0.1 / 400)
    assert found.drop(0.1, 3, **given) == found.drop(0.1, 100, **given)
    assert prior.Prior.vague().drop(0.1, 400, **given) == 0.0


def test_errors_count_for_more_where_nodes_could_not_be_wrong():
    found = prior.prior_of([setting("a", error_free=30.0)])
    assert found.error_free_labels == pytest.approx(30.0)
    assert found.error_weight(150) == pytest.approx(150 / 120)
    assert found.error_weight(1) == found.error_weight(100)
    assert prior.Prior.vague().error_weight(10) == 1.0


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 9)), min_size=1, max_size=20))
def test_the_interquartile_mean_is_that_of_repeated_values(pairs):
    values, weights = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
    repeated = np.sort(np.repeat(values, 4 * weights.astype(int)))
    quarter = len(repeated) // 4
    assert prior.interquartile_mean(values, weights) == pytest.approx(
        repeated[quarter:-quarter].mean()
    )


def test_families_leave_together(settings):
    assert [one.graph for one in prior.without(settings, "b")] == ["a"]
    assert len(prior.without(settings, "unknown")) == 3
    with pytest.raises(ValueError, match="no graph is left"):
        prior.without(settings[:1], "a")


def test_the_shipped_prior_is_whole():
    learned = prior.learned()
    assert set(learned.plain.location) == set(PLAIN)
    assert set(learned.hidden.location) == {*PLAIN, "hidden"}
    assert min(learned.plain.spread.values()) > 0
    assert min(learned.hidden.location[name] for name in ("hidden", "labels_2_steps")) > 0
    for mode in ("kept", "free"):
        assert learned.bias[mode] > 0
    assert learned.error_weight(150) > 1


@pytest.mark.parametrize("dataset", ["Cora", "CoraML", "CoraFull", "Photo", "Arxiv"])
def test_leaving_a_graph_out_leaves_its_relatives_out(dataset):
    left = prior.resolve(prior.leave_out(dataset))
    for name in relatives(dataset):
        assert f"{name}," not in left.origin.replace(" with", ",")
    assert "Pubmed" in left.origin


def test_relatives_leave_together():
    for names in (
        "Cora CoraML CoraFull", "Computers Photo", "CS Physics", "Chameleon Squirrel",
        "Texas Wisconsin Cornell", "Amazon-ratings", "Pubmed",
    ):  # fmt: skip
        assert all(set(relatives(name)) == set(names.split()) for name in names.split())


def test_a_family_is_found_under_every_name_of_a_dataset():
    names = {"ogbn-arxiv": "arxiv", "reddit": "reddit", "roman-empire": "roman-empire"}
    names |= dict.fromkeys(("cora_ml", "cora-ml", " coraml "), "cora")
    assert {name: family_of(name) for name in names} == names


def test_a_calibrator_takes_a_prior_without_a_family():
    p = calibration_problem(300, 3, seed=0)
    cal = SimiMailbox(prior="learned without Cora")
    cal.fit(p.logits, p.y, graph=p.graph, mask=range(150))
    assert "Cora" not in cal.prior_["origin"]


def test_a_name_pins_the_shipped_file():
    name = prior.leave_out("Cora")
    assert prior.resolve(name) == prior.resolve("learned without cora") != prior.learned()
    for relative in ("Cora", "CoraFull"):
        assert prior.resolve(f"learned without {relative}") == prior.resolve(name)
    with pytest.raises(ValueError, match="names another shipped prior"):
        prior.resolve("learned@00000000 without cora")


def test_unknown_priors_are_refused():
    with pytest.raises(FileNotFoundError, match=r"no prior file 'nowhere\.json'"):
        prior.resolve("nowhere.json")
    with pytest.raises(ValueError, match="unknown dataset 'Coraa'; did you mean 'Cora'"):
        prior.resolve("learned without Coraa")
    with pytest.raises(TypeError, match="prior must be 'learned', None or the path"):
        prior.resolve(3)  # type: ignore[arg-type]


def test_a_file_gives_back_settings_and_prior(settings, tmp_path):
    path = tmp_path / "prior.json"
    prior.write(settings, path)
    again = prior.read(path)
    assert [one.graph for one in again] == ["a", "b", "c"]
    before, after = prior.prior_of(settings), prior.resolve(path)
    assert after.plain.location == pytest.approx(before.plain.location, rel=1e-4)
    assert after.origin == before.origin
    assert list(tmp_path.iterdir()) == [path]


def changed(settings, change):
    return json.dumps({**json.loads(prior.dumps(settings)), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not a prior file: its format is 'other'"),
        ({"version": 99}, "its format version is 99, this library reads 1"),
        ({"version": float("inf")}, "format version is inf"),
        ({"version": True}, "format version is True"),
        ({"version": "1"}, "format version is 1"),
        ({"settings": []}, "damaged or not a prior file"),
        ({"settings": [{"graph": "a"}]}, "damaged or not a prior file"),
        ({"settings": {"a": 1}}, "damaged or not a prior file"),
        ({"settings": 7}, "damaged or not a prior file"),
        ({"settings": [[1]]}, "damaged or not a prior file"),
        ({"checksum": None}, "does not match its checksum"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(settings, change, message):
    with pytest.raises(FileFormatError, match=message):
        prior.loads(changed(settings, change))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b'"text"', b"null"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        prior.read(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("runs", 0), ("labels", -5), ("bias_weight", 0.0), ("bias_weight", float("nan")),
        ("fewer_errors", None), ("fewer_errors", "x"), ("fewer_errors_weight", 0.0),
        ("bias", {"kept": 0.0}), ("bias", dict.fromkeys(prior.MODES, float("inf"))),
        ("plain", {}), ("plain", {"moon": 1.0}), ("plain", dict.fromkeys(PLAIN, 51.0)),
        ("plain", dict.fromkeys(PLAIN, float("nan"))), ("hidden", [1]), ("hidden", {"hidden": 1.0}),
        ("fewer_errors_weight", float("nan")), ("runs", "many"),
    ],
)  # fmt: skip
def test_numbers_that_no_fit_leaves_are_refused(settings, name, value):
    head = json.loads(prior.dumps(settings))
    head["settings"][0][name] = value
    with pytest.raises(FileFormatError, match=r"make no sense|coefficients|damaged") as caught:
        prior.loads(json.dumps(head))
    assert "checksum" not in str(caught.value)


def test_json_without_bottom_is_refused():
    with pytest.raises(FileFormatError, match="not a prior file"):
        prior.loads("[" * 100_000 + "]" * 100_000)


def test_flipped_bits_never_change_a_prior(settings, tmp_path):
    path = tmp_path / "prior.json"
    prior.write(settings, path)
    whole, expected = path.read_bytes(), prior.resolve(path)
    rng = np.random.default_rng(0)
    refused = 0
    for bit in rng.integers(8 * len(whole), size=150):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(flipped))
        try:
            assert prior.resolve(path) == expected
        except FileFormatError:
            refused += 1
    assert refused > 100
