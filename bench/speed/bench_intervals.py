"""How often bootstrap intervals hold the true calibration error, and what they cost.

    python bench/speed/bench_intervals.py             # 100 samples of each kind, a minute or two
    python bench/speed/bench_intervals.py --full      # 500 samples: the table of the docs
    python bench/speed/bench_intervals.py --nodes 200 --samples 2000

The truth. Two classes, confidence c uniform on [½, 1], the prediction right with probability a(c),
independently from node to node; a is known:

* calibrated: a(c) = c;
* over-confident: a(c) = sigmoid(logit(c) / T), the model needs a temperature T, and c > a(c) for
  every c but the two ends;
* crossing: a(c) = ¾ + 0.8 (c − ¾), under-confident below ¾ and over-confident above.

ECE is defined by its bins, so its true value is the one of infinitely many nodes in the same bins,
Σ_b P(b) |E[a(c) − c | b]|. Debiased ECE estimates the same number, only with less bias: there is
one truth for both. It is not E|a(c) − c|, because a gap that changes its sign inside a bin cancels
there. Only the crossing curve has such a bin, [11/15, 12/15), and loses a little in it; for the
others both numbers are equal. Both are integrated on a fine grid, and the truth is checked against
a sample of a million nodes before anything is counted.

Confidences are drawn anew for each sample, as the bootstrap assumes. Brier's truth is the mean of
1 − 2 (a c + (1 − a)(1 − c)) + c² + (1 − c)². It is no calibration error: as an average over nodes,
it shows what the simulation gives where the bootstrap has an easy task.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from simi_mailbox.metrics import bootstrap_interval, brier, debiased_ece, ece, noise_floor
from simi_mailbox.metrics.sampling import Method, Metric

Floats = NDArray[np.float64]
Sample = tuple[Floats, NDArray[np.int64]]
BINS, GRID = 15, 1_000_000
ARXIV_NODES, ARXIV_CLASSES = 169_343, 40
INTERVALS: tuple[tuple[str, Metric, Method], ...] = (
    ("`ece`, percentile", ece, "percentile"),
    ("`ece`, basic", ece, "basic"),
    ("`debiased_ece`, percentile", debiased_ece, "percentile"),
    ("`brier`, percentile", brier, "percentile"),
)


@dataclass(frozen=True)
class Curve:
    """How often predictions of each confidence are right."""

    name: str
    accuracy: Callable[[Floats], Floats]

    def sample(self, nodes: int, rng: np.random.Generator) -> Sample:
        """Probabilities of two classes, the first predicted, and labels."""
        confidence = rng.uniform(0.5, 1, nodes)
        wrong = rng.random(nodes) >= self.accuracy(confidence)
        return np.stack([confidence, 1 - confidence], axis=1), wrong.astype(np.int64)

    def true_errors(self) -> tuple[float, float]:
        """True ECE in bins, and the mean gap of the curve itself, which is never smaller."""
        confidence = _grid()
        gap = self.accuracy(confidence) - confidence
        inside = np.bincount((confidence * BINS).astype(np.int64), gap, BINS)
        return float(np.abs(inside).sum() / GRID), float(np.abs(gap).mean())

    def true_brier(self) -> float:
        """Expected Brier score."""
        c = _grid()
        a = self.accuracy(c)
        return float((1 - 2 * (a * c + (1 - a) * (1 - c)) + c**2 + (1 - c) ** 2).mean())


def _grid() -> Floats:
    """Midpoints of as many equal parts of [½, 1]."""
    return 0.5 + (np.arange(GRID) + 0.5) / (2 * GRID)


def _needs_temperature(confidence: Floats, temperature: float) -> Floats:
    return np.asarray(expit(logit(confidence) / temperature))


CURVES = (
    Curve("calibrated", lambda c: c),
    Curve("over-confident, T = 1.1", partial(_needs_temperature, temperature=1.1)),
    Curve("crossing", lambda c: 0.75 + 0.8 * (c - 0.75)),
    Curve("over-confident, T = 1.5", partial(_needs_temperature, temperature=1.5)),
)


def row(number: int, nodes: int, samples: int, draws: int) -> str:
    """One line of the table: mean estimates, and the share of intervals that hold the truth."""
    curve = CURVES[number]
    truth, score = curve.true_errors()[0], curve.true_brier()
    estimates = np.zeros((samples, 2))
    held = np.zeros((samples, len(INTERVALS)), dtype=bool)
    for i in range(samples):
        probs, y = curve.sample(nodes, np.random.default_rng([number, nodes, i]))
        estimates[i] = ece(probs, y), debiased_ece(probs, y)
        for j, (_, metric, method) in enumerate(INTERVALS):
            found = bootstrap_interval(metric, probs, y, draws=draws, seed=i, method=method)
            held[i, j] = found.low <= (score if metric is brier else truth) <= found.high
    errors = [truth, *estimates.mean(axis=0)]
    cells = [f"{100 * value:.1f}".replace("-0.0", "0.0").replace("-", "−") for value in errors]
    cells += [f"{100 * share:.0f} %" for share in held.mean(axis=0)]
    return f"| {nodes:,} | {curve.name} | {' | '.join(cells)} |"


def check_truth(curve: Curve) -> None:
    """A million nodes must give what was integrated."""
    truth, unbinned = curve.true_errors()
    probs, y = curve.sample(1_000_000, np.random.default_rng(0))
    off = max(abs(ece(probs, y) - truth), abs(brier(probs, y) - curve.true_brier()))
    # Noise adds 0.0009 to the ECE of a million calibrated nodes, and less to the others.
    if off > 0.002:
        raise AssertionError(f"{curve.name}: integral and large sample differ by {off:.4f}")
    print(
        f"{curve.name:25} true ECE {100 * truth:.3f} %, "
        f"mean gap without bins {100 * unbinned:.3f} %"
    )


def cost() -> None:
    """Processor seconds at the size of ogbn-arxiv, as multiples of one `ece`."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(ARXIV_CLASSES, 0.3), size=ARXIV_NODES)
    y = rng.integers(0, ARXIV_CLASSES, ARXIV_NODES)
    works: dict[str, Callable[[], object]] = {
        "`ece`": lambda: ece(probs, y),
        "`noise_floor`, 200 draws": lambda: noise_floor(probs),
        "interval of `ece`, 1,000 draws": lambda: bootstrap_interval(ece, probs, y),
        "interval of `debiased_ece`, 1,000 draws": lambda: bootstrap_interval(
            debiased_ece, probs, y
        ),
    }
    times = {name: _seconds(work) for name, work in works.items()}
    print(f"\n| {ARXIV_NODES:,} nodes, {ARXIV_CLASSES} classes | processor time | × `ece` |")
    print("|---|--:|--:|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.3f} s | {seconds / times['`ece`']:.1f} |")


