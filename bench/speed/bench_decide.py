"""Guarantees of decision rules on exchangeable data, sets at scale, and sets beside TorchCP's.

    python bench/speed/bench_decide.py                        # guarantees and scale
    python bench/speed/bench_decide.py --torchcp FOLDER       # and the comparison

For the comparison put TorchCP into a folder of its own, without what it would drag in:
``pip install --no-deps --target FOLDER torchcp==1.2.1``. What it imports and graphs do not need
(torchvision, transformers, …) is replaced by empty modules.

Guarantees: labels are drawn from known probabilities; the model that rules see is overconfident.
Coverage is compared with the interval in which the mean over all draws lies with 99 %.
Scale: each line is a process of its own; memory is the peak beyond what it held with the
probabilities loaded (Linux), time is that of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import math
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

DRAWS = 4000
LEVELS = (0.9, 0.95)
NODES, CLASSES, EDGES = 1_000_000, 40, 5_000_000


# --- guarantees -------------------------------------------------------------------------------


def draw(rng: np.random.Generator, n: int, classes: int = 5) -> tuple[Any, Any, Any]:
    """Nodes in a graph of like with like, labels from the truth, a model that is overconfident."""
    from simi_mailbox import Graph

    block = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) * 1.5
    logits[np.arange(n), block] += 4.5
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    sharp = np.exp(1.6 * (logits - logits.max(axis=1, keepdims=True)))
    ends = rng.integers(0, n, size=(2, 12 * n))
    ends = ends[:, block[ends[0]] == block[ends[1]]]
    return sharp / sharp.sum(axis=1, keepdims=True), y, Graph.from_edges(ends, n)


def promised_coverage(draws: int) -> None:
    """Mean coverage over many draws, beside the interval that exactness allows."""
    from simi_mailbox.decide import PredictionSets

    labels, tested = 99, 100
    print(f"Coverage over {draws} draws of {labels} calibration and {tested} new nodes\n")
    print("| score | target | mean coverage | 99 % interval if exact | within | mean size |")
    print("|---|--:|--:|--:|---|--:|")
    for seed, score in enumerate(("lac", "aps", "raps", "daps", "snaps")):
        rng = np.random.default_rng(seed)
        hits, sizes = np.empty((2, draws)), np.empty((2, draws))
        for d in range(draws):
            probs, y, graph = draw(rng, labels + tested)
            inputs = {"graph": graph, "features": probs @ rng.normal(size=(5, 8))}
            for place, level in enumerate(LEVELS):
                rule = PredictionSets(coverage=level, score=score)
                rule.fit(probs, y, mask=range(labels), used_for_selection=False, **inputs)
                sets = rule.predict_sets(probs, **inputs)[labels:]
                hits[place, d] = sets[np.arange(tested), y[labels:]].mean()
                sizes[place, d] = sets.sum(axis=1).mean()
        for place, level in enumerate(LEVELS):
            # With 99 labels the target is met exactly; a draw's coverage is beta-binomial.
            spread = level * (1 - level) / tested * (labels + 1 + tested) / (labels + 2)
            half, mean = 2.576 * math.sqrt(spread / draws), hits[place].mean()
            print(
                f"| {score} | {level:.0%} | {mean:.2%} | {level - half:.2%} … {level + half:.2%} "
                f"| {'yes' if abs(mean - level) <= half else 'NO'} | {sizes[place].mean():.2f} |",
                flush=True,
            )


def promised_errors(draws: int) -> None:
    """How often `Accept` breaks its guarantee, where the true error rate is known."""
    from simi_mailbox import CalibrationWarning
    from simi_mailbox.decide import Accept

    rng = np.random.default_rng(1)
    pool, truth, _ = draw(rng, 50_000)
    wrong, top = pool.argmax(axis=1) != truth, pool.max(axis=1)
    order = np.argsort(-top)
    best_share = {}
    risk = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    print(f"\nAccept over {draws} draws; {wrong.mean():.1%} of all predictions are wrong\n")
    print("| labels | errors allowed | confidence | guarantee broken | accepted | could be |")
    print("|--:|--:|--:|--:|--:|--:|")
    for labels in (150, 500, 2000):
        for allowed in (0.05, 0.10):
            best_share[allowed] = np.flatnonzero(risk <= allowed).max(initial=-1) + 1
            for confidence in (0.9,):
                broken, share = 0, np.empty(draws)
                for d in range(draws):
                    chosen = rng.choice(len(truth), labels + 400, replace=False)
                    rule = Accept(max_error=allowed, confidence=confidence)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", CalibrationWarning)
                        rule.fit(
                            pool[chosen],
                            truth[chosen],
                            mask=range(labels),
                            used_for_selection=False,
                        )
                    accepted = top >= rule.threshold_
                    broken += accepted.any() and wrong[accepted].mean() > allowed
                    share[d] = accepted.mean()
                print(
                    f"| {labels:,} | {allowed:.0%} | {confidence:.0%} | {broken / draws:.1%} "
                    f"| {share.mean():.1%} | {best_share[allowed] / len(truth):.1%} |",
                    flush=True,
                )


# --- scale ------------------------------------------------------------------------------------


def at_scale(score: str, condition: str | None) -> dict[str, float]:
    """Sets of many nodes in this process: what it took."""
    import torch

    from simi_mailbox import Graph
    from simi_mailbox.decide import PredictionSets

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    probs = rng.random((NODES, CLASSES), dtype=np.float32)
    probs **= 8
    probs /= probs.sum(axis=1, keepdims=True)
    y = np.zeros(NODES, dtype=np.int64)
    y[:10_000] = (rng.random((10_000, 1)) > probs[:10_000].cumsum(axis=1)).sum(axis=1).clip(max=39)
    graph = Graph.from_edges(rng.integers(0, NODES, size=(2, EDGES)), NODES)
    rule = PredictionSets(score=score, condition_on=condition)
    rule.fit(
        probs[:500], y[:500], mask=range(500), graph=Graph.empty(500), used_for_selection=False
    )  # imports
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, start = _status("VmRSS"), time.process_time()
    rule.fit(probs, y, mask=range(10_000), graph=graph, used_for_selection=False)
    fitted = time.process_time()
    sets = rule.predict_sets(probs, graph=graph)
    done = time.process_time()
    return {
        "fit": fitted - start,
        "sets": done - fitted,
        "peak": (_status("VmHWM") - before) / probs.nbytes,
        "size": float(sets.sum(axis=1).mean()),
    }


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def scale() -> None:
    """One process for each score."""
    print(
        f"\n{NODES:,} nodes × {CLASSES} classes in float32 ({NODES * CLASSES * 4 / 1e6:.0f} MB), "
        f"{EDGES:,} edges, 10,000 labels, one thread\n"
    )
    print("| score | conditioned on | fit | sets | memory beyond the probabilities |")
    print("|---|---|--:|--:|--:|")
    cases = [("lac", None), ("aps", None), ("raps", None), ("daps", None)]
    cases += [("aps", "class"), ("aps", "degree"), ("aps", "mailbox")]
    for score, condition in cases:
        case = json.dumps([score, condition])
        command = [sys.executable, __file__, "--case", case]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        print(
            f"| {score} | {condition or '–'} | {found['fit']:.1f} s | {found['sets']:.1f} s "
            f"| {found['peak']:.2f} × their size |",
            flush=True,
        )


# --- TorchCP ----------------------------------------------------------------------------------


class _Anything(types.ModuleType):
    """An empty module that has every name, as a class."""

    __path__: list[str] = []  # noqa: RUF012
    __file__ = "nowhere"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def import_torchcp(folder: str) -> Any:
    """TorchCP's classification and graph scores, with everything else stubbed."""
    sys.path.insert(0, folder)
    for _ in range(60):
        try:
            importlib.import_module("torchcp.classification.score")
            importlib.import_module("torchcp.graph.predictor")
            return importlib.import_module("torchcp.graph.score")
        except ModuleNotFoundError as error:
            missing = str(error.name)
            sys.modules[missing] = _Anything(missing)
            for name in [name for name in sys.modules if name.startswith("torchcp")]:
                del sys.modules[name]
    raise ImportError("TorchCP could not be imported")


