"""Pages whose figures are made from rows: what blocks hold, and how pages are rewritten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simi_mailbox.cli.bench import bench
from simi_mailbox.experiments import page
from simi_mailbox.experiments.calibration import CalibrationUnit
from simi_mailbox.experiments.compare import Paired, Standing, Summary
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.printed import Printed
from simi_mailbox.experiments.protocol import runs
from simi_mailbox.experiments.store import ResultStore
from simi_mailbox.experiments.tables import Line, TableResult

ROOT = Path(__file__).parents[2]
LEAK = "reads test labels"


def pair(difference: float, half: float) -> Paired:
    return Paired(difference, difference - half, difference + half, 0.5, 5, 3)


LINES = (
    Line("Cora", "gcn", "temperature", Summary(4.0, 1.0, 15, 5), Printed(3.8, 0.5)),
    Line("Cora", "gcn", "gats", Summary(3.0, 1.0, 15, 5), Printed(4.0, 0.4), None, pair(-1, 0.5)),
    Line("Cora", "gcn", "oracle", Summary(1.0, 0.1, 15, 5), None, None, pair(-3, 0.5), LEAK),
    Line("Photo", "gcn", "temperature", Summary(1.0, 0.2, 15, 5), Printed(1.1, 0.2)),
    Line("Photo", "gcn", "gats", Summary(1.5, 0.2, 15, 5), Printed(1.6, 0.2), None, pair(0.5, 1)),
    Line("Photo", "gat", "temperature", Summary(2.0, 0.2, 15, 5), Printed(2.1, None)),
    Line("Photo", "gat", "gats", Summary(9.0, 0.2, 3, 3), Printed(9.0, 1.0), None, pair(7, 1)),
    Line("CS", "gcn", "gats", None, Printed(9.0, 1.0)),
)
STANDINGS = {
    ("Cora", "gcn"): Standing("gats", 3.0, 15, "temperature", 4.0, None, "best"),
    ("Photo", "gcn"): Standing("gats", 1.5, 15, "temperature", 1.0, None, "behind"),
    ("Photo", "gat"): Standing("gats", 9.0, 3, "temperature", 2.0, None, ""),
}
MAIN = TableResult("main", "", "percent", 2, "temperature", LINES, (), {"gats": STANDINGS})
EMPTY = replace(MAIN, name="empty", lines=LINES[-1:], standings={})
PLAIN = replace(MAIN, name="plain", lines=LINES[:2], standings={})


def results(name: str, runs: int | None = None) -> TableResult:
    known = {table.name: table for table in (MAIN, EMPTY, PLAIN)}
    if name not in known:
        raise ValueError(f"unknown table {name!r}; choices: {', '.join(known)}")
    if runs is None:
        return known[name]
    made = [line for line in known[name].lines if line.summary and line.summary.runs <= runs]
    return replace(known[name], lines=tuple(made))


def made(asks: str) -> list[str]:
    return page.make(asks, results)


# --- what blocks hold ------------------------------------------------------------------------


def test_a_matrix_has_measured_and_printed_means_and_runs() -> None:
    assert made('matrix main methods="temperature as TS, gats"') == [
        "| graph | backbone | runs | TS | gats |",
        "|---|---|---|---|---|",
        "| Cora | GCN | 15 | 4.00 (3.80) | 3.00 (4.00) |",
        "| Photo | GCN | 15 | 1.00 (1.10) | 1.50 (1.60) |",
        "| Photo | GAT | 3–15 | 2.00 (2.10) | 9.00 (9.00) |",
    ]


def test_one_backbone_needs_no_column_and_notes_stay() -> None:
    assert made("matrix main backbones=gcn datasets=cora") == [
        "| graph | runs | temperature | gats | oracle (reads test labels) |",
        "|---|---|---|---|---|",
        "| Cora | 15 | 4.00 (3.80) | 3.00 (4.00) | 1.00 |",
    ]


def test_an_overview_marks_the_lowest_mean_without_test_labels() -> None:
    asks = 'overview main backbones=gcn methods="temperature as T as in print, gats, oracle"'
    assert made(asks) == [
        "|  | Cora | Photo |",
        "|---|--:|--:|",
        "| T as in print | 4.00 | **1.00** |",
        "| gats | **3.00** | 1.50 |",
        "| oracle (reads test labels) | 1.00 | – |",
    ]


def test_one_method_of_several_tables_side_by_side() -> None:
    assert made('beside "main as ECE, plain" methods=gats') == [
        "| graph | backbone | runs | ECE | `plain` |",
        "|---|---|---|---|---|",
        "| Cora | GCN | 15 | 3.00 | 3.00 |",
        "| Photo | GCN | 15 | 1.50 | – |",
        "| Photo | GAT | 3 | 9.00 | – |",
    ]


def test_means_are_over_settings() -> None:
    assert made('means "main as ECE, plain"')[2:] == [
        "| temperature | 2.33 | 4.00 |",
        "| gats | 4.50 | 3.00 |",
        "| oracle (reads test labels) | 1.00 | – |",
    ]


def test_promises_are_kept_in_settings_whose_mean_hardly_misses_them() -> None:
    promised = replace(MAIN, promised=2.1)
    assert page.make('kept "main as 2.1 %"', lambda *_: promised) == [
        "|  | 2.1 % |",
        "|---|--:|",
        "| temperature | 2 of 3 |",
        "| gats | 3 of 3 |",
        "| oracle (reads test labels) | 0 of 1 |",
    ]


def test_agreement_counts_cells_with_a_printed_spread() -> None:
    assert made('agreement "main as ECE, plain" methods="temperature, gats"') == [
        "|  | ECE | `plain` |",
        "|---|---|---|",
        "| temperature | 2 of 2 (0.5σ) | 1 of 1 (0.4σ) |",
        "| gats | 2 of 3 (2.5σ) | 0 of 1 (2.5σ) |",
        "| together | 4 of 5 (2.5σ) | 1 of 2 (2.5σ) |",
    ]
    assert made("agreement main methods=oracle")[2:] == ["| oracle (reads test labels) | – |"]


def test_misses_are_the_cells_that_agreement_leaves_out() -> None:
    assert made('misses "main as ECE"')[2:] == [
        "| ECE | Cora GCN | gats | 3.00 ± 1.00 | 15 | 4.00 ± 0.40 | -2.5σ |"
    ]
    assert made("misses main methods=temperature") == ["None."]


def test_a_verdict_is_over_settings_with_equal_runs() -> None:
    """Photo with a GAT has three runs of one and fifteen of the other: it is left out."""
    head, _, gats, oracle = made("verdict main")
    assert "| temperature | change of the mean | mean change |" in head
    # Means 2.25 and 2.5; relative changes −25 % and +50 %.
    assert gats == "| `main` | gats | 2 | 1 | 1 | 0 | 2.25 | 2.50 | -10.0 % | +12.5 % |"
    assert oracle.split(" | ")[1:6] == ["oracle (reads test labels)", "1", "1", "1", "0"]


def test_losses_are_told_with_their_p_among_all_settings() -> None:
    """Of two settings the second is a clear loss: twice its p among both."""
    assert made("losses main methods=gats") == ["None."]
    gats = replace(LINES[0], method="gats", note="")
    told = [replace(pair(d, h), p_value=p) for d, h, p in ((-1, 2, 0.4), (0.5, 0.2, 0.02))]
    lines = [
        replace(gats, dataset=name, method=method, paired=one)
        for name, one in zip(("Cora", "Photo"), told, strict=True)
        for method in ("temperature", "gats")
    ]
    table = replace(MAIN, lines=tuple(lines))
    _, _, photo = page.make("losses main methods=gats", lambda name, _: table)
    assert photo.split(" | ")[1:3] == ["Photo GCN", "gats"]
    assert photo.endswith("| +0.50 ± nan | 0.02 | 0.04 |")


def test_progress_counts_cells_with_all_their_runs_and_names_graphs_that_no_table_has() -> None:
    asked = [replace(line, wanted=15) for line in LINES]
    part = [replace(line, dataset="Cora 20", summary=None) for line in asked[:1]]
    tables = {
        "main": replace(MAIN, title="all", lines=(*asked, *part)),
        "plain": replace(PLAIN, title="CS", lines=(asked[-1],)),
    }
    assert page.make('progress "main, plain"', lambda name, _: tables[name]) == [
        "| table | shows | cells done | no data for |",
        "|---|---|---|---|",
        "| `main` | all | 6 of 8, 1 begun | CS |",  # Cora is there, and so could "Cora 20" be
        "| `plain` | CS | 0 of 0 | CS |",
    ]
    measured = replace(tables["plain"], lines=(replace(asked[0], dataset="CS"),))
    tables["plain"] = measured
    shown = page.make('progress "main, plain"', lambda name, _: tables[name])
    assert shown[2:] == ["| `main` | all | 6 of 9, 1 begun | – |", "| `plain` | CS | 1 of 1 | – |"]


def test_standings_tell_behind_whom() -> None:
    assert made('standings "main as ECE"') == [
        "|  | method | best | tied | behind | not judged | behind whom |",
        "|---|---|---|---|---|---|---|",
        "| ECE | gats | 1 | 0 | 1 | 1 | temperature on Photo GCN |",
    ]
    assert made("standings main datasets=Cora")[2:] == ["| `main` | gats | 1 | 0 | 0 | 0 | – |"]


def test_only_the_runs_that_are_asked_for_are_shown() -> None:
    assert made("matrix main runs=3")[2:] == ["| Photo | 3 | 9.00 (9.00) |"]


# --- pages -----------------------------------------------------------------------------------

PAGE = """Text by hand, 55 of 56.
<!-- a comment of another kind -->

