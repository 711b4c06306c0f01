"""Results as shards: each written whole or not at all, and all told by one manifest."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from simi_mailbox._arrays import Array
from simi_mailbox.files import whole_file
from simi_mailbox.scale.store import CHUNK, Digest, Written

MANIFEST = "manifest.json"
CALIBRATOR = "calibrator.safetensors"
PARTS = ("probabilities", "groups")
UNFINISHED = ".unfinished"
"""File that says that a run has begun and not ended: what lies beside it is its own."""
_SHARD = re.compile(r"\d{5}\.(npy|parquet)$|\.\d{5}\.unfinished-")


@dataclass(frozen=True)
class Output:
    """The folder that results go to; ``ending`` is that of the shards of logits."""

    folder: Path
    ending: str

    def check(self) -> None:
        """Raise if the folder holds files under our names that no run has written."""
        manifest = self.folder / MANIFEST
        found = [manifest, self.folder / CALIBRATOR]
        found += [file for part in PARTS for file in (self.folder / part).glob("*")]
        strange = [file for file in found if file.exists()]
        if (self.folder / UNFINISHED).exists() or _is_manifest(manifest):
            made = [file for file in found if file.parent == self.folder or _SHARD.match(file.name)]
            strange = [file for file in strange if file not in made]
        strange = [file for file in strange if not file.name.startswith(".")]
        if strange:
            raise ValueError(
                f"{min(strange)} is no result of an earlier run: move it, or name another folder"
            )

    def prepare(self) -> None:
        """Make the folders; a manifest of an earlier run would not be true any more."""
        for part in PARTS:
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / UNFINISHED).touch()
        (self.folder / MANIFEST).unlink(missing_ok=True)

    def block(self, block: int, probs: Array, groups: Array) -> list[Written]:
        """Two finished shards."""
        path = self.folder / "groups" / f"{block:05d}.npy"
        small = groups.astype(np.uint16)
        return [self._probabilities(block, probs), _written(path, lambda f: np.save(f, small))]

    def _probabilities(self, block: int, probs: Array) -> Written:
        path = self.folder / "probabilities" / f"{block:05d}{self.ending}"
        if self.ending == ".npy":
            return _written(path, lambda file: np.save(file, probs))
        columns = {f"p_{k}": np.ascontiguousarray(probs[:, k]) for k in range(probs.shape[1])}
        return _written(path, lambda file: pyarrow.parquet.write_table(pa.table(columns), file))

    def finish(self, files: list[Written], facts: dict[str, Any]) -> None:
        """Remove shards of earlier runs, and say that all is there."""
        ours = {os.path.abspath(file.path) for file in files}
        for part in PARTS:
            for path in (self.folder / part).iterdir():
                if _SHARD.match(path.name) and os.path.abspath(path) not in ours:
                    path.unlink()
        shards = [
            {
                "file": os.path.relpath(file.path, self.folder),
                "bytes": file.bytes,
                **dict([file.digest.split(":")]),
            }
            for file in files
        ]
        content = json.dumps({**facts, "shards": shards}, indent=1) + "\n"
        with whole_file(self.folder / MANIFEST) as unfinished:
            unfinished.write_text(content, "utf-8")
        (self.folder / UNFINISHED).unlink()


def _is_manifest(path: Path) -> bool:
    """Whether a run has written the manifest."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"method", "engine", "shards"} <= set(found)


def _written(path: Path, write: Any) -> Written:
    digest = Digest("sha256")
    with whole_file(path) as unfinished:
        with unfinished.open("wb") as file:
            write(file)
        with unfinished.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        size = unfinished.stat().st_size
    return Written(str(path), size, str(digest))
