"""Folders that a run writes into: one run at a time, and nothing that is somebody else's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simi_mailbox.files import whole_file

LOCK = ".lock"
WORK_FILE = "work.json"
JOURNAL = "journal"
MAKER = {"made_by": "simi-mailbox", "version": 1}
"""Says whose work a folder holds; one of another version is made anew."""

_ARRAY = re.compile(r"[a-z-]+/(\d[\d-]*\.npy|\.\d[\d-]*\.npy\.\d+-[0-9a-f]+)")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if need be; another run that holds it is told of.

    The system drops the lock of a process that is killed, so that what is left of it does no harm.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # not a POSIX system
        folder.mkdir(parents=True, exist_ok=True)
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise BlockingIOError(
                f"another run works in {folder}: wait until it has ended, or name another folder"
            ) from None
        if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
            break
        os.close(file)  # it was removed by the one who had it: the next is another file
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def claim(place: Path, facts: Mapping[str, Any], *, ours: bool) -> bool:
    """Make the work folder that of a run with these ``facts``; whether it had to be emptied.

    ``ours``: whether its name says that it holds nothing else. Any other folder is emptied only if
    its `WORK_FILE` is one that was written here, and never of files that were not.
    """
    content, path = json.dumps({**MAKER, **facts}), place / WORK_FILE
    found = path.read_text("utf-8") if path.exists() else None
    if found == content:
        return False
    files = [file for file in place.rglob("*") if file.is_symlink() or not file.is_dir()]
    strange = [file for file in files if not _is_made_here(file.relative_to(place))]
    if found is None and not ours:
        strange = [file for file in files if file.name != LOCK]
    elif found is not None and not _is_marked(found):
        strange = [path]
    if strange:
        raise ValueError(
            f"{place} holds other files ({min(strange).relative_to(place)}): name a folder of its "
            "own for work"
        )
    clear(place)
    with whole_file(path) as unfinished:
        unfinished.write_text(content, "utf-8")
    return True


def clear(place: Path) -> None:
    """Remove what runs have made in a work folder, last of all what says that they have."""
    folders = [entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink()]
    for folder in folders:
        for file in folder.iterdir():
            if _is_made_here(file.relative_to(place)):
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
    for name in (JOURNAL, WORK_FILE):
        (place / name).unlink(missing_ok=True)


def _is_made_here(file: Path) -> bool:
    text = file.as_posix()
    unfinished = text.startswith(f".{Path(WORK_FILE).stem}.unfinished-")
    return text in (LOCK, JOURNAL, WORK_FILE) or unfinished or bool(_ARRAY.fullmatch(text))


def _is_marked(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("made_by") == MAKER["made_by"]
