"""Settings for all tests: one thread per process, and property tests without a deadline.

Several test processes with as many threads as cores each would mostly wait for one another; and
machines are shared, so that no example may be failed for its duration.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for child processes

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
