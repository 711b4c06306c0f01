"""Which graphs are relatives, of one origin: this table decides what a prior leaves out."""

from __future__ import annotations

from simi_mailbox.plain_text import unknown

FAMILIES = {
    "cora": ("Cora", "CoraFull", "CoraML"),
    "citeseer": ("Citeseer",),
    "pubmed": ("Pubmed",),
    "amazon": ("Computers", "Photo"),
    "coauthor": ("CS", "Physics"),
    "arxiv": ("Arxiv",),
    "reddit": ("Reddit2",),
    "wikipedia": ("Chameleon", "Squirrel"),
    "actor": ("Actor",),
    "webkb": ("Texas", "Wisconsin", "Cornell"),
    "roman-empire": ("Roman-empire",),
    "amazon-ratings": ("Amazon-ratings",),
    "minesweeper": ("Minesweeper",),
    "tolokers": ("Tolokers", "Tolokers-weighted"),
    "fdcompcn": ("FDCompCN", "FDCompCN-weighted"),
    "redditbans": ("RedditBans",),
    "german": ("German",),
    "questions": ("Questions",),
    "digits": ("Digits",),
    "twitch": (
        "TwitchDE", "TwitchENGB", "TwitchES", "TwitchFR", "TwitchPTBR", "TwitchRU", "TwitchZHTW",
    ),
}  # fmt: skip


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum()).removeprefix("ogbn")


_GRAPHS = {graph: family for family, members in FAMILIES.items() for graph in members}
_KNOWN = {_plain(name): family for name, family in _GRAPHS.items()}
_KNOWN |= {_plain(family): family for family in FAMILIES}


def family_of(name: str) -> str:
    """Family of a known dataset, or the family of that name; case, "-" and "_" do not matter."""
    family = _KNOWN.get(_plain(name))
    if family is None:  # it would leave nothing out
        raise ValueError(unknown("dataset", name, _GRAPHS))
    return family


def relatives(name: str) -> tuple[str, ...]:
    """All datasets of the family of ``name``, itself included.

    >>> relatives("Cora")
    ('Cora', 'CoraFull', 'CoraML')
    """
    return FAMILIES[family_of(name)]