def _seconds(work: Callable[[], object]) -> float:
    """Median of three runs, after one to warm up."""
    work()
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return sorted(times)[1]


def main() -> None:
    """Check the truth, print the table of shares, then that of costs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="500 samples per line (6 minutes)")
    parser.add_argument("--samples", type=int, help="simulated test sets per line (100)")
    parser.add_argument(
        "--draws", type=int, default=200, help="bootstrap samples per interval (200)"
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 2000, 14_000])
    chosen = parser.parse_args()
    samples = chosen.samples or (500 if chosen.full else 100)
    for curve in CURVES:
        check_truth(curve)
    print(
        f"\nShare of nominal 95 % intervals that held the truth: {samples} samples, "
        f"{chosen.draws} draws, {BINS} bins; standard\nerror of a share "
        f"{_spread(0.95, samples)} points near 95 %, {_spread(0.65, samples)} near 65 %; "
        "errors in %.\n"
    )
    names = [name for name, _, _ in INTERVALS]
    head = ["nodes", "curve", "true error", "mean `ece`", "mean `debiased_ece`", *names]
    print(f"| {' | '.join(head)} |\n|--:|---|{'--:|' * (len(head) - 2)}")
    for nodes in chosen.nodes:
        for number in range(len(CURVES)):
            print(row(number, nodes, samples, chosen.draws), flush=True)
    cost()


def _spread(share: float, samples: int) -> str:
    return f"{100 * (share * (1 - share) / samples) ** 0.5:.1f}"


if __name__ == "__main__":
    main()
