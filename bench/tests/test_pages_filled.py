"""Pages whose figures are made from written tables: what blocks hold, and how pages change."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from simi_mailbox_bench import charts, pages, render
from simi_mailbox_bench.commands.bench import bench
from simi_mailbox_bench.compare import Paired, Standing, Summary
from simi_mailbox_bench.paper_tables import Printed
from simi_mailbox_bench.tables import Line, TableResult

ROOT = Path(__file__).parents[2]
LEAK = "reads test labels"


def pair(difference, half):
    return Paired(difference, difference - half, difference + half, 0.5, 5, 3, 0.25)


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
LINES = tuple(replace(line, printed_runs=75) for line in LINES)
STANDINGS = {
    ("Cora", "gcn"): Standing("gats", 3.0, 15, "temperature", 4.0, None, "best"),
    ("Photo", "gcn"): Standing("gats", 1.5, 15, "temperature", 1.0, None, "behind"),
    ("Photo", "gat"): Standing("gats", 9.0, 3, "temperature", 2.0, None, ""),
}
MAIN = TableResult("main", "", "percent", 2, "temperature", LINES, (), {"gats": STANDINGS})
PLAIN = replace(MAIN, name="plain", lines=LINES[:2], standings={})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two written tables."""
    made = tmp_path_factory.mktemp("tables")
    write(made, MAIN, PLAIN)
    return made


def write(folder, *tables):
    pages._read.cache_clear()
    for table in tables:
        (folder / f"{table.name}.csv").write_text(render.csv_text(table), "utf-8")
    (folder / render.INDEX).write_text(render.index_text(tables), "utf-8")


@pytest.mark.parametrize(
    ("asks", "lines"),
    [
        (  # bold is the lowest mean without test labels
            'overview main backbones=gcn methods="temperature as T as in print, gats, oracle"',
            ["|  | Cora | Photo |",
             "|---|--:|--:|",
             "| T as in print | 4.00 | **1.00** |",
             "| gats | **3.00** | 1.50 |",
             "| oracle (reads test labels) | 1.00 | – |"],
        ),
        (
            "overview main backbones=gcn datasets=Cora spread=std",
            ["| temperature | 4.00 ± 1.00 |",
             "| gats | **3.00** ± 1.00 |",
             "| oracle (reads test labels) | 1.00 ± 0.10 |"],
        ),
        (
            'summary "main as ECE" methods="gats, oracle as O"',
            ["- **ECE**: lower than with temperature scaling in 1 of 3 settings, significantly in "
             "1; mean 4.50 against 2.33 (+92.9 %). Higher on Photo GCN and Photo GAT, by at most "
             "7.00, significantly in 1."],
        ),
        (
            "summary plain methods=gats",
            ["- **`plain`**: lower than with temperature scaling in 1 of 1 settings, significantly "
             "in 1; mean 3.00 against 4.00 (-25.0 %). Nowhere higher."],
        ),
        (
            "summary plain methods=temperature",
            ["- **`plain`**: not measured in the present version."],
        ),
        (  # over settings
            'means "main as ECE, plain"',
            ["| temperature | 2.33 | 4.00 |",
             "| gats | 4.50 | 3.00 |",
             "| oracle (reads test labels) | 1.00 | – |"],
        ),
        (  # cells with a printed spread
            'agreement "main as ECE, plain" methods="temperature, gats"',
            ["|  | ECE | `plain` |",
             "|---|---|---|",
             "| temperature | 2 / 2 of 2 (0.5σ) | 1 / 1 of 1 (0.4σ) |",
             "| gats | 2 / 2 of 3 (2.5σ) | 0 / 0 of 1 (2.5σ) |",
             "| together | 4 / 4 of 5 (2.5σ) | 1 / 1 of 2 (2.5σ) |",
             "| runs | 3–15 of 75 | 15 of 75 |"],
        ),
        (
            "agreement main methods=oracle",
            ["| oracle (reads test labels) | – |", "| runs | 15 |"],
        ),
        (  # −1 is −2.5 times 0.4, and −3.8 times sqrt(1² / 15 + 0.4² / 75)
            'misses "main as ECE"',
            ["| ECE | Cora GCN | gats | 3.00 ± 1.00 | 15 of 75 | 4.00 ± 0.40 | -2.5 | -3.8 |"],
        ),
        ("misses main methods=temperature", ["None."]),
        ("losses plain methods=gats", ["None."]),
        (
            'standings "main as ECE"',
            ["|  | method | best | tied | behind | not judged | behind whom |",
             "|---|---|---|---|---|---|---|",
             "| ECE | gats | 1 | 0 | 1 | 1 | temperature on Photo GCN |"],
        ),
        ("standings main datasets=Cora", ["| `main` | gats | 1 | 0 | 0 | 0 | – |"]),
    ],
)  # fmt: skip
def test_what_a_block_holds(folder, asks, lines):
    """All of its lines, or the last ones, without the head."""
    made = pages.read(asks, folder).text()
    assert made[-len(lines) :] == lines
    assert len(made) in (len(lines), len(lines) + 2)


