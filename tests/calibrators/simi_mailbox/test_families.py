"""Relatives of a dataset leave a prior together."""

from simi_mailbox import SimiMailbox
from simi_mailbox.calibrators.simi_mailbox.families import family_of, relatives
from simi_mailbox.synthetic import calibration_problem


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
