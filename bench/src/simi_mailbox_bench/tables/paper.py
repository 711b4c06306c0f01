"""The paper's calibration tables, as data."""

from dataclasses import replace

from simi_mailbox_bench.backbones.cached_runs import Size
from simi_mailbox_bench.methods import HIDDEN, WITH_HIDDEN, Method
from simi_mailbox_bench.tables.calibration import CalibrationTable, Column

HOMOPHILOUS = (
    "Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics", "CoraFull",
)  # fmt: skip
OURS = "Simi-Mailbox"

THREE_READINGS = (
    Column.of("simi-mailbox", OURS),
    Column.of("simi-mailbox-free"),
    *(Column.of(name, OURS if name == HIDDEN[0] else None) for name in HIDDEN),
    Column.of("simi-mailbox-paper", OURS),
    Column.of("simi-mailbox-oracle", OURS),
)
PLAIN = (Column.of("uncalibrated", "UnCal."), Column.of("temperature", "TS"))
GATS = Column.of("gats", "GATS")
FIXED = (
    "simi-mailbox-paper and simi-mailbox-oracle use N = 15 groups and λ = 50 everywhere, chosen "
    "before looking at any test label."
)
INPUTS = (
    "simi-mailbox and simi-mailbox-free are given logits, validation labels and the graph, as in "
    f"the README; with {WITH_HIDDEN} behind their name, what enters the GNN's last layer as well."
)
# All 75 runs on the two smallest graphs, one initialisation (5 splits × 3 folds) on the others.
MAIN_RUNS = {"Cora": 75, "Citeseer": 75, "": 15}
FEW_RUNS = 15

BASE = CalibrationTable(
    name="",
    shows="",
    datasets=HOMOPHILOUS,
    backbones=("gcn", "gat"),
    columns=(*PLAIN, GATS, *THREE_READINGS),
    default_runs=FEW_RUNS,
    caption=(FIXED, INPUTS),
)

TABLE1 = replace(
    BASE,
    name="table1",
    shows="main comparison: test ECE, GCN and GAT",
    columns=(
        *PLAIN,
        Column.of("vector", "VS"),
        Column.of("ensemble-temperature", "ETS"),
        Column.of("cagcn", "CaGCN"),
        GATS,
        *THREE_READINGS,
    ),
    default_runs=MAIN_RUNS,
)


def _other_metric(name: str, metric: str, what: str, unit: str, digits: int) -> CalibrationTable:
    shows = f"{what}, on the rows of table1"
    return replace(TABLE1, name=name, shows=shows, metric=metric, unit=unit, digits=digits)


def _backbone(name: str, what: str) -> CalibrationTable:
    shows = f"test ECE with {what} as the backbone"
    return replace(BASE, name=name, shows=shows, backbones=(name,))


def _heterophilous(name: str, what: str, *datasets: str) -> CalibrationTable:
    return replace(
        BASE,
        name=name,
        shows=f"test ECE on {what}",
        datasets=datasets,
        protocol="official",
        default_runs=10,
        caption=(
            FIXED,
            INPUTS,
            "Ten official splits; one initialisation unless more runs are asked for.",
        ),
    )


def _curve(method: str, parameter: str, symbol: str, values: tuple[int, ...]) -> list[Column]:
    return [
        Column(f"{method} {symbol}={value}", Method.of(method, **{parameter: value}))
        for value in values
    ]


_GROUPS = (5, 10, 15, 20, 25, 30)
_WEIGHTS = (1, 5, 10, 15, 20, 25, 30, 50)

SENSITIVITY = replace(
    BASE,
    name="sensitivity",
    shows="ECE over the number of groups N and the weight λ",
    datasets=HOMOPHILOUS[:4],
    backbones=("gcn",),
    columns=(
        PLAIN[1],
        *(
            column
            for method in ("simi-mailbox-paper", "simi-mailbox-oracle")
            for column in (
                *_curve(method, "n_groups", "N", _GROUPS),
                *_curve(method, "penalty", "λ", _WEIGHTS),
            )
        ),
        *_curve("simi-mailbox", "n_groups", "N", _GROUPS),
    ),
    caption=("λ = 50 where N varies, N = 15 where λ varies.",),
)

