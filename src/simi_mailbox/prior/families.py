"""Which graphs are relatives: of one origin, so that what is learned on one knows the others.

This table alone decides what a prior leaves out, and needs no dataset to do so.
"""

from __future__ import annotations

from simi_mailbox.suggestions import unknown

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
    "tolokers": ("Tolokers",),
    "questions": ("Questions",),
    "digits": ("Digits",),
}


def family_of(name: str) -> str:
    """Family of a known dataset, or the family of that name; case, "-" and "_" do not matter.

    One that nobody knows is an error: it would leave nothing out.

    Examples
    --------
    >>> family_of("Photo"), family_of("coauthor"), family_of("cora_ml")
    ('amazon', 'coauthor', 'cora')
    """
    graphs = {graph: family for family, members in FAMILIES.items() for graph in members}
    known = {_plain(graph): family for graph, family in graphs.items()}
    known |= {_plain(family): family for family in FAMILIES}
    if _plain(name) in known:
        return known[_plain(name)]
    raise ValueError(unknown("dataset", name, graphs))


def relatives(name: str) -> tuple[str, ...]:
    """All datasets of the family of ``name``, itself included.

    Examples
    --------
    >>> relatives("Cora")
    ('Cora', 'CoraFull', 'CoraML')
    """
    return FAMILIES[family_of(name)]


def _plain(name: str) -> str:
    kept = "".join(letter for letter in name.lower() if letter.isalnum())
    return kept.removeprefix("ogbn")
