"""Whether what a graph shows without labels tells the coefficients that its labels will.

    python bench/speed/bench_prior_means.py            # of the prior that comes with the package

For every term of the baseline and every statistic: how far the coefficients of a family of graphs
are from what all others expect of them, once by a line in the statistic, once by their median
alone; the ratio of the mean distances. Below 1 the statistic tells something. The statistics are
those of the logit bank's runs; a setting that the bank does not hold is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.prior.files import corpus, read
from simi_mailbox.prior.model import EITHER_SIGN, Setting
from simi_mailbox_bench.backbones.cached_runs import RunCache
from simi_mailbox_bench.prior.learning import FEWEST_NODES, banked_keys, banked_look
from simi_mailbox_bench.prior.looks import Look

INPUTS = "hidden trained"


def _confidence(look: Look) -> float:
    gaps = look.gaps[look.labels :].astype(np.float64)
    return float((1.0 / np.exp(gaps).sum(axis=1)).mean())


STATISTICS: dict[str, Callable[[Look], float]] = {
    "confidence": _confidence,
    "overlap": lambda look: float(look.similarity.mean()),
    "degree": lambda look: float(np.log1p(look.degree).mean()),
    "classes": lambda look: float(np.log(look.gaps.shape[1])),
    "labels": lambda look: float(np.log(look.labels)),
}


def statistics(bank: RunCache, setting: Setting) -> list[float] | None:
    """Of a setting's runs in the bank, on average; None if it has none."""
    for keys in banked_keys(bank, [setting.graph], [setting.backbone], FEWEST_NODES):
        looks = [look.own for key in keys if (look := banked_look(bank, key)) is not None]
        return [float(np.mean([each(look) for look in looks])) for each in STATISTICS.values()]
    return None


def distances(values: Floats, x: Floats, families: list[str], centre: float | None) -> Floats:
    """[2, settings]: from a line in x, and from the median (or ``centre``), of other families."""
    found = np.empty((2, len(values)))
    for family in set(families):
        mine = np.array([name == family for name in families])
        middle = float(np.median(values[~mine])) if centre is None else centre
        low, high = x[~mine].min(), x[~mine].max()  # a line is not followed beyond what was seen
        slope, level = np.polyfit(x[~mine], values[~mine], 1)
        line = slope * np.clip(x[mine], low, high) + level
        found[0, mine] = np.abs(values[mine] - line)
        found[1, mine] = np.abs(values[mine] - middle)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prior", help="a file that `prior fit` has written")
    file = parser.parse_args().prior
    settings = (read(file) if file else corpus()).settings
    bank = RunCache()
    pairs = [(s, told) for s in settings if (told := statistics(bank, s)) is not None]
    shown = np.array([told for _, told in pairs])
    families = [s.family for s, _ in pairs]
    print(f"{len(pairs)} settings of {len(set(families))} families")
    print("term".ljust(15), *(name.rjust(11) for name in STATISTICS))
    fits = [s.fits[INPUTS] for s, _ in pairs]
    ratios = np.empty((len(fits[0]), len(STATISTICS)))
    for (row, term), column in product(enumerate(fits[0]), range(len(STATISTICS))):
        values = np.array([fit[term] for fit in fits])
        centre = 0.0 if term in EITHER_SIGN else None
        line, median = distances(values, shown[:, column], families, centre).mean(axis=1)
        ratios[row, column] = line / median
    for term, row in zip(fits[0], ratios, strict=True):
        print(term.ljust(15), *(f"{ratio:11.2f}" for ratio in row))
    print("median".ljust(15), *(f"{ratio:11.2f}" for ratio in np.median(ratios, axis=0)))
    print(f"below 1: {(ratios < 1).sum()} of {ratios.size}")


if __name__ == "__main__":
    main()
