"""Prior files: JSON that a person can read, with everything the prior was learned from.

One comes with the package; a calibrator names it, a part of it, or a file of the user's own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, whole_file
from simi_mailbox.prior.families import family_of
from simi_mailbox.prior.model import (
    INPUTS,
    LEVEL,
    NUMBERS,
    OPTIONAL,
    VAGUE,
    Corpus,
    Prior,
    Setting,
)

FORMAT = "simi-mailbox prior"
VERSION = 4
DIGITS = 8
LEARNED = "learned"
_NAME = re.compile(r"learned(?:@(?P<digest>[0-9a-f]+))?(?: without (?P<family>.+))?")
_WORDS = ("graph", "family", "backbone")
_COUNTS = ("runs", "labels")
_EFFECTS = ("log_degree", "inverse_degree", "blind")
_TABLES = ("fits", "free")
LARGEST_EFFECT = 50.0
"""On a logarithm: no graph is known to come near, and beyond nothing can be solved for."""


def write(corpus: Corpus, path: str | os.PathLike[str]) -> None:
    """Write a corpus and the prior learned from it; the file appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(corpus(), f"{folder}/prior.json")
    ...     read(f"{folder}/prior.json") == corpus()
    True
    """
    with whole_file(path) as unfinished:
        unfinished.write_text(dumps(corpus), encoding="utf-8")


def read(path: str | os.PathLike[str]) -> Corpus:
    """Read a corpus that ``write`` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, is no prior, or was written in a newer format.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(corpus(), f"{folder}/prior.json")
    ...     read(f"{folder}/prior.json").prior() == learned()
    True
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no prior file {os.fspath(path)!r}; prior is 'learned', None or the path "
            "of a file that `simi-mailbox prior fit` wrote"
        ) from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not a prior file: {error}") from error
    return loads(text, str(path))


def dumps(corpus: Corpus) -> str:
    """The text of a prior file.

    Examples
    --------
    >>> setting = Setting("a", "a", "gcn", 1, 99, 0.1, -0.5, -1.0, -2e-4, 1e-4, 1e-3, 0.1)
    >>> loads(dumps(Corpus((setting,)))) == Corpus((setting,))
    True
    """
    from simi_mailbox import __version__

    head: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": __version__,
        "command": corpus.command,
        "checksum": "",
        # For the reader; it is made anew from the settings below whenever it is used.
        "prior": _rounded(corpus.prior().to_dict()),
        "settings": [],
    }
    settings = [_setting_line(setting) for setting in corpus.settings]
    head["checksum"] = _checksum({**head, "settings": [json.loads(line) for line in settings]})
    text = json.dumps(head, indent=1, ensure_ascii=False)
    lines = ",\n".join("  " + line for line in settings)
    return text.replace('"settings": []', f'"settings": [\n{lines}\n ]') + "\n"


def loads(text: str, source: str = "this text") -> Corpus:
    """Read the text of a prior file."""
    try:
        head = json.loads(text)
        if head["format"] != FORMAT:
            raise ValueError(f"its format is {head['format']!r}, not {FORMAT!r}")
        version = head["version"]
        if type(version) is not int:
            raise ValueError(f"its format version is {version!r}, not a whole number")
        if version < VERSION:
            raise ValueError(f"its format version is {version}, expected {VERSION}")
        if version == VERSION:
            settings = tuple(_setting(entry) for entry in head["settings"])
            if not settings:
                raise ValueError("it holds no setting")
            if "checksum" in head and head["checksum"] != _checksum(head):
                raise ValueError(
                    "its content does not match its checksum (if it was changed on purpose, take "
                    "the line with the checksum out)"
                )
            found = Corpus(settings, str(head["command"]))
            found.prior()  # raises where numbers, each fine alone, make no prior
            return found
    except DAMAGE as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise FileFormatError(f"{source} is damaged or not a prior file: {why}") from error
    raise FileFormatError(
        f"{source} has format version {version}, this library reads up to {VERSION}: "
        f"it was written by simi-mailbox {head.get('written_by', '?')}; upgrade to read it"
    )


def digest(text: str) -> str:
    """Eight hex digits naming the content of a prior file."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _checksum(head: dict[str, Any]) -> str:
    rest = {name: value for name, value in head.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _setting_line(setting: Setting) -> str:
    learned = (*NUMBERS, *(OPTIONAL if setting.lucky_weight > 0 else ()))
    tables = [name for name in _TABLES if getattr(setting, name)]
    entry = {name: getattr(setting, name) for name in (*_WORDS, *_COUNTS, *learned, *tables)}
    return json.dumps(_rounded(entry | setting.facts), ensure_ascii=False)


def _setting(entry: dict[str, Any]) -> Setting:
    words = {name: str(entry[name]) for name in _WORDS}
    counts = {name: int(entry[name]) for name in _COUNTS}
    numbers = {name: float(entry[name]) for name in NUMBERS}
    numbers |= {name: float(entry.get(name, 0.0)) for name in OPTIONAL}
    fits = {given: _numbers(fit) for given, fit in entry.get("fits", {}).items()}
    free = _numbers(entry.get("free", {}))
    for level in (numbers, free) if free else (numbers,):
        sensible = min(*counts.values(), level["variance"], level["luck_weight"]) > 0
        if not (sensible and np.isfinite([level[name] for name in LEVEL]).all()):
            raise ValueError(f"the numbers of {entry['graph']} make no sense")
    effects = [numbers[name] for name in _EFFECTS] + [
        x for fit in fits.values() for x in fit.values()
    ]
    moderate = all(abs(x) <= LARGEST_EFFECT for x in effects) and numbers["lucky_weight"] >= 0
    finite = np.isfinite([*numbers.values(), *free.values()]).all()
    whole = all(given in INPUTS and set(fit) <= set(VAGUE) for given, fit in fits.items())
    alike = all("blind" in fit for fit in fits.values())
    if not (moderate and finite and whole and alike):
        raise ValueError(f"the numbers of {entry['graph']} make no sense")
    known = (*_WORDS, *_COUNTS, *NUMBERS, *OPTIONAL, *_TABLES)
    facts = {k: v for k, v in entry.items() if k not in known}
    return Setting(**words, **counts, **numbers, facts=facts, fits=fits, free=free)  # type: ignore[arg-type]


def _numbers(table: dict[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in table.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, dict):
        return {key: _rounded(v) for key, v in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def corpus() -> Corpus:
    """The corpus behind the shipped prior.

    Examples
    --------
    >>> "cora" in corpus().families
    True
    """
    return loads(_text(), "the shipped prior")


def learned() -> Prior:
    """The shipped prior.

    Examples
    --------
    >>> learned().beliefs["plain"].middle["inverse_degree"] < 0  # lonely nodes are too sure
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
    return f"{LEARNED}@{_shipped()} without {family_of(dataset)}"


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
        return read(prior).prior()
    pinned, now = name["digest"], _shipped()
    if pinned is not None and pinned != now:
        raise ValueError(
            f"{os.fspath(prior)!r} names an older or newer shipped prior than this package's "
            f"({now}); use {LEARNED!r}, or the package version that made the name"
        )
    return _part(None if name["family"] is None else family_of(name["family"]))


@functools.cache
def _part(family: str | None) -> Prior:
    whole = corpus()
    return (whole if family is None else whole.without(family)).prior()


@functools.cache
def _shipped() -> str:
    return digest(_text())


@functools.cache
def _text() -> str:
    return resources.files("simi_mailbox.prior").joinpath("learned.json").read_text("utf-8")
