import pytest

from simi_mailbox.calibrators.simi_mailbox.families import FAMILIES
from simi_mailbox_bench import datasets
from simi_mailbox_bench.datasets import catalogue


@pytest.mark.parametrize("name", ["Cora", "cora", " CORA ", "cOrA"])
def test_names_ignore_case(name: str) -> None:
    assert catalogue.find(name).name == "Cora"


@pytest.mark.parametrize(
    ("alias", "name"), [("reddit", "Reddit2"), ("ogbn-arxiv", "Arxiv"), ("Cora_ML", "CoraML")]
)
def test_other_libraries_names_are_known(alias: str, name: str) -> None:
    assert catalogue.find(alias).name == name


def test_unknown_name_lists_choices_and_the_closest() -> None:
    with pytest.raises(ValueError, match="unknown dataset 'citseer'") as caught:
        datasets.load("citseer")
    message = str(caught.value)
    assert "did you mean 'Citeseer'?" in message
    assert all(name in message for name in datasets.names())


def test_a_name_unlike_any_other_gets_no_suggestion() -> None:
    with pytest.raises(ValueError, match="choices") as caught:
        catalogue.find("qqqqqq")
    assert "did you mean" not in str(caught.value)


def test_a_name_must_be_a_string() -> None:
    with pytest.raises(TypeError, match="string, got int"):
        catalogue.find(3)  # type: ignore[arg-type]


def test_every_dataset_of_the_experiments_is_listed() -> None:
    wanted = (
        "Cora Citeseer Pubmed CoraFull Computers Photo CS Physics CoraML Arxiv Reddit2 Chameleon "
        "Squirrel Actor Texas Wisconsin Cornell Roman-empire Amazon-ratings Minesweeper Tolokers "
        "Questions Tolokers-weighted FDCompCN FDCompCN-weighted RedditBans German Digits TwitchDE "
        "TwitchENGB TwitchES TwitchFR TwitchPTBR TwitchRU TwitchZHTW"
    )
    assert datasets.names() == wanted.split()


def test_checksums_are_distinct_and_well_formed() -> None:
    known = [entry for entry in catalogue.ENTRIES.values() if entry.sha256]
    sums = [entry.sha256 for entry in known if not entry.file]
    assert len(sums) == len(set(sums)) == 26
    for entry in known:
        if entry.file:  # the same graph under another loss
            assert entry.sha256 == catalogue.find(entry.file).sha256
    assert all(len(value) == 64 and int(value, 16) > 0 for value in sums)


def test_every_dataset_has_one_family():
    assert sorted(name for members in FAMILIES.values() for name in members) == sorted(
        datasets.names()
    )