<!-- begin: misses main
     methods=temperature -->
old
<!-- end -->

* An item, in the middle of which `<!-- begin: no marker -->` stands:

  <!-- begin: misses main methods=temperature -->
  <!-- end -->
"""


def test_only_the_bodies_of_blocks_change() -> None:
    text, stale = page.fill(PAGE, results)
    assert [(block.line, block.asks) for block in stale] == [
        (4, "misses main methods=temperature"),
        (11, "misses main methods=temperature"),
    ]
    assert "<!-- begin: misses main\n     methods=temperature -->\n\nNone.\n\n<!-- end -->" in text
    assert "  <!-- begin: misses main methods=temperature -->\n\n  None.\n\n  <!-- end -->" in text
    left = text.replace("\n\nNone.\n\n<!-- end", "\nold\n<!-- end").replace("\n\n  None.\n\n", "\n")
    assert left == PAGE


def test_a_page_just_made_is_fresh_until_a_figure_is_touched() -> None:
    text, _ = page.fill("<!-- begin: matrix main -->\n<!-- end -->\n", results)
    assert page.fill(text, results) == (text, [])
    touched = text.replace("4.00 (3.80)", "3.99 (3.80)")
    again, stale = page.fill(touched, results)
    assert again == text
    assert [block.asks for block in stale] == ["matrix main"]


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n",
        "<!-- end of the section -->\n<!-- begin here -->\n<!-- ending -->\n",
        "```\n<!-- begin: nothing -->\n<!-- end -->\n```\n",
        "* ~~~~ md\r\n  ~~~\r\n  <!-- end -->\r\n  ~~~~\r\n",
        "> 1. ```text\n> <!-- end -->\n> `````\n",
    ],
)
def test_a_page_without_a_block_is_left_alone(text: str) -> None:
    assert page.fill(text, results) == (text, [])


@pytest.mark.parametrize("before", ["```", "```sh ```\n", "```\ncode\n```\n", "~~~\n```\n"])
def test_what_is_no_fence_around_a_block_hides_nothing(before: str) -> None:
    """One that is closed before, never, or on its own line."""
    text = f"{before}\n<!-- begin: misses main methods=temperature -->\n<!-- end -->\n"
    assert "\n\nNone.\n\n" in page.fill(text, results)[0]


def test_a_page_keeps_its_line_ends_and_its_byte_order_mark() -> None:
    text = "\ufeff<!-- begin: misses main -->\n<!-- end -->\nBy hand.\n"
    plain, _ = page.fill(text, results)
    assert plain.startswith("\ufeff<!-- begin: misses main -->\n\n| ")
    windows, stale = page.fill(text.replace("\n", "\r\n"), results)
    assert [block.line for block in stale] == [1]
    assert windows == plain.replace("\n", "\r\n")
    assert page.fill(windows, results) == (windows, [])


def test_a_pipe_in_a_name_stays_in_its_cell() -> None:
    head, rule, *_ = made('matrix main methods="gats as a|b, oracle as a\\|b"')
    assert head == r"| graph | backbone | runs | a\|b | a\|b |"
    assert rule.count("|") == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n<!-- begin: misses main -->\n", "line 2: a begin without an end"),
        ("\n\n<!-- end -->\n", "line 3: an end without a begin"),
        (
            "<!-- begin: misses main -->\n<!-- begin: misses main -->\n<!-- end -->\n",
            "line 2: a begin before the end of the block that began in line 1",
        ),
        ("<!-- begin: misses main\n\n<!-- end -->\n", "line 1: a broken marker"),
        ("\n<!-- begin: misses main --> tail\n<!-- end -->\n", "line 2: a broken marker"),
        ("<!-- begin misses main -->\n<!-- end -->\n", "line 1: a broken marker"),
        ("<!-- begin: misses main -->\n<!-- end", "line 2: a broken marker"),
    ],
)
def test_broken_markers_are_errors_with_their_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        page.fill(text, results)


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ("", "unknown kind of block ''; choices: matrix, overview"),
        ("heading main", "unknown kind of block 'heading'"),
        ("matrix", "matrix shows one table, got none"),
        ("matrix main,plain", "matrix shows one table, got main, plain"),
        ("misses other", "unknown table 'other'; choices: main"),
        ("misses empty", "table 'empty' has no rows in this store"),
        ("misses main method=gats", "unknown option 'method' of misses; choices: methods"),
        ("misses main methods=gat", "unknown method 'gat'; did you mean 'gats'"),
        ("misses main methods=", "nothing of table 'main' is left"),
        ("misses main datasets=CS", "unknown dataset 'CS'; choices: Cora, Photo"),
        ("matrix main datasets=Cora backbones=gat", "unknown backbone 'gat'; choices: gcn"),
        ('misses main methods="gats', "No closing quotation"),
        ("verdict main methods=oracle datasets=Photo", "unknown method 'oracle'"),
        ("verdict main methods=gats backbones=gat", "'gats' and the baseline share no setting"),
        ("kept main", "table 'main' promises nothing"),
        ("beside main", "beside shows one method of several tables, got 3"),
        ("standings plain", "table 'plain' judges no method"),
        ('matrix main methods="gats as A, gats as B"', "'gats' is asked for 2 times"),
        ('matrix main methods="gats, Gats as B"', "'gats' is asked for 2 times"),
        ('misses "main as A, main as B"', "'main' is asked for 2 times"),
        ("misses main methods=gats methods=oracle", "'methods' is asked for 2 times"),
        ("standings main methods=gats", "unknown option 'methods' of standings"),
        ("matrix main runs=few", "runs must be a whole number above nought, got 'few'"),
        ("matrix main runs=0", "runs must be a whole number above nought, got '0'"),
        ("progress main methods=gats", "unknown option 'methods' of progress; choices: none"),
    ],
)
def test_a_block_that_asks_for_what_there_is_not(asks: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"line 3: {words}"):
        page.fill(f"\n\n<!-- begin: {asks} -->\n<!-- end -->\n", results)


# --- the command -----------------------------------------------------------------------------

BLOCK = "<!-- begin: matrix registry methods=temperature -->\n{}<!-- end -->\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented rows of one method in one setting."""
    rows = ResultStore(tmp_path_factory.mktemp("page") / "rows.jsonl")
    method = Method.of("temperature")
    for run in runs("Cora", "gcn", "folds", 15):
        key = CalibrationUnit(run, (method,)).key(method)
        rows.append({"key": key, "metrics": {"ece": 0.04 + 0.001 * (run.split - 2)}})
    return rows.path


