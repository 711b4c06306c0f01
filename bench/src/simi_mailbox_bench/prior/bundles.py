"""Bundles: the arrays of one model in one ``.npz`` file, under one set of names."""

from __future__ import annotations

from collections.abc import Sequence

from simi_mailbox._arrays import Arrays
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import Archive, StrPath, is_archive, open_archive, read_npy
from simi_mailbox.node_files.columns import NAMES


def read_bundle(
    path: StrPath, need: Sequence[str] = ("logits",), may: Sequence[str] = tuple(NAMES)
) -> Arrays:
    """Parts of a ``.npz`` file by their first names in `NAMES`, or the logits of a ``.npy``."""
    if list(need) == ["logits"] and not is_archive(path):
        return {"logits": read_npy(path)}
    with open_archive(path) as archive:
        found = {part: _name(path, archive, part) for part in dict.fromkeys((*need, *may))}
        missing = [part for part in need if found[part] is None]
        if missing:
            raise _lacks(path, archive, missing)
        return {part: archive[name] for part, name in found.items() if name is not None}


def _name(path: StrPath, archive: Archive, part: str) -> str | None:
    found = [name for name in NAMES.get(part, (part,)) if name in archive]
    if len(found) > 1:
        raise FileFormatError(
            f"{path}: it holds both {found[0]!r} and {found[1]!r}: keep one of them"
        )
    return found[0] if found else None


def _lacks(path: StrPath, archive: Archive, parts: Sequence[str]) -> FileFormatError:
    names = [" or ".join(repr(name) for name in NAMES.get(part, (part,))) for part in parts]
    return FileFormatError(
        f"{path}: it has no array {', no '.join(names)}; it has: {', '.join(archive) or 'nothing'}"
    )
