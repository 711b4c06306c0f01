"""CPU seconds until the command and the package answer: medians of ten new processes.

Run ``python bench/speed/bench_startup.py``. CPU time, not wall time: other processes on the machine
change it little. Exits with 1 if a limit is passed or a heavy library was imported.
"""

import os
import resource
import statistics
import subprocess
import sys

HELP, IMPORT = 0.4, 0.3
COMMAND = "from simi_mailbox.cli import main; main()"
CASES = {
    "import simi_mailbox": (IMPORT, "import simi_mailbox", [], {}),
    "simi-mailbox --help": (HELP, COMMAND, ["--help"], {}),
    "simi-mailbox calibrate --help": (HELP, COMMAND, ["calibrate", "--help"], {}),
    "simi-mailbox report nowhere.npy": (HELP, COMMAND, ["report", "nowhere.npy"], {}),
    "simi-mailbox calibrate nowhere.csv": (HELP, COMMAND, ["calibrate", "nowhere.csv"], {}),
    "completion of fit --method": (
        HELP,
        COMMAND,
        [],
        {
            "_SIMI_MAILBOX_COMPLETE": "bash_complete",
            "COMP_WORDS": "simi-mailbox fit --method t",
            "COMP_CWORD": "3",
        },
    ),
}
RUNS = 10


def seconds(code: str, arguments: list[str], environment: dict[str, str]) -> float:
    """User and system time of one new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main() -> int:
    """Print a line per case; 1 if one is too slow."""
    slow = 0
    for name, (limit, code, arguments, environment) in CASES.items():
        median = statistics.median(seconds(code, arguments, environment) for _ in range(RUNS))
        slow += median > limit
        print(f"{name:<36} {median:5.2f} s  (at most {limit:.1f}{'' if median <= limit else ' !'})")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