TABLES = (
    TABLE1,
    replace(
        TABLE1,
        name="table1-5",
        shows="the main comparison on the first fold of the five splits",
        default_runs=5,
    ),
    replace(
        BASE,
        name="obs",
        shows="variance of the calibration error: over all nodes, in confidence bins, in cells",
        columns=tuple(
            Column(label, Method.of("uncalibrated"), as_printed, metric)
            for label, as_printed, metric in (
                ("all nodes", "Node-wise", "variance_nodes"),
                ("confidence", "Conf.", "variance_confidence"),
                ("confidence and similarity", "Neig. Sim.", "variance_similarity"),
            )
        ),
        unit="x100",
        digits=3,
        quantity="variance",
        baseline="confidence",
        caption=("Variance × 100 of the uncalibrated model's calibration error; 10 × 10 bins.",),
    ),
    replace(
        BASE,
        name="t2a",
        shows="large graphs: test ECE on Arxiv and Reddit2",
        datasets=("Arxiv", "Reddit2"),
        backbones=("gcn", "sage"),
        columns=(*PLAIN, Column.of("cagcn", "CaGCN"), GATS, *THREE_READINGS),
        protocol="official",
        sizes={"Arxiv": Size(1, 1, 10), "Reddit2": Size(1, 1, 10)},
        default_runs=None,
        caption=(
            FIXED,
            INPUTS,
            "One split and ten initialisations: there is no second split to compare over.",
        ),
    ),
    replace(
        BASE,
        name="gc",
        shows="against group calibration, with a tenth of the test nodes held out for it",
        columns=(
            *PLAIN,
            Column("gc+ts", Method.of("group-calibration", base="temperature"), "GC+TS w/ HO"),
            Column(
                "gc+ets",
                Method.of("group-calibration", base="ensemble-temperature"),
                "GC+ETS w/ HO",
            ),
            *THREE_READINGS,
        ),
        evaluation="test-90",
        caption=(
            FIXED,
            INPUTS,
            "All methods are measured on the other nine tenths of the test nodes.",
        ),
    ),
    replace(
        BASE,
        name="recent",
        shows="against SimCalib, GETS and DCGC",
        backbones=("gcn", "gat", "sage"),
        columns=(
            *PLAIN,
            Column("simcalib", Method.of("simcalib"), "SimCalib", None, ("gcn", "gat")),
            Column("gets", Method.of("gets"), "GETS", None, ("gcn", "gat")),
            Column("dcgc", Method.of("dcgc"), "DCGC", None, ("gcn", "sage")),
            *THREE_READINGS,
        ),
    ),
    replace(
        BASE,
        name="scaling",
        shows="min-max or standard scaling before grouping",
        columns=(
            PLAIN[1],
            GATS,
            *THREE_READINGS,
            *(
                Column(
                    f"{column.label} standard",
                    Method.of(column.label, scaling="standard"),
                    "Simi-Mailbox w/ standard scaling",
                )
                for column in THREE_READINGS
                if column.label not in HIDDEN
            ),
        ),
    ),
    SENSITIVITY,
    _heterophilous(
        "het1",
        "the heterophilous graphs of Geom-GCN",
        *("Chameleon", "Squirrel", "Actor", "Texas", "Wisconsin", "Cornell"),
    ),
    _heterophilous(
        "het2",
        "the heterophilous graphs of Platonov et al.",
        *("Roman-empire", "Amazon-ratings", "Minesweeper", "Tolokers", "Questions"),
    ),
    replace(
        BASE,
        name="sparse",
        shows="test ECE with 20 labels per class for training",
        protocol="sparse",
        sizes=dict.fromkeys(BASE.datasets, Size(15, 1, 1)),
        paper_runs=10,
        default_runs=None,
    ),
    _backbone("mlp", "an MLP"),
    _backbone("sage", "GraphSAGE"),
    _backbone("gin", "GIN"),
    _other_metric("kde", "kde_ece", "KDE-ECE", "percent", 2),
    _other_metric("class", "classwise_ece", "class-wise ECE", "percent", 2),
    _other_metric("nll", "nll", "negative log-likelihood", "nats", 4),
    _other_metric("brier", "brier", "Brier score", "raw", 4),
)
