"""`load`: one function for every dataset, wherever its data are."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from simi_mailbox.files import cache_folder
from simi_mailbox_bench.datasets import arxiv, catalogue, files, pyg
from simi_mailbox_bench.datasets.catalogue import Entry
from simi_mailbox_bench.datasets.dataset import NodeDataset
from simi_mailbox_bench.datasets.digits import digits

_HOMOPHILY_TOLERANCE = 0.005
_PROVIDERS = {"ogb": "OGB's archive", "pyg": "PyG's loader"}


@dataclass(frozen=True)
class Found:
    """A dataset file on this machine and the checksum it must have (None: none is known)."""

    path: Path
    sha256: str | None
    source: str


def load(name: str, *, directed: bool = False, download: bool = True) -> NodeDataset:
    """Load a dataset by name.

    Looked for in this order: the file ``<name>.npz`` in the folder that the environment variable
    ``SIMI_MAILBOX_DATA`` names, then in the cache folder (``~/.cache/simi-mailbox/data``); then,
    if ``download`` is true, through PyG's loader, keeping a converted copy in the cache folder.

    Parameters
    ----------
    name
        Any of `names`, whatever its case.
    directed
        Keep the edges' directions where PyG's loader keeps them (Chameleon, Squirrel, Actor,
        Texas, Wisconsin, Cornell; also Arxiv's citations). By default edges are undirected.
    download
        Whether to ask the network for what is not here.

    Raises
    ------
    ValueError
        The name is unknown, or a file is damaged, has a wrong checksum or wrong content.
    FileNotFoundError
        The data are not here and could not be downloaded; the message says what to do.

    Examples
    --------
    >>> load("digits").x.shape
    (1797, 64)
    """
    entry = catalogue.find(name)
    if entry.origin == "scikit-learn":
        return digits()
    found = locate(entry)
    if found is None:
        dataset = _obtain(entry, directed=directed, download=download)
    else:
        if found.sha256 is not None:
            files.verify(found.path, found.sha256)
        dataset = files.read(found.path, entry, directed=directed, source=found.source)
        _check_homophily(dataset, entry, str(found.path))
    if entry.folds and dataset.folds is None:
        warnings.warn(
            f"this copy of {entry.name} lacks the published 3-fold splits; protocol 'folds' "
            "draws others by the same rule",
            stacklevel=2,
        )
    return dataset


def available() -> list[str]:
    """Names of the datasets that can be loaded here without a download.

    Examples
    --------
    >>> "Digits" in available()
    True
    """
    return [name for name, entry in catalogue.ENTRIES.items() if is_here(entry)]


def is_here(entry: Entry) -> bool:
    """Whether a dataset can be loaded without a download."""
    if entry.origin == "scikit-learn" or locate(entry) is not None:
        return True
    return entry.origin == "ogb" and arxiv.find_raw(folders()) is not None


def folders() -> list[Path]:
    """Folders searched for dataset files, in order."""
    chosen, cache = os.environ.get("SIMI_MAILBOX_DATA"), cache_folder("data")
    return [Path(chosen), cache] if chosen else [cache]


def locate(entry: Entry) -> Found | None:
    """File of a dataset in the first folder that holds it."""
    for folder in folders():
        path = folder / entry.file_name
        if path.is_file():
            return Found(path, entry.sha256 or files.read_checksum(path), "file")
        converted = _converted_path(entry, folder)
        if converted.is_file():
            # Byte for byte a conversion differs from the original file, so it is checked
            # against the sum noted when it was made.
            return Found(converted, files.read_checksum(converted), "converted")
    return None


def _converted_path(entry: Entry, folder: Path) -> Path:
    return folder / f"{entry.name}.converted.npz"


def _obtain(entry: Entry, *, directed: bool, download: bool) -> NodeDataset:
    """Read the dataset from its origin, and keep it as a file in the cache folder."""
    cache = cache_folder("data")
    try:
        if entry.origin == "ogb":
            raw = arxiv.find_raw(folders())
            if raw is None and not download:
                raise FileNotFoundError("downloading is switched off (download=False)")
            arrays = arxiv.read_raw(raw or arxiv.download(cache))
        elif not download:
            raise FileNotFoundError("downloading is switched off (download=False)")
        else:
            arrays = pyg.download(entry, cache / "pyg")
    except ValueError:
        raise  # a damaged local file: the message says which, and downloading would not help
    except Exception as error:  # whatever PyG, its download layer or the network throws
        raise FileNotFoundError(_what_to_do(entry, error)) from error
    origin = f"the copy of {entry.name} that {_PROVIDERS[entry.origin]} provides"
    try:
        dataset = files.from_arrays(arrays, entry, directed=directed, source=entry.origin)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{origin} is not usable: {error}") from error
    _check_homophily(dataset, entry, origin)
    path = _converted_path(entry, cache)
    try:
        files.write(path, arrays)
    except OSError as error:
        warnings.warn(f"could not keep {entry.name} in {path}: {error}", stacklevel=3)
    return dataset


def _what_to_do(entry: Entry, error: Exception) -> str:
    looked = " and ".join(str(folder) for folder in folders())
    checksum = f" (sha256 {entry.sha256})" if entry.sha256 else ""
    provider = _PROVIDERS[entry.origin]
    also = f", or OGB's {arxiv.ARCHIVE} from {arxiv.URL}" if entry.origin == "ogb" else ""
    return (
        f"{entry.name} is not here: there is no {entry.file_name} in {looked}, and {provider} "
        f"did not provide it: {error or type(error).__name__}. Either put {entry.file_name}"
        f"{checksum}{also} into {folders()[0]}, or set SIMI_MAILBOX_DATA to the folder that holds "
        "it, or load it once with a network connection and simi-mailbox[pyg] installed."
    )


def _check_homophily(dataset: NodeDataset, entry: Entry, what: str) -> None:
    # Catches a copy with the right counts and the wrong labels: Cornell in the repository that
    # PyG downloads from (graphdml-uiuc-jlu/geom-gcn@f1fc0d14) holds Texas's features and labels
    # beside Cornell's edges (homophily 0.256 instead of 0.123).
    if entry.homophily is None or dataset.graph.is_directed:
        return
    measured = dataset.homophily()
    if abs(measured - entry.homophily) > _HOMOPHILY_TOLERANCE:
        raise ValueError(
            f"{what} is not {entry.name} as published: {measured:.3f} of its edges join one "
            f"class, expected {entry.homophily:.3f}; labels and edges do not belong together. "
            f"Put an intact {entry.file_name} into {folders()[0]} instead (docs/data.md)."
        )
