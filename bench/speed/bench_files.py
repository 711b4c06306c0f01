"""How fast is a large CSV file read? Now and by another commit, in turns, in one run.

    python bench/speed/bench_files.py --rows 1_000_000 --classes 7 --commit 5c26dc4

Writes a table of ids and logits, reads it by `read_file` and `read_problem` in processes of their
own, and checks that both commits find the same numbers and ids. Ends with 1 if ten times the speed,
in processor time, is not reached.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TARGET = 10.0
READ = """
import hashlib, json, sys, time
from pathlib import Path
import numpy as np
from simi_mailbox.node_files import read_file, read_problem
found, path = {}, Path(sys.argv[1])
for function in (read_file, read_problem):
    wall, processor = time.perf_counter(), time.process_time()
    result = function(path)
    found[function.__name__] = time.process_time() - processor, time.perf_counter() - wall
ids = "\\n".join(np.asarray(result.nodes.ids).tolist()).encode()
numbers = np.ascontiguousarray(result.values).tobytes()
found["digest"] = hashlib.sha256(ids + numbers).hexdigest()
print(json.dumps(found))
"""


def write(path: Path, rows: int, classes: int) -> None:
    logits = np.random.default_rng(0).normal(size=(rows, classes))
    with path.open("w") as file:
        file.write(",".join(["id", *(f"class {k}" for k in range(classes))]) + "\n")
        for k, row in enumerate(logits.tolist()):
            file.write(f"paper-{k:07d},{','.join(map(repr, row))}\n")


def read(path: Path, source: Path) -> dict[str, object]:
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--commit", default="5c26dc4")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    here = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        path, past = Path(folder, "logits.csv"), Path(folder, "past")
        past.mkdir()
        archive = subprocess.Popen(
            ["git", "-C", str(here), "archive", given.commit, "src"], stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", str(past)], stdin=archive.stdout, check=True)
        write(path, given.rows, given.classes)
        print(f"{given.rows:,} rows, {given.classes} classes, {path.stat().st_size / 1e6:.0f} MB")
        turns = [(read(path, past / "src"), read(path, here / "src")) for _ in range(given.turns)]
    assert all(before["digest"] == now["digest"] for before, now in turns), "other numbers"
    reached = True
    for function in ("read_file", "read_problem"):
        for place, clock in enumerate(("processor", "wall")):
            before, now = (min(turn[k][function][place] for turn in turns) for k in (0, 1))
            print(f"{function:12} {clock:9} {before:6.2f} s -> {now:5.2f} s, {before / now:.1f} x")
            reached &= place == 1 or before / now >= TARGET
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
