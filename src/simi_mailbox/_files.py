"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write under another name in the same folder; the file gets its own at the end of the block.

    After an error or a kill the old file, if any, is as it was.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/a.txt") as unfinished:
    ...         _ = unfinished.write_text("done")
    ...     os.listdir(folder)
    ['a.txt']
    """
    target = Path(path)
    try:
        # The ending stays, because some writers add the one they expect.
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.stem}.", suffix=target.suffix
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no folder {target.parent} to write into") from error
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        umask = os.umask(0)
        os.umask(umask)
        unfinished.chmod(0o666 & ~umask)  # mkstemp makes files that only the owner can read
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # else a power cut could rename a file before its content
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
