"""Which runs a cell has, and in which order."""

import pytest

from simi_mailbox_bench.backbones.cached_runs import SIZES, runs, size_of


@pytest.mark.parametrize(("protocol", "count"), [("folds", 75), ("official", 50), ("sparse", 10)])
def test_numbers_of_runs_are_the_papers(protocol: str, count: int) -> None:
    made = runs("Cora", "gcn", protocol)
    assert len(made) == len(set(made)) == count == size_of(protocol).runs


def test_fifteen_runs_are_all_splits_and_folds_of_one_initialisation() -> None:
    made = runs("Cora", "gcn", "folds", limit=15)
    assert {(run.split, run.fold) for run in made} == {(s, f) for s in range(5) for f in range(3)}
    assert {run.init for run in made} == {0}


@pytest.mark.parametrize("protocol", SIZES)
def test_any_first_runs_spread_over_splits(protocol: str) -> None:
    size = size_of(protocol)
    for limit in range(1, size.runs + 1):
        splits = [run.split for run in runs("Cora", "gcn", protocol, limit)]
        counts = [splits.count(split) for split in range(size.splits)]
        assert max(counts) - min(counts) <= 1


def test_bad_requests_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="choices: folds, official"):
        size_of("fold")
    with pytest.raises(ValueError, match="at least one"):
        runs("Cora", "gcn", "folds", limit=0)
