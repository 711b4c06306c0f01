"""Settings for all tests: one thread per process, and property tests without a deadline.

Several test processes with as many threads as cores each would mostly wait for one another; and
machines are shared, so that no example may be failed for its duration.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for child processes

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Where a verdict is asked for, a property is tried on the same examples every time: a change is
# judged by what it changed. Everyone else's runs look for new ones.
settings.register_profile(
    "shared", deadline=None, max_examples=40, print_blob=True, derandomize="CI" in os.environ
)
settings.load_profile("shared")


@pytest.fixture(scope="session")
def environment_at_start() -> dict[str, str]:
    return settings_of_the_package()


@pytest.fixture(scope="module", autouse=True)
def no_module_changes_the_next(environment_at_start: dict[str, str]) -> None:
    """Nothing outlives a module, whichever process and order it has."""
    assert settings_of_the_package() == environment_at_start


def settings_of_the_package() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("SIMI_MAILBOX_")}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The backbones trained in this folder are shared by all tests of the session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def cache(trained: Path) -> Iterator[Path]:
    """Cache folder with backbones that train for a moment only, in force for one module: tests
    elsewhere see the machine's own folders.
    """
    from simi_mailbox.models.settings import PUBLISHED, Settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMI_MAILBOX_CACHE", str(trained))
        patch.delenv("SIMI_MAILBOX_DATA", raising=False)
        patch.setitem(PUBLISHED, "digits", Settings(epochs=12))
        yield trained


@pytest.fixture
def environment(cache: Path) -> dict[str, str]:
    """Environment of a subprocess that shares the cache folder."""
    return {**os.environ, "SIMI_MAILBOX_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
