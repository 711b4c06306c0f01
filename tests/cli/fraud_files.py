"""Files of a fraud desk: one score per account, rare frauds, a model trained with class weights."""

import numpy as np

from tests.cli.conftest import write


def accounts(n, share, seed):
    """Labels, scores whose odds are too high, edges and ids."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    score = 1.8 * rng.normal(size=n) + 4.0 * y - 1.0
    ends = rng.integers(0, n, (2, 3 * n))
    ends = ends[:, (y[ends[0]] == y[ends[1]]) | (rng.random(3 * n) < 0.4)]
    return y, score, ends, [f"acc{i}" for i in range(n)]


def write_day(folder, end, *, n, share, seed, known, world=0):
    """Scores, edges and labels of the first ``known`` of ``n`` accounts, all labels as truth.

    They are the first of a ``world`` of accounts that grows from day to day.
    """
    y, score, ends, ids = accounts(world or n, share, seed)
    y, score, ids, ends = y[:n], score[:n], ids[:n], ends[:, (ends < n).all(axis=0)]
    names = ("legit", "fraud")
    write(folder / f"scores{end}.csv", ["id", "score"], *zip(ids, score, strict=True))
    write(folder / f"edges{end}.csv", ["source", "target"], *((ids[a], ids[b]) for a, b in ends.T))
    labels = [(ids[i], names[y[i]]) for i in range(n)]
    write(folder / f"labels{end}.csv", ["id", "label"], *labels[:known])
    write(folder / f"truth{end}.csv", ["id", "label"], *labels)
    write(folder / f"test{end}.csv", ["id"], *([one] for one in ids[known:]))
    write(folder / f"calibration{end}.csv", ["id"], *([one] for one in ids[:known]))
    return y
