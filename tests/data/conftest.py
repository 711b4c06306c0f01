from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simi_mailbox import data
from simi_mailbox.data import catalogue
from simi_mailbox.data.catalogue import Entry

Arrays = dict[str, np.ndarray[Any, Any]]


@cache
def _load(name: str) -> data.NodeDataset:
    return data.load(name, download=False)


@pytest.fixture
def real() -> Callable[[str], data.NodeDataset]:
    """Load a real graph, or skip the test where its file is not on this machine."""

    def load(name: str) -> data.NodeDataset:
        if name not in data.available():
            pytest.skip(f"{name}.npz is not here: set SIMI_MAILBOX_DATA to a folder that holds it")
        return _load(name)

    return load


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and an empty cache folder, instead of the machine's own."""
    chosen = tmp_path / "data"
    chosen.mkdir()
    monkeypatch.setenv("SIMI_MAILBOX_DATA", str(chosen))
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path / "cache"))
    return chosen


TINY = Entry("Tiny", 6, 9, 2, 3, ("WebKB", "Tiny"), "official", self_loops=1)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Entry:
    """Catalogue entry of an invented dataset of six nodes; its arrays are `tiny_arrays`."""
    monkeypatch.setitem(catalogue.ENTRIES, "Tiny", TINY)
    return TINY


@pytest.fixture
def tiny_arrays() -> Arrays:
    masks = np.array([[True, True, False, False, False, False]])
    return {
        "edge_index": np.array(
            [[0, 1, 1, 2, 3, 4, 4, 5, 5], [1, 0, 2, 1, 4, 3, 5, 4, 5]], dtype=np.int32
        ),
        "edge_index_pyg": np.array([[0, 1, 3, 4, 5], [1, 2, 4, 5, 5]], dtype=np.int32),
        "x_data": np.array([2.0, 3.0, 0.5], dtype=np.float32),
        "x_indices": np.array([0, 2, 1], dtype=np.int32),
        "x_indptr": np.array([0, 1, 1, 2, 3, 3, 3], dtype=np.int64),
        "x_shape": np.array([6, 3]),
        "y": np.array([0, 0, 0, 1, 1, 1], dtype=np.int16),
        "train_masks": masks,
        "val_masks": np.roll(masks, 2, axis=1),
        "test_masks": np.roll(masks, 4, axis=1),
    }
