"""Does `decide.Alert` keep its guarantee, and how does it compare with MAPIE's controller?

    python bench/speed/bench_alert.py [draws]

Every draw is a set of scores whose P(class) is known; the precision and the recall of a threshold
are computed from it, not from labels. Settings: rare positives (0.5 to 10 %), ties, precision that
falls again at the highest scores, uncalibrated scores, two and five classes. A guarantee at 90 %
fails if it is broken in more than 10 % of the draws by more than chance (99.9 %). With MAPIE
installed (``pip install mapie``) its BinaryClassificationController gets the same calibration nodes
and thresholds 0, 0.01, …, 0.99, its default.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.stats import binom

from simi_mailbox.decide import Alert

CALIBRATION, OTHERS, TARGET, CONFIDENCE = 1500, 3000, 0.5, 0.9


def draw(rng: np.random.Generator, kind: str, share: float, classes: int):
    """Probabilities [n, K] as a model gives them, and the true P(last class) [n]."""
    n = CALIBRATION + OTHERS
    truth = rng.beta(0.08, 0.08 * (1 - share) / share, n)
    score = truth
    if kind == "ties":
        score = np.round(truth, 1)
    elif kind == "non-monotone":
        truth = np.where(score > 0.8, 0.3, score)
    elif kind == "class weights":
        score = 9 * truth / (9 * truth + 1 - truth)
    rest = (1 - score)[:, None] * rng.dirichlet(np.ones(classes - 1), n)
    return np.concatenate([rest, score[:, None]], axis=1), truth


def mapie_threshold(goal: str, score, y) -> float:
    """Of MAPIE's controller."""
    from mapie.risk_control import BinaryClassificationController

    def predict(x):
        return np.stack([1 - x[:, 0], x[:, 0]], axis=1)

    control = BinaryClassificationController(predict, goal, TARGET, CONFIDENCE)
    control.calibrate(score[:, None], y)
    best = control.best_predict_param
    if best is None:  # nothing can be shown: no alert, or everybody
        return np.inf if goal == "precision" else 0.0
    return float(best)


def setting(kind: str, share: float, classes: int, goal: str, draws: int, *, mapie: bool):
    """How often the guarantee was broken, and mean alerts (with MAPIE's)."""
    broken, ours, theirs, theirs_broken = 0, [], [], 0
    mask = np.arange(CALIBRATION)
    for seed in range(draws):
        rng = np.random.default_rng([seed, classes, int(1000 * share)])
        probs, truth = draw(rng, kind, share, classes)
        y = np.where(rng.random(len(truth)) < truth, classes - 1, 0)
        if not (y[mask] == classes - 1).any():
            continue
        rule = Alert(positive=classes - 1, confidence=CONFIDENCE, **{f"min_{goal}": TARGET})
        rule.fit(probs, y, mask=mask, used_for_selection=False)
        score, is_class = probs[:, -1], (y == classes - 1).astype(int)
        broken += _breaks(score, truth, rule.threshold_, goal)
        ours.append(int((score[CALIBRATION:] >= rule.threshold_).sum()))
        if mapie:
            limit = mapie_threshold(goal, score[mask], is_class[mask])
            theirs_broken += _breaks(score, truth, limit, goal)
            theirs.append(int((score[CALIBRATION:] >= limit).sum()))
    return broken, len(ours), np.array(ours), np.array(theirs), theirs_broken


def _breaks(score, truth, limit: float, goal: str) -> bool:
    """Whether the true precision or recall is below the target; the population is a large draw."""
    above = score >= limit
    if goal == "precision":
        return bool(above.any() and truth[above].mean() < TARGET)
    return bool(truth[above].sum() < TARGET * truth.sum())


def main(draws: int = 100) -> None:
    """Print a line for each setting; exit with 1 if a guarantee was broken too often."""
    try:
        import mapie  # noqa: F401

        has_mapie = True
    except ModuleNotFoundError:
        has_mapie = False
    total, failed = 0, 0
    print("goal       scores        share  K   draws broken    alerts  MAPIE's (broken)")
    for goal in ("precision", "recall"):
        for kind in ("calibrated", "ties", "non-monotone", "class weights"):
            for share in (0.005, 0.03, 0.1):
                for classes in (2, 5):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = setting(
                            kind, share, classes, goal, draws, mapie=has_mapie and classes == 2
                        )
                    broken, made, ours, theirs, theirs_broken = found
                    total += made
                    bad = broken > binom.ppf(0.999, made, 1 - CONFIDENCE)
                    failed += bad
                    line = f"{goal:<10} {kind:<13} {share:>5.1%} {classes:>2} {made:>7}"
                    line += f" {broken / made:>6.1%} {ours.mean():>9.1f}"
                    if theirs.size:
                        line += f" {theirs.mean():>8.1f} ({theirs_broken / made:.1%})"
                    print(line + ("  BROKEN TOO OFTEN" if bad else ""), flush=True)
    print(f"{total:,} draws; guarantees broken too often in {failed} settings")
    sys.exit(int(failed > 0))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
