"""When self-training helps and when it does harm: twenty orders of the digits graph.

Run: ``python bench/speed/bench_self_training.py`` (about three minutes on one core). Prints the
table of docs/self-training.md; test labels are read by the record only.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np

from simi_mailbox import calibrators
from simi_mailbox_bench import datasets
from simi_mailbox_bench.backbones import Settings
from simi_mailbox_bench.self_training import self_train

ORDERS = 20
LONG, SHORT = Settings(lr=0.05, epochs=100), Settings(epochs=80)


def one_order(
    seed: int, balanced: bool, settings: Settings, calibrator: str
) -> tuple[float, float, float, bool]:
    """Test accuracy of the first, the last and the best stage, and whether a warning was given."""
    digits = datasets.load("Digits")
    y = digits.y
    order = np.random.default_rng(seed).permutation(len(y))
    train = order[:30]
    if balanced:
        train = np.concatenate([order[y[order] == label][:3] for label in range(10)])
    val, test = np.split(order[~np.isin(order, train)][:700], [300])
    split = datasets.Split(train, val, test)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = self_train(
            digits,
            split,
            calibrator=calibrators.get(calibrator)(),
            stages=3,
            settings=settings,
        )
    tests = [stage.test_accuracy for stage in result.stages]
    best = int(np.argmax([stage.val_accuracy for stage in result.stages]))
    warned = any(str(warning.message).startswith("self-training: ") for warning in given)
    return tests[0], tests[-1], tests[best], warned


def main() -> None:
    cases = (
        ("three nodes of each class", True, LONG),
        ("any 30 nodes, `train = order[:30]`", False, LONG),
        ("too short a training, `Settings(epochs=80)`", True, SHORT),
    )
    columns = "first stage", "last stage", "orders it improves", '`keep="best"`', "with a warning"
    print("| | calibrator |", " | ".join(columns), "|")
    print("|---|---|---|---|---|---|---|")
    for (name, balanced, settings), method in product(cases, ("simi-mailbox", "temperature")):
        found = np.array([one_order(seed, balanced, settings, method) for seed in range(ORDERS)])
        first, last, best = 100 * found[:, :3].mean(axis=0)
        better = int((found[:, 1] > found[:, 0]).sum())
        print(
            f"| {name} | `{method}` | {first:.2f} | {last:.2f} | {better} of {ORDERS} | {best:.2f} "
            f"| {int(found[:, 3].sum())} of {ORDERS} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
