"""Settings: what is published, and what is refused."""

import pytest

from simi_mailbox_bench.backbones.settings import PUBLISHED, Settings, settings_for


def test_published_weight_decay_and_depth() -> None:
    assert {settings_for(n).weight_decay for n in ("Cora", "Citeseer", "Pubmed")} == {5e-4}
    no_decay = ("Computers", "Photo", "CS", "Physics", "CoraFull", "Arxiv", "Reddit2")
    assert {settings_for(n).weight_decay for n in no_decay} == {0.0}
    assert (settings_for("Arxiv").layers, settings_for("Reddit2").layers) == (3, 2)
    assert settings_for("Arxiv").hidden == settings_for("Reddit2").hidden == 256
    assert all(name == name.lower() for name in PUBLISHED)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden", 0),
        ("layers", 2.5),
        ("layers", 1),
        ("dropout", 1.0),
        ("lr", 0.0),
        ("weight_decay", -1.0),
    ],
)
def test_impossible_settings_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Settings(**{field: value})  # type: ignore[arg-type]