def test_a_summary_names_rivals_with_all_settings_and_each_graph_where_it_is_higher(tmp_path):
    gats, rival = (replace(line, paired=pair(1, 0.5)) for line in LINES[1:3])
    lines = [
        replace(line, dataset=name, printed_runs=15)
        for name in ("Cora", "Photo", "CS")
        for line in (LINES[0], gats, rival)
    ]
    write(tmp_path, replace(MAIN, lines=tuple(lines)))
    (line,) = pages.read("summary main methods='gats, oracle as O'", tmp_path).text()
    assert line.endswith(
        "mean 3.00 against 4.00 (-25.0 %; O 1.00, -75.0 %). Higher on Cora GCN, Photo GCN and CS "
        "GCN, by at most 1.00, significantly in 3."
    )
    # As many runs as the paper has need not be told apart.
    assert pages.read("agreement main methods=gats", tmp_path).text()[-1] == "| runs | 15 |"


def test_targets_are_reached_in_settings_whose_mean_hardly_misses_them(tmp_path):
    write(tmp_path, replace(MAIN, target=2.1))
    assert pages.read('reached "main as 2.1 %"', tmp_path).text() == [
        "|  | 2.1 % |",
        "|---|--:|",
        "| temperature | 2 of 3 |",
        "| gats | 3 of 3 |",
        "| oracle (reads test labels) | 0 of 1 |",
    ]


def test_a_verdict_is_over_the_runs_that_both_have(folder, tmp_path):
    """Photo with a GAT has three runs of one: the other counts with its mean over these."""
    head, _, gats, oracle = pages.read("verdict main", folder).text()
    assert "| temperature | change of the mean | mean change |" in head
    # Means 4.5 and 7/3; relative changes −25 %, +50 % and +350 %.
    numbers = "3 | 3–15 of 75 | 1 | 1 | 1 | 4.50 | 2.33 | +92.9 % | +125.0 %"
    assert gats == f"| `main` | gats | {numbers} |"
    assert oracle.split(" | ")[1:7] == ["oracle (reads test labels)", "1", "15", "1", "1", "0"]
    write(tmp_path, replace(PLAIN, lines=(LINES[0], replace(LINES[1], paired=None))))
    assert pages.read("verdict plain", tmp_path).text()[-1] == f"| `plain` | gats | 0{' | –' * 8} |"


def test_losses_are_told_with_their_p_among_all_settings(tmp_path):
    """Of two settings the second is a clear loss: twice its p among both."""
    gats = replace(LINES[0], method="gats", note="")
    told = [replace(pair(d, h), p_value=p) for d, h, p in ((-1, 2, 0.4), (0.5, 0.2, 0.02))]
    lines = [
        replace(gats, dataset=name, method=method, paired=one)
        for name, one in zip(("Cora", "Photo"), told, strict=True)
        for method in ("temperature", "gats")
    ]
    write(tmp_path, replace(MAIN, lines=tuple(lines)))
    _, _, photo = pages.read("losses main methods=gats", tmp_path).text()
    assert photo.split(" | ")[1:3] == ["Photo GCN", "gats"]
    assert photo.endswith("| +0.50 ± 0.25 | 0.02 | 0.04 |")


def test_progress_counts_cells_with_all_their_runs(tmp_path):
    asked = [replace(line, wanted=15) for line in LINES]
    part = [replace(line, dataset="Cora 20", summary=None) for line in asked[:1]]
    main = replace(MAIN, title="all", lines=(*asked, *part))
    write(tmp_path, main, replace(PLAIN, title="CS", lines=(asked[-1],)))
    assert pages.read('progress "main, plain"', tmp_path).text()[2:] == [
        "| `main` | 6 of 8, 1 begun | CS |",  # Cora is there, and so could "Cora 20" be
        "| `plain` | 0 of 0 | CS |",
    ]


PAGE = """Text by hand, 55 of 56.
<!-- a comment of another kind -->

<!-- begin: misses main
     methods=temperature -->
old
<!-- end -->

* An item, inside which `<!-- begin: no marker -->` stands:

  <!-- begin: misses main methods=temperature -->
  <!-- end -->

```text
<!-- begin: nothing that is made -->
```
"""