@pytest.fixture
def call(store: Path) -> Callable[..., Result]:
    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(bench, ["page", *map(str, arguments), "--store", str(store)])

    return invoke


def test_the_command_rewrites_pages(call: Callable[..., Result], tmp_path: Path) -> None:
    one, two = tmp_path / "one.md", tmp_path / "two.md"
    one.write_bytes(("By hand: ± λ\r\n" + BLOCK.format("old\n")).encode())
    two.write_text("nothing to make\n")
    result = call(one, two)
    assert result.exit_code == 0, result.output
    assert f"{one}:2: made: matrix registry methods=temperature" in result.output
    assert "1 of 1 blocks made, 0 fresh" in result.output
    table = "\n| graph | runs | temperature |\n|---|---|---|\n| Cora | 15 | 4.00 |\n\n"
    assert one.read_bytes().decode() == "By hand: ± λ\r\n" + BLOCK.format(table)
    assert two.read_text() == "nothing to make\n"
    assert {path.name for path in tmp_path.iterdir()} == {"one.md", "two.md"}
    assert "0 of 1 blocks made, 1 fresh" in call(one).output


def test_check_names_stale_blocks_and_writes_nothing(
    call: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "page.md"
    path.write_text(BLOCK.format("old\n"))
    result = call(path, "--check")
    assert result.exit_code == 1
    assert f"{path}:1: stale: matrix registry methods=temperature" in result.output
    assert path.read_text() == BLOCK.format("old\n")
    call(path)
    assert call(path, "--check").exit_code == 0


def test_an_error_in_one_page_leaves_all_as_they_were(
    call: Callable[..., Result], tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text(BLOCK.format("old\n"))
    bad.write_text("\n<!-- begin: matrix nowhere -->\n<!-- end -->\n")
    result = call(good, bad)
    assert result.exit_code == 2
    message = " ".join(result.output.split())
    assert "bad.md: line 2: unknown table 'nowhere'" in message
    assert good.read_text() == BLOCK.format("old\n")


def test_what_was_judged_is_shown_by_folder_and_metric(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "unseen" / "rows.jsonl")
    for split, (method, nll) in product(range(2), (("temperature", 0.5), ("gats", 0.25))):
        store.append(
            {
                "key": f"{method} {split}",
                "dataset": "Web",
                "backbone": "gcn",
                "method": method,
                "settings": {},
                "split": split,
                "fold": 0,
                "init": 0,
                "metrics": {"nll": nll},
            }
        )
    path = tmp_path / "page.md"

    def made(asks: str) -> Result:
        path.write_text(f"<!-- begin: {asks} -->\n<!-- end -->\n")
        return CliRunner().invoke(
            bench, ["page", str(path), "--store", str(tmp_path / "rows.jsonl")]
        )

    assert made("matrix unseen/nll methods=gats").exit_code == 0
    assert "| Web | 2 | 0.2500 |" in path.read_text()
    for asks, message in (
        ("matrix unseen/beauty", "unknown metric 'beauty'; choices: ece"),
        ("matrix elsewhere/nll", "prior judge --out"),
        ("matrix unseen/nll runs=1", "leave out runs=1"),
    ):
        result = made(asks)
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())


def test_a_failed_write_leaves_the_page_and_no_rest(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.md"
    path.write_text(BLOCK.format("old\n"))

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:5])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert isinstance(call(path).exception, OSError)
    assert path.read_text() == BLOCK.format("old\n")
    assert [file.name for file in tmp_path.iterdir()] == ["page.md"]


def test_the_published_pages_are_fresh() -> None:
    """The figures of these pages are what the rows in results/ say."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    result = CliRunner().invoke(
        bench, ["page", "--check", *map(str, pages), "--store", str(ROOT / "results/rows.jsonl")]
    )
    assert result.exit_code == 0, result.output
    for name in ("README.md", "docs/methods.md", "docs/reproduction.md"):
        assert page.find((ROOT / name).read_text(encoding="utf-8")), f"{name} has lost its blocks"
