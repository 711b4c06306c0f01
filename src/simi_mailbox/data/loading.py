"""`load`: one function for every dataset, wherever its file is."""

from __future__ import annotations

import os
from pathlib import Path

from simi_mailbox.data import catalogue, files
from simi_mailbox.data.catalogue import Entry
from simi_mailbox.data.dataset import NodeDataset


def cache_folder() -> Path:
    """Folder for downloaded and converted datasets."""
    root = os.environ.get("SIMI_MAILBOX_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "simi-mailbox") / "data"


def folders() -> list[Path]:
    """Folders searched for dataset files, in order."""
    chosen = os.environ.get("SIMI_MAILBOX_DATA")
    return [Path(chosen), cache_folder()] if chosen else [cache_folder()]


def locate(entry: Entry) -> Path | None:
    """File of a dataset in the first folder that holds it."""
    for folder in folders():
        path = folder / entry.file_name
        if path.is_file():
            return path
    return None


def available() -> list[str]:
    """Names of the datasets that can be loaded here without a download."""
    return [name for name, entry in catalogue.ENTRIES.items() if locate(entry) is not None]


def load(name: str, *, directed: bool = False) -> NodeDataset:
    """Load a dataset by name."""
    entry = catalogue.find(name)
    path = locate(entry)
    if path is None:
        looked = ", ".join(str(folder) for folder in folders())
        raise FileNotFoundError(f"{entry.name} is not here: no {entry.file_name} in {looked}")
    if entry.sha256 is not None:
        files.verify(path, entry.sha256)
    return files.read(path, entry, directed=directed)
