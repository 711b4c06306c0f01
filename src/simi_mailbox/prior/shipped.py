"""The prior that comes with the package, and how a calibrator names a prior."""

from __future__ import annotations

import functools
import os
import re
from importlib import resources

from simi_mailbox.prior import files
from simi_mailbox.prior.corpus import Corpus
from simi_mailbox.prior.model import Prior

LEARNED = "learned"
_NAME = re.compile(r"learned(?:@(?P<digest>[0-9a-f]+))?(?: without (?P<family>.+))?")


def corpus() -> Corpus:
    """The corpus behind the shipped prior.

    Examples
    --------
    >>> "cora" in corpus().families
    True
    """
    return files.loads(_text(), "the shipped prior")


def learned() -> Prior:
    """The shipped prior.

    Examples
    --------
    >>> learned().few < 0  # nodes with few neighbours are over-confident
    True
    """
    return resolve(LEARNED)


def leave_out(dataset: str) -> str:
    """Name of the shipped prior learned without a dataset and all its relatives.

    What is measured on a graph must not be learned on it: tables use
    ``SimiMailbox(prior=leave_out("Cora"))``. The name also pins the content of the shipped file,
    so that results of different priors are never taken for each other.

    Examples
    --------
    >>> leave_out("CoraFull").split("without ")[1]
    'cora'
    """
    return f"{LEARNED}@{files.digest(_text())} without {family_of(dataset)}"


def resolve(prior: str | os.PathLike[str]) -> Prior:
    """The prior that a calibrator's parameter names: the shipped one, a part of it, or a file.

    Examples
    --------
    >>> resolve("learned without Cora") == learned()
    False
    """
    if not isinstance(prior, str | os.PathLike):
        raise TypeError(f"prior must be 'learned', None or the path of a prior file, got {prior!r}")
    name = _NAME.fullmatch(os.fspath(prior))
    if name is None:
        return files.read(prior).prior()
    pinned, now = name["digest"], files.digest(_text())
    if pinned is not None and pinned != now:
        raise ValueError(
            f"{os.fspath(prior)!r} names an older or newer shipped prior than this package's "
            f"({now}); use {LEARNED!r}, or the package version that made the name"
        )
    return _part(None if name["family"] is None else family_of(name["family"]))


def family_of(name: str) -> str:
    """Family of a dataset of the catalogue, or the family of that name.

    One that nobody knows is an error: it would leave nothing out.

    Examples
    --------
    >>> family_of("Photo"), family_of("coauthor")
    ('amazon', 'coauthor')
    """
    from simi_mailbox.data.catalogue import ENTRIES, find

    families = {entry.family for entry in ENTRIES.values()}
    return name if name in families else find(name).family


@functools.cache
def _part(family: str | None) -> Prior:
    whole = corpus()
    return (whole if family is None else whole.without(family)).prior()


@functools.cache
def _text() -> str:
    return resources.files("simi_mailbox.prior").joinpath("learned.json").read_text("utf-8")
