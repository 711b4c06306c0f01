"""A cache folder of the tests' own, with backbones that train for a moment only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from simi_mailbox.experiments import calibration, logits
from simi_mailbox.models.settings import PUBLISHED, Settings


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Cache folder; the backbones trained in it are shared by all tests of the session."""
    folder = tmp_path_factory.mktemp("cache")
    patch = pytest.MonkeyPatch()
    patch.setenv("SIMI_MAILBOX_CACHE", str(folder))
    patch.delenv("SIMI_MAILBOX_DATA", raising=False)
    patch.setitem(PUBLISHED, "digits", Settings(epochs=12))
    forget()
    yield folder
    patch.undo()
    forget()


def forget() -> None:
    """Keys depend on the settings of backbones, which are fixed but for these tests."""
    logits._digest.cache_clear()
    calibration._key.cache_clear()


@pytest.fixture
def environment(cache: Path) -> dict[str, str]:
    """Environment of a subprocess that shares the cache folder."""
    return {**os.environ, "SIMI_MAILBOX_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