def test_only_blocks_change_and_a_second_time_nothing(folder):
    text, stale, blocks = pages.fill(PAGE, folder)
    asks = "misses main methods=temperature"
    assert (stale, len(blocks)) == ([(4, asks), (11, asks)], 2)
    filled = PAGE.replace("-->\nold\n", "-->\n\nNone.\n\n")
    assert text == filled.replace("-->\n  <!-- end", "-->\n\n  None.\n\n  <!-- end")
    again, stale, blocks = pages.fill(text, folder)
    assert (again, stale, len(blocks)) == (text, [], 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- begin: misses main -->\n", "without its '<!-- end -->'"),
        ("<!-- end -->\n", "without its '<!-- end -->'"),
        ("<!-- begin: misses main -->\n<!-- begin: misses main -->\n<!-- end -->\n", "without"),
        ("\n<!-- begin: mtarix main -->\n<!-- end -->", "line 2: unknown kind of block 'mtarix'"),
        ("<!-- begin: overview nowhere -->\n<!-- end -->", "unknown table 'nowhere'"),
        ("<!-- begin: overview main, plain -->\n<!-- end -->", "another number of tables"),
        ("<!-- begin: overview main method=gats -->\n<!-- end -->", "unknown option of overview"),
        ('<!-- begin: overview main methods="gats, gats" -->\n<!-- end -->', "something twice"),
        ("<!-- begin: overview main methods=gatz -->\n<!-- end -->", "unknown method 'gatz'"),
        ("<!-- begin: reached main -->\n<!-- end -->", "'main' has no target"),
        ("<!-- begin: standings plain -->\n<!-- end -->", "'plain' judges no method"),
        ("<!-- begin: chart dot main -->\n<!-- end -->", "unknown chart 'dot'"),
        ("<!-- begin: chart dots main name=x -->\n<!-- end -->", "a chart needs title="),
        ("<!-- begin: overview main name=x -->\n<!-- end -->", "unknown option of overview"),
        ("<!-- begin: overview main spread=error -->\n<!-- end -->", "unknown spread 'error'"),
    ],
)
def test_what_cannot_be_made_is_told(folder, text, message):
    with pytest.raises(ValueError, match=message):
        pages.fill(text, folder)


def call(folder, *arguments):
    return CliRunner().invoke(bench, ["page", *map(str, arguments), "--tables", str(folder)])


BLOCK = "By hand: ± λ\n<!-- begin: misses main methods=temperature -->\n{}<!-- end -->\n"


def test_the_command_rewrites_pages_and_check_writes_nothing(folder, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(BLOCK.format("old\n"), "utf-8")
    result = call(folder, path, "--check")
    assert result.exit_code == 1
    assert f"{path}:2: stale: misses main methods=temperature" in result.output
    assert path.read_text("utf-8") == BLOCK.format("old\n")
    assert "1 of 1 blocks made, 0 up to date" in call(folder, path).output
    assert path.read_text("utf-8") == BLOCK.format("\nNone.\n\n")
    assert call(folder, path, "--check").exit_code == 0


CHART = """<!-- begin: chart {} main name=one title="A < B" -->
<!-- end -->
"""


@pytest.mark.parametrize("kind", ["dots", "changes", "counts", "coverage"])
def test_a_chart_is_drawn_beside_its_page_and_again_when_its_numbers_change(folder, tmp_path, kind):
    path, picture = tmp_path / "page.md", tmp_path / "images/bench/one.svg"
    path.write_text(CHART.format(kind), "utf-8")
    assert "1 of 1 blocks made" in call(folder, path).output
    assert "![A < B](images/bench/one.svg)" in path.read_text("utf-8")
    first = picture.read_text("utf-8")
    assert "<title>A &lt; B</title>" in first
    assert "prefers-color-scheme:dark" in first
    assert "#0101" not in first  # every colour that stands for another has been replaced
    assert call(folder, path, "--check").exit_code == 0
    other = tmp_path / "tables"
    other.mkdir()
    changed = replace(LINES[1], summary=Summary(3.5, 1.0, 15, 5))
    write(other, replace(MAIN, lines=(LINES[0], changed, *LINES[2:])))
    result = call(other, path, "--check")
    assert (result.exit_code, picture.read_text("utf-8")) == (1, first)
    assert f"{path}:1: stale: chart {kind}" in result.output
    call(other, path)
    assert picture.read_text("utf-8") != first


def test_counts_of_a_chart_are_those_of_the_verdict(folder):
    """gats: one significantly lower, one higher, one significantly higher; the oracle one."""
    text = charts.svg("counts", pages.read("verdict main", folder).parts, "title")
    shown = re.findall(r">([^<>]+)</text>", text)
    assert [word for word in shown if word.startswith("main: ")] == [
        "main: gats",
        "main: oracle (reads test labels)",
    ]
    bars = [int(word) for word in shown if re.fullmatch(r"[1-9]", word)]
    assert bars[-4:] == [1, 1, 1, 1]


def test_an_error_in_one_page_leaves_all_as_they_were(folder, tmp_path):
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text(BLOCK.format("old\n"), "utf-8")
    bad.write_text("\n<!-- begin: overview nowhere -->\n<!-- end -->\n")
    result = call(folder, good, bad)
    assert result.exit_code == 2
    assert "bad.md: line 2: unknown table 'nowhere'" in " ".join(result.output.split())
    assert good.read_text("utf-8") == BLOCK.format("old\n")


def test_the_published_tables_are_those_of_the_rows_and_the_pages_those_of_the_tables(tmp_path):
    results = ROOT / "results"
    # In a process of its own: other tests have backbones of other settings.
    arguments = ["bench", "write", "--store", str(results / "rows.jsonl"), "--out", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "simi_mailbox", *arguments], check=True)
    written = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    published = {p.name: p.read_text("utf-8") for p in (results / "tables").iterdir()}
    assert written.keys() == published.keys()
    assert [name for name in written if written[name] != published[name]] == []
    shown = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    result = call(results / "tables", "--check", *shown)
    assert result.exit_code == 0, result.output
    assert "0 of 0" not in result.output
