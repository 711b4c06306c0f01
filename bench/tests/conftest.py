"""Settings for all tests of the bench, and the graphs that they share."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for child processes

from functools import cache

import numpy as np
import pytest
from tests.conftest import environment_at_start, no_module_changes_the_next  # noqa: F401

from simi_mailbox_bench import datasets
from simi_mailbox_bench.datasets import catalogue
from tiny import TINY


@cache
def _load(name):
    return datasets.load(name, download=False)


@pytest.fixture
def real():
    """Load a real graph, or skip the test where its file is not on this machine."""

    def load(name):
        if name not in datasets.available():
            pytest.skip(f"{name}.npz is not here: set SIMI_MAILBOX_DATA to a folder that holds it")
        return _load(name)

    return load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder, and an empty cache folder, instead of the machine's own."""
    chosen = tmp_path / "data"
    chosen.mkdir()
    monkeypatch.setenv("SIMI_MAILBOX_DATA", str(chosen))
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path / "cache"))
    return chosen


@pytest.fixture
def tiny(monkeypatch):
    """Catalogue entry of an invented dataset of six nodes; its arrays are `tiny_arrays`."""
    monkeypatch.setitem(catalogue.ENTRIES, "Tiny", TINY)
    return TINY


@pytest.fixture
def tiny_arrays():
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


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The backbones trained in this folder are shared by all tests of the session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def cache(trained):
    """Cache folder with backbones that train for a moment only, in force for one module: tests
    elsewhere see the machine's own folders.
    """
    from simi_mailbox_bench.backbones.settings import PUBLISHED, Settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMI_MAILBOX_CACHE", str(trained))
        patch.delenv("SIMI_MAILBOX_DATA", raising=False)
        patch.setitem(PUBLISHED, "digits", Settings(epochs=12))
        yield trained


@pytest.fixture
def environment(cache):
    """Environment of a subprocess that shares the cache folder."""
    return {**os.environ, "SIMI_MAILBOX_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
