"""Judgement on past runs: is the prior worth anything on graphs it was not learned on?"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simi_mailbox.exceptions import CalibrationWarning

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator
    from simi_mailbox.models.bank import LogitBank
    from simi_mailbox.prior.past import PastRun

METRICS = ("ece", "debiased_ece", "kde_ece", "nll", "brier")
LEARNED = "learned prior"
METHODS = ("temperature", "ets", "plain shrinkage", LEARNED)
MAIN = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")

_STARS = (
    "One star: the 95 % interval over splits (Student's t) leaves zero out. Two stars: it still "
    "does when all settings of a table are to be right together with 95 % (Holm). Of twenty "
    "settings without any true difference, one gets a star by chance."
)

Row = dict[str, Any]


def banked_rows(
    bank: LogitBank,
    graphs: Sequence[str],
    backbones: Sequence[str],
    methods: Sequence[str] = (),
) -> Iterator[Row]:
    """Rows of banked runs, each graph by the shipped prior learned without its family."""
    from simi_mailbox.prior.bank import FEWEST_RUNS, PROTOCOLS, banked_keys, past_run
    from simi_mailbox.prior.shipped import leave_out

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
    >>> from simi_mailbox.prior import PastRun
    >>> p = calibration_problem(500, 3, seed=0)
    >>> run = PastRun("mine", "gcn", p.logits, p.y, p.graph, range(100))
    >>> [row["method"] for row in judged_rows(run, "learned")]
    ['temperature', 'ets', 'plain shrinkage', 'learned prior']
    """
    from simi_mailbox.metrics import evaluate
    from simi_mailbox.prior.past import checked, unseen

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
    >>> from simi_mailbox.prior import PastRun
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


def difference_by_split(
    rows: Iterable[Mapping[str, Any]], metric: str, method: str, other: str
) -> tuple[float, float]:
    """Mean of (method − other) paired by run, and its standard error over splits.

    Runs of one split share their test nodes, so a split counts as one observation.

    Examples
    --------
    >>> rows = [{"split": s, "method": m, "ece": e} for s, m, e in
    ...         [(0, "a", 0.2), (0, "b", 0.1), (1, "a", 0.4), (1, "b", 0.1)]]
    >>> [round(v, 3) for v in difference_by_split(rows, "ece", "a", "b")]
    [0.2, 0.1]
    """
    values: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        values[row["split"]][row["method"]].append(row[metric])
    found = [np.mean(v[method]) - np.mean(v[other]) for v in values.values()]
    error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
    return float(np.mean(found)), float(error)


def p_value(difference: float, error: float, splits: int) -> float:
    """Of a mean over splits being zero (Student's t, two-sided).

    Examples
    --------
    >>> round(p_value(2.0, 1.0, splits=10), 3), p_value(2.0, float("nan"), splits=1)
    (0.077, 1.0)
    """
    from scipy.stats import t

    return float(2 * t.sf(abs(difference) / error, splits - 1)) if splits > 1 and error > 0 else 1.0


def marks(p_values: Sequence[float], level: float = 0.05) -> list[str]:
    """Two stars where a difference stays significant among all of these (Holm), one where alone.

    Examples
    --------
    >>> marks([0.001, 0.04, 0.3])
    ['**', '*', '']
    """
    order = np.argsort(p_values)
    strict = [p_values[i] < level / (len(order) - rank) for rank, i in enumerate(order)]
    kept = set(order[: strict.index(False) if False in strict else len(strict)].tolist())
    return ["**" if i in kept else "*" if p < level else "" for i, p in enumerate(p_values)]


def table(rows: Sequence[Mapping[str, Any]], main: Sequence[str] = MAIN) -> str:
    """Markdown: means per setting, differences to temperature scaling paired by split.

    The graphs of ``main`` come first, under a title of their own.

    Of many settings some differ significantly by chance, hence two kinds of stars.
    """
    settings: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        settings[row["graph"], row["backbone"]].append(row)
    parts = []
    first = {key: value for key, value in settings.items() if key[0] in main}
    rest = {key: value for key, value in settings.items() if key[0] not in main}
    other = "Other graphs" if first else "All graphs"
    for title, chosen in (("The seven graphs", first), (other, rest)):
        if chosen:
            parts += [f"## {title}", *(_section(chosen, metric) for metric in METRICS)]
    parts.insert(0, _STARS)
    return "\n\n".join(parts) + "\n"


def _section(settings: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]], metric: str) -> str:
    percent = metric.endswith("ece")
    scale, digits = (100.0, 2) if percent else (1.0, 4)
    title = metric.replace("_", " ").upper() + (" in %" if percent else "")
    methods = list(dict.fromkeys(row["method"] for rows in settings.values() for row in rows))
    lines = [
        f"### {title}",
        "",
        f"| setting | runs | {' | '.join(methods)} | prior − temperature (± s.e. over splits) |",
        "|---|---|" + "---|" * (len(methods) + 1),
    ]
    means = []
    changes = [difference_by_split(rows, metric, LEARNED, METHODS[0]) for rows in settings.values()]
    splits = [len({row["split"] for row in rows}) for rows in settings.values()]
    stars = marks([p_value(*change, n) for change, n in zip(changes, splits, strict=True)])
    for ((graph, backbone), rows), (change, error), mark in zip(
        settings.items(), changes, stars, strict=True
    ):
        values = [
            scale * float(np.mean([r[metric] for r in rows if r["method"] == m])) for m in methods
        ]
        means.append(values)
        runs = sum(row["method"] == LEARNED for row in rows)
        cells = " | ".join(f"{v:.{digits}f}" for v in values)
        name = f"{graph} {backbone.upper()}".replace("|", "\\|")
        spread = "" if np.isnan(error) else f" ± {scale * error:.{digits}f}{mark}"
        lines.append(f"| {name} | {runs} | {cells} | {scale * change:+.{digits}f}{spread} |")
    average = np.mean(means, axis=0)
    better = int(sum(values[3] < values[0] for values in means))
    cells = " | ".join(f"**{v:.{digits}f}**" for v in average)
    # Of a debiased error around zero there is no share.
    share = f"{100 * (average[3] / average[0] - 1):+.1f} %; " if average[0] > 0 else ""
    lines.append(f"| **mean** | | {cells} | {share}better in {better} of {len(means)} |")
    return "\n".join(lines)
