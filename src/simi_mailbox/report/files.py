"""Reading what a report is made from out of NumPy files, without ever running code from them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simi_mailbox.exceptions import FileFormatError

KEYS: dict[str, tuple[str, ...]] = {
    "logits": ("logits",),
    "edges": ("edges", "edge_index"),
    "labels": ("labels", "y"),
    "calibration": ("calibration", "val", "val_mask"),
    "test": ("test", "test_mask"),
    "train": ("train", "train_mask"),
    "classes": ("classes", "class_names"),
}
"""What each part may be called in a bundle (.npz)."""

_NPY, _ZIP, _PICKLE = b"\x93NUMPY", b"PK\x03\x04", b"\x80"


def read_bundle(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Parts of a report from one file: all that a ``.npz`` holds, or the logits of a ``.npy``.

    Raises
    ------
    FileFormatError
        If the file is no NumPy file, is damaged, holds Python objects or no logits.
    FileNotFoundError
        If it is not there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/bundle.npz", logits=np.zeros((4, 2)), y=np.zeros(4))
    ...     sorted(read_bundle(Path(f"{folder}/bundle.npz")))
    ['labels', 'logits']
    """
    if not _is_zip(path):
        return {"logits": read_array(path, "logits")}
    parts = {}
    with _open(path) as bundle:
        for part, names in KEYS.items():
            found = [name for name in names if name in bundle.files]
            if len(found) > 1:
                raise FileFormatError(
                    f"{path} holds both {found[0]!r} and {found[1]!r}: keep one of them"
                )
            if found:
                parts[part] = _member(path, bundle, found[0])
        if "logits" not in parts:
            raise FileFormatError(
                f"{path} has no array 'logits'; it has: {', '.join(bundle.files) or 'nothing'}"
            )
    return parts


def read_array(path: Path, part: str) -> npt.NDArray[Any]:
    """One array from a ``.npy``, or the array called ``part`` (or the only one) of a ``.npz``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/labels.npy", np.array([0, 1]))
    ...     read_array(Path(f"{folder}/labels.npy"), "labels").tolist()
    [0, 1]
    """
    if not _is_zip(path):
        with _open(path) as array:
            return _array(path, array)
    with _open(path) as bundle:
        names: Sequence[str] = [n for n in KEYS.get(part, (part,)) if n in bundle.files]
        if not names and len(bundle.files) == 1:
            names = bundle.files
        if not names:
            raise FileFormatError(
                f"{path} has no array {part!r}; it has: {', '.join(bundle.files) or 'nothing'}"
            )
        return _member(path, bundle, names[0])


def _is_zip(path: Path) -> bool:
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; expected a .npy or .npz file")
    try:
        with path.open("rb") as file:
            start = file.read(6)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    if start.startswith(_ZIP):
        return True
    if start.startswith(_NPY):
        return False
    if start.startswith(_PICKLE):
        raise FileFormatError(
            f"{path} is a pickle, which can run code when it is read; save the array with "
            "numpy.save instead"
        )
    raise FileFormatError(
        f"{path} is {'empty' if not start else 'not a NumPy file'}; expected .npy or .npz, as "
        "written by numpy.save or numpy.savez"
    )


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """`numpy.load` that never unpickles and that says what is wrong with the file."""
    try:
        file = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise _explained(path, error) from error
    try:
        yield file
    finally:
        if not isinstance(file, np.ndarray):
            file.close()


def _member(path: Path, bundle: Any, name: str) -> npt.NDArray[Any]:
    try:
        return _array(path, bundle[name])
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise _explained(path, error, name) from error


def _array(path: Path, array: Any) -> npt.NDArray[Any]:
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path} does not hold an array")
    return array


def _explained(path: Path, error: Exception, name: str | None = None) -> FileFormatError:
    what = str(path) if name is None else f"array {name!r} of {path}"
    if "allow_pickle" in str(error):
        return FileFormatError(
            f"{what} holds Python objects, which could run code when read; save it as an array of "
            "numbers (or of text, for names)"
        )
    return FileFormatError(f"{what} is damaged: {error}")
