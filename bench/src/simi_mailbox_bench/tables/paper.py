"""The paper's calibration tables, as data."""

from dataclasses import replace
from itertools import product

from simi_mailbox_bench.backbones.cached_runs import Size
from simi_mailbox_bench.methods import HIDDEN, WITH_HIDDEN, Method
from simi_mailbox_bench.oracle import SOURCE
from simi_mailbox_bench.tables.calibration import CalibrationTable, Column

HOMOPHILOUS = (
    "Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics", "CoraFull",
)  # fmt: skip
OURS = "Simi-Mailbox"

PAPER, ORACLE = "simi-mailbox-paper", "simi-mailbox-oracle"
SEARCHED, CROSS_FITTED = f"{PAPER} searched", f"{PAPER} cross-fitted"

# The published method, from what its text says to what its authors released.
PUBLISHED = (
    Column.of(PAPER, OURS),
    Column(SEARCHED, Method.of(PAPER, search=True), OURS),
    Column(CROSS_FITTED, Method.of(PAPER, search=True, folds=5), OURS),
    Column(f"{PAPER} exact", Method.of(PAPER, solver="exact", selection="none"), OURS),
    Column.of(ORACLE, OURS),
    Column(f"{ORACLE} exact", Method.of(ORACLE, solver="exact"), OURS),
)
READINGS = (
    Column.of("simi-mailbox", OURS),
    Column.of("simi-mailbox-free"),
    *(Column.of(name, OURS if name == HIDDEN[0] else None) for name in HIDDEN),
    *PUBLISHED,
)
PLAIN = (Column.of("uncalibrated", "UnCal."), Column.of("temperature", "TS"))
GATS = Column.of("gats", "GATS")
FIXED = (
    f"{PAPER}: as described, N = 15, λ = 50 (fixed beforehand), the epoch of lowest validation "
    "ECE; searched: N and λ by validation ECE, too; cross-fitted: the same, five-fold inside the "
    f"validation nodes; exact: the exact minimiser, no selection. {ORACLE}: as released ({SOURCE})."
)
INPUTS = (
    "simi-mailbox and simi-mailbox-free are given logits, validation labels and the graph, as in "
    f"the README; with {WITH_HIDDEN} behind their name, what enters the GNN's last layer as well. "
    "Unlike others they take labels as evidence on neighbouring nodes, and a prior learned on "
    "other dataset families."
)
# All 75 runs on the two smallest graphs, one initialisation (5 splits × 3 folds) on the others.
MAIN_RUNS = {"Cora": 75, "Citeseer": 75, "": 15}
FEW_RUNS = 15

BASE = CalibrationTable(
    name="",
    shows="",
    datasets=HOMOPHILOUS,
    backbones=("gcn", "gat"),
    columns=(*PLAIN, GATS, *READINGS),
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
        *READINGS,
    ),
    default_runs=MAIN_RUNS,
)


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


GROUPS = (5, 10, 15, 20, 25, 30)
WEIGHTS = (1, 5, 10, 20, 30, 40, 50)
GRIDS = {f"{name} exact": overrides for name, overrides in (
    (PAPER, {"solver": "exact", "selection": "none"}), (ORACLE, {"solver": "exact"}),
)}  # fmt: skip


def grid_label(name: str, n_groups: int, weight: int) -> str:
    """Column of one cell of a grid."""
    return f"{name} N={n_groups} λ={weight}"


SENSITIVITY = replace(
    BASE,
    name="sensitivity",
    shows="ECE over the number of groups N and the weight λ: 6 × 7 combinations",
    datasets=tuple(name for name in HOMOPHILOUS if name != "CoraFull"),
    columns=(
        PLAIN[1],
        *(
            Column(
                grid_label(name, n, weight),
                Method.of(name.split()[0], n_groups=n, penalty=float(weight), **overrides),
            )
            for name, overrides in GRIDS.items()
            for n, weight in product(GROUPS, WEIGHTS)
        ),
        *(Column(f"simi-mailbox N={n}", Method.of("simi-mailbox", n_groups=n)) for n in GROUPS),
    ),
    default_runs=5,
    caption=(
        "The paper's loss minimised exactly, so that a cell does not depend on when Adam stopped: "
        f"{PAPER} exact with validation labels, {ORACLE} exact with the labels of all nodes.",
    ),
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
        name="released",
        shows="the released algorithm (reads test labels) beside print; N = 1 is its default",
        columns=(
            *PLAIN,
            Column(f"{ORACLE} N=1", Method.of(ORACLE, n_groups=1), OURS),
            Column.of(ORACLE, OURS),
        ),
        default_runs=FEW_RUNS,
        caption=(f"{ORACLE}: {SOURCE}; λ = 50, N = 15 unless said.",),
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
        columns=(*PLAIN, Column.of("cagcn", "CaGCN"), GATS, *READINGS),
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
            *READINGS,
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
            *READINGS,
        ),
    ),
    replace(
        BASE,
        name="scaling",
        shows="min-max or standard scaling before grouping",
        columns=(
            PLAIN[1],
            GATS,
            *READINGS,
            *(
                Column(
                    f"{column.label} standard",
                    Method.of(
                        column.method.name, scaling="standard", **dict(column.method.overrides)
                    ),
                    "Simi-Mailbox w/ standard scaling",
                )
                for column in READINGS
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
    TABLE1.shown_as("kde", "kde_ece", "KDE-ECE"),
    TABLE1.shown_as("class", "classwise_ece", "class-wise ECE"),
    TABLE1.shown_as("nll", "nll", "negative log-likelihood", "nats", 4),
    TABLE1.shown_as("brier", "brier", "Brier score", "raw", 4),
)
