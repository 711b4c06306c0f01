"""How often a stream of days without drift raises an alarm, and how soon it finds a drop.

Run ``python bench/speed/bench_stream.py [STREAMS] [DAYS]``: simulated days of 20 labels each, whose
confidence is uniform between .6 and 1; p-values of drift are uniform while nothing drifts.
"""

import sys

import numpy as np

from simi_mailbox.monitor import Stream

LABELS, DROP = 20, 0.05


def run(rng: np.random.Generator, days: int, drop_from: int | None, drop: float = DROP) -> Stream:
    """A stream, until its first alarm."""
    stream = Stream()
    for day in range(days):
        confidence = rng.uniform(0.6, 1.0, size=LABELS)
        right = rng.random(LABELS) < confidence - drop * (
            drop_from is not None and day >= drop_from
        )
        if stream.add(confidence, right, p=float(rng.random())).alarm:
            break
    return stream


def main() -> None:
    """Print the share of false alarms, and labels until a drop is found."""
    streams, days = (int(word) for word in (*sys.argv[1:], "300", "1000")[:2])
    rng = np.random.default_rng(0)
    false = sum(bool(run(rng, days, None).alarm) for _ in range(streams))
    print(f"no drift, {days} days: {false} of {streams} streams ever raise an alarm")
    for start in (0, 100):
        found = []
        for _ in range(streams):
            stream = run(rng, start + 1000, start)
            late = stream.alarm == "overconfident" and stream.since > start
            found.append((stream.since - start) * LABELS if late else np.inf)
        half, most = np.quantile(found, [0.5, 0.9], method="higher")
        print(
            f"a drop of {100 * DROP:.0f} points from day {start + 1}: found after {half:.0f} "
            f"labels in half of the streams, after {most:.0f} in nine of ten"
        )


if __name__ == "__main__":
    main()