def beside_torchcp(folder: str) -> None:
    """Sets of both libraries on the same probabilities, draws and neighbours."""
    import torch

    from simi_mailbox.decide import APS, DAPS, LAC, RAPS, SNAPS, PredictionSets
    from simi_mailbox.decide.scores import row_uniforms

    graph_scores = import_torchcp(folder)
    theirs = importlib.import_module("torchcp.classification.score")
    value = importlib.import_module("torchcp.utils.common").calculate_conformal_value
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(0)
    names = ("lac", "aps", "aps, not randomised", "raps", "daps", "snaps")
    differ = {name: 0 for name in names} | {"daps, lonely nodes": 0}
    looked_at, problems = 0, 200
    for _ in range(problems):
        n, labels = 400, int(rng.integers(20, 200))
        probs, y, graph = draw(rng, n)
        lonely = graph.degree == 0
        features = (rng.normal(size=(n, 16)) + 1.0).astype(np.float32)
        u = torch.from_numpy(row_uniforms(probs, 0))
        data = types.SimpleNamespace(
            num_nodes=n, edge_index=graph.edge_index().flip(0), edge_weight=None, x=None
        )
        # A loop at a node without neighbours says what our rule says: it is its own mean.
        alone = lonely.nonzero().flatten()
        loops = torch.stack([alone, alone])
        looped = types.SimpleNamespace(
            num_nodes=n, edge_index=torch.cat([data.edge_index, loops], 1), edge_weight=None, x=None
        )
        p, x = torch.from_numpy(probs), torch.from_numpy(features).double()
        aps = theirs.APS(score_type="identity")
        whole = theirs.APS(score_type="identity", randomized=False)
        raps = theirs.RAPS(score_type="identity", penalty=0.1, kreg=2)
        pairs: dict[str, tuple[Any, Any]] = {
            "lac": (LAC(), theirs.LAC(score_type="identity")),
            "aps": (APS(), aps),
            "aps, not randomised": (APS(randomized=False), whole),
            "raps": (RAPS(penalty=0.1, free=2), raps),
            "daps": (DAPS(), graph_scores.DAPS(looped, aps)),
            "snaps": (SNAPS(), graph_scores.SNAPS(looped, aps, features=x, k=20)),
            "daps, lonely nodes": (DAPS(), graph_scores.DAPS(data, aps)),
        }
        looked_at += n
        for name, (ours, other) in pairs.items():
            given = {"graph": graph, "features": features}
            rule = PredictionSets(score=ours).fit(
                probs, y, mask=range(labels), used_for_selection=False, **given
            )
            sets = rule.predict_sets(probs, **given)
            with mock.patch.object(torch, "rand", functools.partial(_same_draw, u)):
                scores = other(p)
            q = value(scores[torch.arange(labels), torch.from_numpy(y[:labels])], 0.1)
            differ[name] += int(((scores <= q).numpy() != sets).any(axis=1).sum())
    print(f"\nSets of TorchCP on {problems} problems of 400 nodes, 90 %, the same draws\n")
    print("| score | sets that differ | of |")
    print("|---|--:|--:|")
    for name, count in differ.items():
        print(f"| {name} | {count:,} | {looked_at:,} |")


def _same_draw(u: Any, shape: Any, **_: Any) -> Any:
    """One draw per node for all its classes, in the place of torch.rand."""
    return u[:, None].expand(shape)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torchcp", metavar="FOLDER", help="where TorchCP was put")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only", choices=["coverage", "errors", "scale", "torchcp"])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.case:
        print(json.dumps(at_scale(*json.loads(chosen.case))))
        return
    if chosen.only in (None, "coverage"):
        promised_coverage(chosen.draws)
    if chosen.only in (None, "errors"):
        promised_errors(chosen.draws)
    if chosen.only in (None, "scale"):
        scale()
    if chosen.torchcp:
        beside_torchcp(chosen.torchcp)


if __name__ == "__main__":
    main()
