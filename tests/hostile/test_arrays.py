"""Array files with made-up sizes and missing ends: one sentence that names the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simi_mailbox import FileFormatError
from simi_mailbox.files import read_npy

HEAD = b"\x93NUMPY\x01\x00"


def npy(text: str) -> bytes:
    return HEAD + len(text).to_bytes(2, "little") + text.encode("latin-1")


CASES = {
    "empty": b"",
    "only the beginning": HEAD,
    "a header without end": npy("{'descr': '<f8'"),
    "terabytes": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"),
    "negative size": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-5,), }\n"),
    "no size": npy("{'descr': '<f8', 'fortran_order': False}\n"),
    "an unknown type": npy("{'descr': '<q99', 'fortran_order': False, 'shape': (1,), }\n"),
    "Python objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"),
    "a list for a table": npy("[1, 2]\n"),
    "text": b"logits\n1,2\n",
}


@pytest.mark.parametrize("case", CASES)
def test_damaged_arrays_are_refused_by_name(case: str, tmp_path: Path) -> None:
    path = tmp_path / "logits.npy"
    path.write_bytes(CASES[case])
    with pytest.raises(FileFormatError, match=r"logits\.npy: it "):
        read_npy(path)


def test_a_whole_array_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert read_npy(tmp_path / "a.npy").tolist() == [0, 1, 2]
