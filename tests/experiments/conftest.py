"""A cache folder of the tests' own, with backbones that train for a moment only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from simi_mailbox.models.settings import PUBLISHED, Settings
from tests.conftest import forget_experiments


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The backbones trained in this folder are shared by all tests of the session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def cache(folder: Path) -> Iterator[Path]:
    """Cache folder, in force for one module: tests elsewhere see the machine's own folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMI_MAILBOX_CACHE", str(folder))
        patch.delenv("SIMI_MAILBOX_DATA", raising=False)
        patch.setitem(PUBLISHED, "digits", Settings(epochs=12))
        forget_experiments()
        yield folder
    forget_experiments()


@pytest.fixture
def environment(cache: Path) -> dict[str, str]:
    """Environment of a subprocess that shares the cache folder."""
    return {**os.environ, "SIMI_MAILBOX_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
