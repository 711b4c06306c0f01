"""Relatives leave together, and no dataset is read to know them."""

import subprocess
import sys

from simi_mailbox.calibrators.simi_mailbox.families import family_of, relatives


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


def test_a_prior_is_left_out_without_loading_the_datasets():
    code = """
import sys, numpy as np
from simi_mailbox import SimiMailbox
rng = np.random.default_rng(0)
z, edges = rng.normal(size=(300, 3)), rng.integers(300, size=(2, 900))
cal = SimiMailbox(prior="learned without Cora").fit(z, z.argmax(1), graph=edges, mask=range(150))
assert "Cora" not in cal.prior_["origin"]
print(*(name for name in sys.modules if name.startswith("simi_mailbox_bench")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
