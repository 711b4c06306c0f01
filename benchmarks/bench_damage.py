"""Damaged files: each loads to the same bits, or is refused; nothing in between.

    python benchmarks/bench_damage.py            # 2,000 flipped bits and 500 cut ends

Files of every method and of the prior take turns. Prints what became of them; exits with 1 if a
damaged file gave another answer or another error than `FileFormatError`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import simi_mailbox
from simi_mailbox import FileFormatError, Graph, calibrators, prior

QUICK = {"epochs": 5, "patience": 5, "partitions": 2}


def signature(cal: Any) -> bytes:
    """All that a fitted calibrator holds, as bytes."""
    return repr((cal.get_params(), _plain(cal._state()))).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in sorted(value.items())}
    if hasattr(value, "shape"):
        array = np.asarray(value)
        return array.dtype.str, array.shape, array.tobytes().hex()
    return value


def make_files(folder: Path) -> list[tuple[Path, Callable[[Path], bytes]]]:
    """A file of every method and one of a prior, and what reads each."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(80, 3)) * 2
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(1)
    graph = Graph.from_edges(rng.integers(80, size=(2, 200)), 80)
    files: list[tuple[Path, Callable[[Path], bytes]]] = []
    for name in calibrators.names():
        method = calibrators.get(name)
        if "forward" in method.needs:
            continue
        offered = {"graph": graph, "features": z}
        settings = {key: QUICK[key] for key in QUICK if key in method().get_params()}
        cal = method(**settings).fit(
            z, y, mask=np.arange(60), **{key: offered[key] for key in method.needs}
        )
        cal.save(folder / name)
        files.append((folder / name, lambda path: signature(simi_mailbox.load(path))))
    prior.write(prior.corpus(), folder / "prior.json")
    files.append((folder / "prior.json", lambda path: repr(prior.read(path)).encode()))
    return files


def main() -> int:
    """Damage files, one bit or one cut at a time, and count what becomes of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--cuts", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    outcome: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        files = make_files(Path(name))
        contents = [(path.read_bytes(), read, read(path)) for path, read in files]
        target = Path(name) / "damaged"
        for case in range(options.flips + options.cuts):
            whole, read, expected = contents[case % len(contents)]
            if case < options.flips:
                bit = int(rng.integers(8 * len(whole)))
                damaged = bytearray(whole)
                damaged[bit // 8] ^= 1 << bit % 8
            else:
                damaged = bytearray(whole[: int(rng.integers(len(whole)))])
            target.write_bytes(damaged)
            try:
                found = "identical" if read(target) == expected else "DIFFERENT"
            except FileFormatError:
                found = "refused"
            except Exception as error:
                found = f"CRASH: {type(error).__name__}"
            outcome[found] += 1
    for what, count in sorted(outcome.items()):
        print(f"{count:6d} {what}")
    return 0 if set(outcome) <= {"identical", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
