"""Tables of decisions: whether sets keep their promise, how large they are, and for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from simi_mailbox.experiments.compare import Place, paired
from simi_mailbox.experiments.deciding import ACCEPT, DRAWS, FOLDS, SCORES, DecideUnit, Question
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.protocol import runs
from simi_mailbox.experiments.store import ResultStore
from simi_mailbox.experiments.tables.base import Cell, Selection, Table, selected
from simi_mailbox.experiments.tables.paper import FEW_RUNS, HOMOPHILOUS
from simi_mailbox.experiments.tables.result import SLACK, Line, TableResult, runs_per_cell
from simi_mailbox.experiments.unit import Unit
from simi_mailbox.models.bank import RunKey

METHODS = ("uncalibrated", "temperature", "gats", "simi-mailbox")
BEST_OF = ("lac", "aps", "daps", "snaps")
"""What users have today, on uncalibrated probabilities."""
TELLS_LABELS = "simi-mailbox"
"""The method that tells neighbours the labels it knows."""
BY_DEGREE = " by degree"
GAP = 2.0
"""Points of coverage that the worst group lacks, if there is a gap."""

Values = Mapping[str, Mapping[tuple[str, str], Mapping[Place, float]]]
"""By column, by (graph, backbone), by run."""

HOW = (
    "probabilities/score. Calibrators are fitted on the validation nodes. Fresh: thresholds from "
    f"as many test nodes, drawn at random ({DRAWS} times), and judged on the others."
)
APART = (
    "probabilities/score. Each calibration node is looked at where its own label was not known: "
    f"probabilities of all nodes from {FOLDS} fits, each without a part of the labels."
)


@dataclass(frozen=True)
class DecideTable(Table):
    """A grid (graph, backbone) × (probabilities, rule) of one number of the rows.

    Parameters
    ----------
    name, shows, metric, unit, digits, datasets, backbones, baseline, caption
        See `Table`.
    probabilities
        Methods whose probabilities are decided on.
    rules
        Scores of sets, or acceptance.
    conditioned
        Whether each column has one beside it with a threshold for each quarter of the degrees.
    nominal
        What was promised, in percent, where the metric is a coverage.
    protocol, default_runs
        As `CalibrationTable` has them.

    Examples
    --------
    >>> table = DecideTable("mine", "mine", "coverage_fresh_90", rules=("lac", "aps"))
    >>> table.methods[:2]
    ('uncalibrated/lac', 'uncalibrated/aps')
    """

    name: str
    shows: str
    metric: str
    unit: str = "percent"
    digits: int = 1
    datasets: tuple[str, ...] = tuple(name for name in HOMOPHILOUS if name != "CoraFull")
    backbones: tuple[str, ...] = ("gcn", "gat")
    probabilities: tuple[str, ...] = METHODS
    rules: tuple[str, ...] = tuple(SCORES)
    conditioned: bool = False
    nominal: float | None = None
    baseline: str | None = None
    caption: tuple[str, ...] = (HOW,)
    protocol: str = "folds"
    default_runs: int = FEW_RUNS

    @property
    def questions(self) -> dict[str, Question]:
        """What each column asks."""
        asked = product(self.probabilities, self.rules)
        questions = (Question(Method.of(name), rule) for name, rule in asked)
        return {str(question): question for question in questions}

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.questions)

    def units(self, selection: Selection) -> list[Unit]:
        """The rows of all these tables, if no column is named: they share their fits."""
        every = replace(self, probabilities=METHODS, rules=(*SCORES, ACCEPT)).questions
        named = selection.methods
        items = tuple(every[label] for label in (every if named is None else named))
        return [
            DecideUnit(run, items)
            for dataset in selected(selection.datasets, self.datasets)
            for backbone in selected(selection.backbones, self.backbones)
            for run in self.runs_of(dataset, backbone, selection)
        ]

    def runs_of(self, dataset: str, backbone: str, selection: Selection) -> list[RunKey]:
        """Runs of one cell."""
        return runs(dataset, backbone, self.protocol, selection.runs or self.default_runs)

    def cells(self, selection: Selection) -> list[Cell]:
        made = []
        ways = (("", self.metric), (BY_DEGREE, f"{self.metric}_by_degree"))
        for dataset, backbone in product(
            selected(selection.datasets, self.datasets),
            selected(selection.backbones, self.backbones),
        ):
            there = self.runs_of(dataset, backbone, selection)
            for label in selected(selection.methods, self.methods):
                keys = {run.place: DecideUnit(run, ()).key(self.questions[label]) for run in there}
                made += [
                    Cell(dataset, backbone, label + suffix, keys, metric=metric)
                    for suffix, metric in (ways if self.conditioned else ways[:1])
                ]
        return made

    def captions(self, lines: Sequence[Line]) -> tuple[str, ...]:
        made = runs_per_cell(lines)
        return (*self.caption, *([f"{made}."] if made else []))

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        made = super().result(store, selection)
        if self.nominal is None:
            return made
        made = replace(made, promised=self.nominal)
        counted = [(name, *made.kept(name)) for name in made.measured().methods()]
        told = ", ".join(f"{name} {kept} of {settings}" for name, kept, settings in counted)
        kept = f"Mean at most {SLACK} points below {self.nominal:.0f} %, in settings: {told}."
        return replace(made, remarks=(*made.remarks, *([kept] if told else [])))

    def remarks(self, store: ResultStore, selection: Selection) -> list[str]:
        """What the table says of each column, in one sentence."""
        values: dict[str, dict[tuple[str, str], Mapping[Place, float]]] = {}
        for cell in self.cells(selection):
            found = self._sample(store, cell).values
            if found:
                values.setdefault(cell.method, {})[cell.dataset, cell.backbone] = found
        if self.conditioned:
            return _raised(values, float(self.metric[-2:]))
        return _larger(values) if self.metric.startswith("size") else []


def _raised(values: Values, promised: float) -> list[str]:
    """What thresholds for each quarter of the degrees do to the worst, where it lacks coverage."""
    told = []
    for label in [name for name in values if name + BY_DEGREE in values]:
        pairs = zip(values[label].values(), values[label + BY_DEGREE].values(), strict=True)
        means = [[sum(found.values()) / len(found) for found in pair] for pair in pairs]
        gains = [each - one for one, each in means if one <= promised - GAP]
        by = f", by {min(gains):.1f} to {max(gains):.1f} points" if gains else ""
        told.append(f"{label} {len(gains)} of {len(means)}{by}")
    if not told:
        return []
    return [
        f"Settings where the worst quarter lacks {GAP:.0f} points or more, and by how much a "
        f"threshold for each quarter raises it: {'; '.join(told)}."
    ]


def _larger(values: Values) -> list[str]:
    """In how many settings sets are larger than the smallest of uncalibrated probabilities."""
    rivals = [label for label in (f"uncalibrated/{name}" for name in BEST_OF) if label in values]
    told = []
    for label, settings in values.items():
        if label in rivals or not rivals:
            continue
        behind = []
        for place, found in settings.items():
            there = [values[rival][place] for rival in rivals if place in values[rival]]
            if there:
                best = min(there, key=lambda sizes: sum(sizes.values()) / len(sizes))
                difference = paired(found, best)
                behind.append(difference is not None and difference.low > 0)
        told.append(f"{label} {sum(behind)} of {len(behind)}")
    if not told:
        return []
    names = ", ".join(rival.split("/")[1] for rival in rivals)
    return [
        f"Larger, by more than noise (95 % interval over splits), than the smallest of {names} on "
        f"uncalibrated probabilities, in settings: {', '.join(told)}."
    ]


def _at(level: int) -> tuple[DecideTable, ...]:
    end = "" if level == 90 else f"-{level}"
    luck = DecideTable(
        f"decide{end}",
        f"coverage of {level} % sets from the nodes that chose the checkpoint, luck counted",
        f"coverage_luck_{level}",
        nominal=float(level),
    )
    return (
        luck,
        replace(
            luck,
            name=f"decide-apart{end}",
            shows=f"coverage of {level} % sets, luck counted, no node's own label known",
            metric=f"coverage_apart_{level}",
            probabilities=(TELLS_LABELS,),
            caption=(APART,),
        ),
        replace(
            luck,
            name=f"decide-plain{end}",
            shows=f"coverage of {level} % sets as others make them: the same nodes, luck forgotten",
            metric=f"coverage_plain_{level}",
        ),
        replace(
            luck,
            name=f"decide-fresh{end}",
            shows=f"coverage of {level} % sets, thresholds from fresh nodes",
            metric=f"coverage_fresh_{level}",
        ),
        replace(
            luck,
            name=f"decide-size{end}",
            shows=f"mean size of {level} % sets, thresholds from fresh nodes",
            metric=f"size_fresh_{level}",
            unit="classes",
            digits=3,
            nominal=None,
        ),
        replace(
            luck,
            name=f"decide-worst{end}",
            shows=f"coverage of {level} % sets of the worst quarter by degree, fresh nodes",
            metric=f"worst_fresh_{level}",
            rules=("lac", "aps", "daps"),
            conditioned=True,
            nominal=None,
        ),
    )


_ACCEPTED = DecideTable(
    "decide-aurc",
    "area under the risk–coverage curve: mean error rate of the surest, over all shares",
    "aurc",
    digits=2,
    rules=(ACCEPT,),
    baseline=f"uncalibrated/{ACCEPT}",
    caption=(),
)

ALLOWED = "10 % are allowed."
_BROKEN = replace(
    _ACCEPTED,
    name="decide-broken",
    shows="how often more than 5 % of the accepted are wrong, nodes that chose the checkpoint",
    metric="broken_luck",
    digits=1,
    baseline=None,
    caption=(ALLOWED,),
)

TABLES = (
    *_at(90),
    *_at(95),
    _ACCEPTED,
    replace(
        _ACCEPTED,
        name="decide-accept",
        shows="share accepted with at most 5 % errors at 90 % confidence, fresh nodes",
        metric="accepted_fresh",
        digits=1,
        caption=(HOW,),
    ),
    _BROKEN,
    replace(
        _BROKEN,
        name="decide-broken-apart",
        shows=f"{_BROKEN.shows}, no node's own label known",
        metric="broken_apart",
        probabilities=(TELLS_LABELS,),
        caption=(ALLOWED, APART),
    ),
    replace(
        _BROKEN,
        name="decide-broken-plain",
        shows=f"{_BROKEN.shows}, luck forgotten",
        metric="broken_plain",
    ),
    replace(
        _BROKEN,
        name="decide-broken-fresh",
        shows="how often more than 5 % of the accepted are wrong, fresh nodes",
        metric="broken_fresh",
        caption=(ALLOWED, HOW),
    ),
)
