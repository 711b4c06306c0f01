"""Settings for all tests: one thread per process, and property tests without a deadline.

Several test processes with as many threads as cores each would mostly wait for one another; and
machines are shared, so that no example may be failed for its duration.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for child processes

from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("shared", deadline=None, max_examples=40, print_blob=True)
settings.load_profile("shared")


@pytest.fixture(scope="session")
def environment_at_start() -> dict[str, str]:
    return settings_of_the_package()


@pytest.fixture(scope="module", autouse=True)
def no_module_changes_the_next(environment_at_start: dict[str, str]) -> Iterator[None]:
    """Nothing outlives a module, whichever process and order it has: a patch of the environment
    fails the next one, and what was remembered under other patches is forgotten.
    """
    assert settings_of_the_package() == environment_at_start
    yield
    forget_experiments()


def settings_of_the_package() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("SIMI_MAILBOX_")}


def forget_experiments() -> None:
    """Empty the caches of the experiments; keys of rows are fixed but for patches of tests."""
    for name, module in list(sys.modules.items()):
        if name.startswith("simi_mailbox.experiments"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
