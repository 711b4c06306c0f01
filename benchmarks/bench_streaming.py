"""Processor time and memory of streamed synthetic edges.

    python benchmarks/bench_streaming.py             # up to 10⁸ edges, the power law up to 10⁷
    python benchmarks/bench_streaming.py --full      # 10⁸ edges of the power law too

Each line is a process of its own, so that peaks do not mix. It draws the edges block by block,
counts them and lets them go. Time is that of the processor and includes drawing classes and
propensities of the nodes; memory is the peak beyond what the process held once the package was
imported (Linux). Beside it stands what the edges alone would take as one array of int64, both ends
of each edge once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

# law, nodes, edges; the last only with --full
CASES = (
    ("constant", 1_000_000, 10_000_000),
    ("power", 1_000_000, 10_000_000),
    ("constant", 5_000_000, 100_000_000),
    ("power", 5_000_000, 100_000_000),
)


def stream(law: str, nodes: int, edges: int, block: int) -> dict[str, float]:
    """Draw about ``edges`` edges in this process and say what it took."""
    from simi_mailbox.data.synthetic import BlockModel, stream_edges

    before, start = _status("VmRSS"), time.process_time()
    model = BlockModel(nodes, mean_degree=2 * edges / nodes, degree_law=law)  # type: ignore[arg-type]
    drawn = sum(ends.shape[1] for ends in stream_edges(model, block=block))
    seconds = time.process_time() - start
    return {"edges": drawn, "seconds": seconds, "peak": _status("VmHWM") - before, "start": before}


def _status(field: str) -> int:
    """Bytes of this process: now (VmRSS) or at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def in_a_fresh_process(law: str, nodes: int, edges: int, block: int) -> dict[str, float]:
    """The same, where nothing else has used memory."""
    case = json.dumps([law, nodes, edges, block])
    command = [sys.executable, __file__, "--case", case]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print one line for each case, and the ratio of the two laws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="also 10⁸ edges of the power law")
    parser.add_argument("--block", type=int, default=1 << 20, help="edges per block (2²⁰)")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.case:
        print(json.dumps(stream(*json.loads(chosen.case))))
        return
    print("| degrees | nodes | edges | processor time | edges per second | peak | as one array |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    times: dict[tuple[int, str], float] = {}
    start = 0.0
    for law, nodes, edges in CASES if chosen.full else CASES[:-1]:
        found = in_a_fresh_process(law, nodes, edges, chosen.block)
        seconds, start = found["seconds"], found["start"]
        times[edges, law] = seconds
        print(
            f"| {law} | {nodes:,} | {found['edges']:,} | {seconds:.2f} s "
            f"| {found['edges'] / seconds / 1e6:.1f} M | {found['peak'] / 1e6:.0f} MB "
            f"| {16 * found['edges'] / 1e6:,.0f} MB |",
            flush=True,
        )
    print(f"\nBlocks of {chosen.block:,} edges; the process began with {start / 1e6:.0f} MB.")
    for edges in sorted({edges for edges, _ in times}):
        if (edges, "power") in times:
            ratio = times[edges, "power"] / times[edges, "constant"]
            print(f"power / constant at {edges:,} edges: {ratio:.1f} × the time")


if __name__ == "__main__":
    main()
