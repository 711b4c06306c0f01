"""Judgement on past runs: is the prior worth anything on graphs it was not learned on?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simi_mailbox.exceptions import CalibrationWarning

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator
    from simi_mailbox.experiments.prior.past_runs import PastRun
    from simi_mailbox.models.bank import LogitBank

METRICS = ("ece", "debiased_ece", "kde_ece", "nll", "brier")
LEARNED = "learned prior"
METHODS = ("temperature", "ets", "plain shrinkage", LEARNED)

Row = dict[str, Any]


def banked_rows(
    bank: LogitBank,
    graphs: Sequence[str],
    backbones: Sequence[str],
    methods: Sequence[str] = (),
) -> Iterator[Row]:
    """Rows of banked runs, each graph by the shipped prior learned without its family."""
    from simi_mailbox.experiments.prior.learning import (
        FEWEST_RUNS,
        PROTOCOLS,
        banked_keys,
        past_run,
    )
    from simi_mailbox.prior import leave_out

    for graph in graphs:
        for backbone in backbones:
            for protocol in PROTOCOLS:
                keys = banked_keys(bank, graph, backbone, protocol)
                if len(keys) < FEWEST_RUNS:
                    continue
                for key in keys:
                    run = bank.find(key)
                    if run is not None:
                        # As published: Citeseer's test nodes of no known class count too.
                        yield from judged_rows(
                            replace(past_run(run), y=run.dataset.y),
                            leave_out(graph),
                            methods=methods,
                            test=run.split.test,
                            protocol=key.protocol,
                            fold=key.fold,
                        )
                break


def judged_rows(
    run: PastRun,
    prior: str,
    *,
    methods: Sequence[str] = (),
    test: npt.NDArray[np.int64] | None = None,
    **place: Any,
) -> Iterator[Row]:
    """One row per method: fitted on the calibration nodes, measured on the test nodes.

    Parameters
    ----------
    prior
        As `SimiMailbox` takes it.
    methods
        Registered methods to judge besides `METHODS`; they get logits and graph.
    test
        By default all labelled nodes that the GNN was neither trained nor calibrated on.
    place
        Facts that every row repeats.

    Examples
    --------
    >>> from simi_mailbox.data.synthetic import calibration_problem
    >>> from simi_mailbox.experiments.prior import PastRun
    >>> p = calibration_problem(500, 3, seed=0)
    >>> run = PastRun("mine", "gcn", p.logits, p.y, p.graph, range(100))
    >>> [row["method"] for row in judged_rows(run, "learned")]
    ['temperature', 'ets', 'plain shrinkage', 'learned prior']
    """
    from simi_mailbox.experiments.prior.past_runs import checked, unseen
    from simi_mailbox.metrics import evaluate

    run = checked(run)
    y = run.y
    index = np.flatnonzero(unseen(run)) if test is None else test
    inputs = {"graph": run.graph}
    for method, calibrator in _calibrators(prior, methods):
        holdout = run.train if method not in METHODS else None
        with warnings.catch_warnings():  # the metrics judge, where a fit would warn
            warnings.simplefilter("ignore", CalibrationWarning)
            calibrator.fit(run.logits, y, mask=run.calibration, holdout_mask=holdout, **inputs)
        probs = np.asarray(calibrator.predict_proba(run.logits, **inputs), dtype=np.float64)
        scores = evaluate(probs[index], y[index])
        row: Row = {
            "graph": run.graph_name,
            "backbone": run.backbone,
            **place,
            "split": run.split,
            "method": method,
            **{metric: float(f"{scores[metric]:.6g}") for metric in METRICS},
        }
        if method == LEARNED:
            row["prior"] = prior
            fitted = vars(calibrator)
            for word in ("temperature", "many", "few", "blind"):
                row[word] = float(f"{fitted['baseline_'][word]:.4g}")
            row["strength"] = float(f"{fitted['prior_strength_']:.4g}")
        yield row


def unlearned(run: PastRun, prior: str) -> str:
    """Name of a prior that was not learned on this graph or its relatives.

    Of the shipped prior their family is left out. One of a user's own has to be learned anew.

    Examples
    --------
    >>> from simi_mailbox.experiments.prior import PastRun
    >>> unlearned(PastRun("mine", "gcn", None, None, None, None), "learned")
    'learned'
    >>> unlearned(PastRun("CoraML", "gcn", None, None, None, None), "learned")[-12:]
    'without cora'
    """
    from simi_mailbox.prior import corpus, leave_out, read

    found = (corpus() if prior == "learned" else read(prior)).family_of
    family = found(run.family or run.graph_name) or found(run.graph_name)
    if family is None:
        return prior
    if prior == "learned":
        return leave_out(family)
    raise ValueError(
        f"{prior} was learned on {family!r}, to which {run.graph_name!r} belongs, and a prior is "
        "judged on other graphs; `simi-mailbox prior fit` it without these"
    )


def check_methods(names: Sequence[str]) -> None:
    """Methods that need more than logits and graph cannot be judged on past runs."""
    from simi_mailbox import calibrators

    for name in names:
        more = calibrators.get(name).needs - {"graph"}
        if more:
            able = [n for n in calibrators.names() if calibrators.get(n).needs <= {"graph"}]
            raise ValueError(
                f"{name} needs {' and '.join(sorted(more))}, which past runs do not hold; "
                f"choices: {', '.join(able)}"
            )


def _calibrators(prior: str, others: Sequence[str]) -> Iterator[tuple[str, Calibrator]]:
    from simi_mailbox import calibrators
    from simi_mailbox.calibrators.simi_mailbox import SimiMailbox

    yield METHODS[0], calibrators.get("temperature")()
    yield METHODS[1], calibrators.get("ensemble-temperature")()
    yield METHODS[2], SimiMailbox(prior=None)
    yield LEARNED, SimiMailbox(prior=prior)
    for name in others:
        yield name, calibrators.get(name)()
