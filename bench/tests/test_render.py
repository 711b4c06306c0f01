"""What a reader sees: every number of a cell, in every format."""

import csv
import io

import pytest

from simi_mailbox_bench import render
from simi_mailbox_bench.compare import Paired, Summary
from simi_mailbox_bench.paper_tables import Printed
from simi_mailbox_bench.tables import Line, TableResult

RESULT = TableResult(
    name="table1",
    title="test ECE",
    unit="percent",
    digits=2,
    baseline="temperature",
    lines=(
        Line("Cora", "gcn", "temperature", Summary(3.791, 1.189, 15, 5), Printed(3.87, 1.22), 1.83),
        Line(
            "Cora",
            "gcn",
            "simi-mailbox-oracle",
            Summary(2.114, 0.55, 15, 5),
            Printed(0.97, 0.44),
            1.86,
            Paired(-1.677, -2.17, -1.19, 0.001, 5, 5),
            "reads test labels",
        ),
        Line("Cora", "gat", "temperature", None, Printed(3.42, None)),
    ),
    caption=("λ = 50 & N = 15.",),
)


def test_a_terminal_of_any_width_shows_every_part_of_a_cell():
    text = render.terminal(RESULT, width=150)
    line = next(part for part in text.splitlines() if "oracle (reads test labels)" in part)
    for part in ("2.11 ± 0.55", "15", "0.97 ± 0.44", "+2.6σ", "1.86", "-1.68* [-2.17, -1.19] 5/5"):
        assert part in line
    assert "-0.1σ" in text
    assert "Cora GAT" in text
    assert "λ = 50 & N = 15." in text
    text = "".join(render.terminal(RESULT, width=80).split())
    for part in ("2.11", "0.97", "[-2.17,", "1.86", "labels)"):
        assert part in text
    assert "…" not in text


def test_markdown_has_a_matrix_and_every_cell():
    text = render.markdown(RESULT)
    assert "| graph | backbone | temperature | simi-mailbox-oracle (reads test labels) |" in text
    assert "| Cora | GCN | 3.79 ± 1.19 (3.87) | 2.11 ± 0.55 (0.97) |" in text
    assert "| Cora | GAT | – (3.42) | – |" in text
    cell = "| Cora | GCN | temperature | 3.79 ± 1.19 | 15 | 3.87 ± 1.22 | -0.1σ | 1.83 | – |"
    assert cell in text
    assert "* simi-mailbox-oracle: reads test labels." in text


def test_csv_keeps_all_digits():
    rows = list(csv.DictReader(io.StringIO(render.csv_text(RESULT))))
    assert len(rows) == 3
    assert float(rows[1]["mean"]) == 2.114
    assert float(rows[1]["difference_low"]) == -2.17
    assert float(rows[1]["deviation"]) == pytest.approx(2.6)
    assert rows[2]["mean"] == ""
    assert all(None not in row and None not in row.values() for row in rows)


@pytest.mark.parametrize("form", render.FORMATS)
def test_an_empty_table_is_still_a_table(form):
    empty = TableResult("t2a", "large graphs", "percent", 2, "temperature", ())
    assert "large graphs" in render.FORMATS[form](empty) or form == "csv"
