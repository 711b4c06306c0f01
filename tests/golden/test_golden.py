"""Outputs on fixed inputs are what they were: a refactoring changes names, not numbers.

After a change of behaviour that is meant, ``python -m tests.golden.regenerate ENTRY …`` stores the
entries that changed.
"""

import json
from pathlib import Path

import pytest

from tests.golden.entries import ENTRIES, computed

STORED = Path(__file__).parent / "golden.json"
GOLDEN = json.loads(STORED.read_text("utf-8"))
TOLERANCE = {"abs": 3e-4, "rel": 1e-5}
"""Of sums over all numbers: far above the last bits by which machines differ."""


def test_every_entry_is_stored():
    assert sorted(GOLDEN) == sorted(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_outputs_are_as_stored(name):
    found, stored = computed(name), GOLDEN[name]
    assert list(found) == list(stored)
    different = []
    for key, value in found.items():
        if isinstance(value, dict):
            same = value["shape"] == stored[key]["shape"]
            same = same and value["values"] == pytest.approx(stored[key]["values"], **TOLERANCE)
        else:
            same = value == stored[key]
        if not same:
            different.append(f"{key}: {value}, stored {stored[key]}")
    assert not different, f"entry {name!r} differs:\n" + "\n".join(different)
