"""Numbers of README and docs, computed a second time: csv, json and NumPy alone.

Rows to tables: every measured cell of the tables below, its spread, runs and difference from the
baseline. Tables to pages: every block is read back from the page, and each of its numbers
recomputed. Charts are drawn from the same tables. No code of the bench is used.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *<!-- begin:(.*?)-->\n(.*?)^ *<!-- end -->", re.MULTILINE | re.DOTALL)
# Two-sided 95 % quantiles of Student's t by the number of splits.
STUDENT = {
    2: 12.70620474, 3: 4.30265273, 4: 3.18244631, 5: 2.77644511, 6: 2.57058184, 7: 2.44691185,
    8: 2.36462425, 9: 2.30600414, 10: 2.26215716, 15: 2.14478669,
}  # fmt: skip

MAIN = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")
GEOM = ("Chameleon", "Squirrel", "Actor", "Texas", "Wisconsin", "Cornell")
FOLDS, OFFICIAL, SPARSE = (5, 3, 5), (10, 1, 5), (15, 1, 1)
PERCENT = ("ece", "kde_ece", "debiased_ece", "classwise_ece", "accuracy")


def table(metric="ece", graphs=MAIN, backbones=("gcn", "gat"), runs=15, size=FOLDS, kind="folds"):
    return metric, graphs, backbones, runs, size, kind


PAPER = {"runs": {"Cora": 75, "Citeseer": 75}}
SPLITS = {"runs": 10, "size": OFFICIAL, "kind": "official"}
TABLES = {
    "table1": table(**PAPER),
    "table1-5": table(runs=5),
    "class": table("classwise_ece", **PAPER),
    **{m: table(f"{m}_ece" if m == "kde" else m, **PAPER) for m in ("kde", "nll", "brier")},
    "recent": table(backbones=("gcn", "gat", "sage")),
    "het1": table(graphs=GEOM, **SPLITS),
    "het2": table(graphs=("Minesweeper", "Tolokers"), **SPLITS),
    "sparse": table(size=SPARSE, kind="sparse"),
    **{name: table(backbones=(name,)) for name in ("mlp", "sage", "gin")},
    **{
        f"{name}{'' if m == 'ece' else '-' + m.removesuffix('_ece')}": table(m, runs=5)
        for name in ("registry", "versus")
        for m in ("ece", "kde_ece", "debiased_ece", "nll", "brier", "accuracy")
        if name == "registry" or m not in ("debiased_ece", "accuracy")
    },
    "ablation": table("nll"),
    "ablation-ece": table(),
    "gpn": table(graphs=("CoraML", *MAIN), backbones=("gpn",), **(SPLITS | {"kind": "gpn"})),
}
BASELINES = {"ablation": "simi-mailbox", "ablation-ece": "simi-mailbox", "gpn": "uncalibrated"}
BASELINES |= {name: "gats" for name in TABLES if name.startswith("versus")}

ADAM = {"solver": "adam", "selection": "validation-ece", "search": False, "folds": 0}
FORMS = {
    "simi-mailbox-paper": ADAM,
    "simi-mailbox-paper searched": ADAM | {"search": True},
    "simi-mailbox-paper cross-fitted": ADAM | {"search": True, "folds": 5},
    "simi-mailbox-paper exact": {"solver": "exact", "selection": "none"},
    "simi-mailbox-oracle": {"solver": "adam"},
    "simi-mailbox-oracle exact": {"solver": "exact"},
}
DEFAULT_GROUPS = 20
PUBLISHED = {"n_groups": 15, "penalty": 50.0, "scaling": "min-max"}


@cache
def stored():
    lines = gzip.decompress((ROOT / "results/rows.jsonl.gz").read_bytes()).decode().splitlines()
    lines += (ROOT / "results/rows.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def rows():
    """Measured rows by (method as a table calls it, graph, backbone, protocol), then by run."""
    made = [r for r in stored() if (r.get("measure"), r.get("evaluation")) == ("metrics", "test")]
    newest = {}
    for row in made:
        name = row["method"]
        newest[name] = max(newest.get(name, 0), row["revision"])
    found = {}
    for row in made:
        name, chosen = row["method"], row["settings"]
        if row["revision"] != newest[name] or "backbone_settings" not in row:
            continue
        labels = [name]
        if name.startswith(("simi-mailbox-paper", "simi-mailbox-oracle")):
            given = [k for k in FORMS if k.split()[0] == name]
            labels = [k for k in given if (FORMS[k] | PUBLISHED).items() <= chosen.items()]
        elif not name.startswith("simi-mailbox"):
            pass
        elif chosen["scaling"] != "min-max":
            continue
        elif name == "simi-mailbox-ablated":
            whole = "simi-mailbox" if chosen["keep_classes"] else "simi-mailbox-free"
            labels = [f"{whole} − {chosen['without']}"]
        elif chosen["n_groups"] == 1:
            labels = [f"{name} − groups"]
        else:  # other tables turn the number of groups
            labels *= chosen["n_groups"] == DEFAULT_GROUPS
        for label in labels:
            place = label, row["dataset"], row["backbone"], row["protocol"]
            found.setdefault(place, {})[row["split"], row["fold"], row["init"]] = row
    return found


def runs_of(name, method, graph, backbone):
    _, _, _, limit, (splits, folds, inits), protocol = TABLES[name]
    limit = limit.get(graph, 15) if isinstance(limit, dict) else limit
    order = [(s, f, i) for i, f, s in product(range(inits), range(folds), range(splits))]
    there = rows().get((method, graph, backbone, protocol), {})
    return {place: there[place] for place in order[:limit] if place in there}


# --- from rows to tables --------------------------------------------------------------------------


@cache
def lines_of(name):
    """Cells of a written table; ``x/m`` is metric m of table x."""
    file, _, metric = name.partition("/")
    with (ROOT / f"results/tables/{file}.csv").open(encoding="utf-8", newline="") as text:
        return [line for line in csv.DictReader(text) if not metric or line["metric"] == metric]


@cache
def index():
    return {line["table"]: line for line in lines_of("index")}


def measured(name):
    return [line for line in lines_of(name) if line["mean"]]


def check_cell(line, ours, base, scale):
    """One cell: runs by (split, fold, init), each a row."""
    metric = line["metric"]
    found = np.array([scale * row["metrics"][metric] for row in ours.values()])
    assert int(line["runs"]) == len(found)
    np.testing.assert_allclose(
        [float(line["mean"]), float(line["std"])], [found.mean(), found.std()]
    )
    same = [p for p in ours if p in base and ours[p]["logits"] == base[p]["logits"]]
    splits = np.array([place[0] for place in same])
    if ours is base or len(set(splits)) < 2:
        assert not line["difference"]
        return
    gaps = scale * np.array([ours[p]["metrics"][metric] - base[p]["metrics"][metric] for p in same])
    each = np.array([gaps[splits == s].mean() for s in np.unique(splits)])
    half = STUDENT[len(each)] * each.std(ddof=1) / np.sqrt(len(each))
    told = [float(line[f"difference{end}"]) for end in ("", "_low", "_high")]
    mean = each.mean()
    np.testing.assert_allclose(told, [mean, mean - half, mean + half], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_that_of_the_rows(name):
    scale = 100 if TABLES[name][0] in PERCENT else 1
    for line in measured(name):
        place = line["dataset"], line["backbone"]
        ours = runs_of(name, line["method"], *place)
        against = BASELINES.get(name, "temperature")
        base = ours if line["method"] == against else runs_of(name, against, *place)
        assert ours, line
        check_cell(line, ours, base, scale)


@cache
def other_rows():
    """Rows of other experiments by (kind, graph, backbone, method), then by run."""
    made = stored()
    age = {}  # only the newest version of a method and of a measurement counts

    def version(row):
        return row.get("measure_revision", 0), row.get("revision", row.get("version", 0))

    for row in made:
        name = kind_of(row), row["method"]
        age[name] = max(age.get(name, (0, 0)), version(row))
    # What is learned of other graphs enters decisions, too: only the last one counts.
    learned = {(row["dataset"], kind_of(row)): row.get("error_free_labels") for row in made}
    found = {}
    for row in made:
        kind, graph, method = kind_of(row), row["dataset"], row["method"]
        last = row.get("error_free_labels") == learned[graph, kind]
        if version(row) != age[kind, method] or not last:
            continue
        if kind == "decide":
            rule = row["rule"]
            method = f"{method}/{rule if isinstance(rule, str) else rule['name']}"
        elif kind == "self-training":
            graph = f"{graph} {row['protocol'].removeprefix('rate')}"
            method = f"plain GNN + {method}" if row.get("stages") == 1 else method
        elif kind == "ood":
            graph = f"{graph} {row['kind']}"
        if kind in ("ood", "self-training") and row.get("settings", {}).get("search"):
            method += " searched"
        places = found.setdefault((kind, graph, row.get("backbone"), method), {})
        places[row["split"], row["fold"], row["init"]] = row
    return found


def kind_of(row):
    return row.get("measure") or row.get("experiment") or ""


OTHERS = {
    **dict.fromkeys(("binary", "binary-ece", "binary-brier", "binary-auprc"), "one-class"),
    **dict.fromkeys(("self-training-gcn", "self-training-gat"), "self-training"),
    **dict.fromkeys(("ood", "ood-aupr", "ood-fpr95"), "ood"),
    "decide": "decide",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_table_of_another_experiment_is_that_of_the_rows(name):
    checked = 0
    for line in measured(name):
        if " by " in line["method"]:  # another number of the same row
            continue
        runs = other_rows().get((OTHERS[name], line["dataset"], line["backbone"], line["method"]))
        if runs is None:
            continue
        scale = 100 if line["unit"] in ("percent", "x100") else 1
        found = [row["metrics"].get(line["metric"]) for row in runs.values()]
        found = scale * np.array([np.nan if x is None else x for x in found], dtype=float)
        found = found[np.isfinite(found)]
        assert int(line["runs"]) == found.size, line
        np.testing.assert_allclose(float(line["mean"]), found.mean())
        checked += 1
    assert checked > 0.6 * len(measured(name))


# --- from tables to pages -------------------------------------------------------------------------


def named(text):
    """``"a as b, c"`` -> {"b": "a", "c": "c"}."""
    parts = [part.strip().partition(" as ") for part in text.split(",") if part.strip()]
    return {called or name: name for name, _, called in parts}


def method_of(title, options):
    return named(options.get("methods", "")).get(title) or re.sub(r" \([^()]*\)$", "", title)


def blocks():
    for page in PAGES:
        for asks, body in BLOCK.findall(page.read_text("utf-8")):
            kind, *words = shlex.split(asks)
            options = dict(word.split("=", 1) for word in words if "=" in word)
            tables = named(",".join(word for word in words if "=" not in word))
            title = f"{page.name}: {kind} {' '.join(tables.values())}"
            lines = [
                line.strip().strip("|").split("|") for line in body.splitlines() if "|" in line
            ]
            grid = [[cell.strip() for cell in line] for line in lines]
            shown = body.split("\n- ")[1:] if kind == "summary" else [*grid[:1], *grid[2:]]
            if kind != "chart" and shown:
                yield pytest.param(kind, tables, options, shown, id=title)


def part(name, options, method=None):
    """Measured cells that a block shows of a table."""
    for option, column in (("datasets", "dataset"), ("backbones", "backbone")):
        asked = named(options.get(option, "")).values()
        if asked:
            return [line for line in part(name, {}, method) if line[column] in asked]
    return [line for line in measured(name) if method in (None, line["method"])]


def number(line, column="mean"):
    return float(line[column])


def shown(value, name):
    return f"{value:.{int(index()[name]['digits'])}f}"


def where(line):
    return f"{line['dataset']} {line['backbone'].upper()}"


def told_runs(lines):
    found = sorted({int(line["runs"]) for line in lines})
    printed = [int(line["printed_runs"]) for line in lines if line["printed_mean"]]
    ends = "–".join(map(str, dict.fromkeys([found[0], found[-1]])))
    return f"{ends} of {max(printed)}" if printed and max(printed) > found[0] else ends


def pairs_of(name, options, method):
    baseline = index()[name]["baseline"]
    bases = {(b["dataset"], b["backbone"]): b for b in part(name, options, baseline)}
    found = []
    for line in part(name, options, method):
        base = bases.get((line["dataset"], line["backbone"]))
        if base and line["difference"]:
            same = base["runs"] == line["runs"]
            mean = number(base) if same else number(line) - number(line, "difference")
            found.append((line, mean))
    return found


def told(pairs, name):
    """The seven numbers of a verdict."""
    ours, base = np.array([(number(line), base) for line, base in pairs]).T
    ends = [[number(line, f"difference{e}") for line, _ in pairs] for e in ("", "_high", "_low")]
    centre, high, low = map(np.array, ends)
    return [
        *(str(n) for n in ((centre < 0).sum(), (high < 0).sum(), (low > 0).sum())),
        shown(ours.mean(), name),
        shown(base.mean(), name),
        f"{100 * (ours.mean() / base.mean() - 1):+.1f} %",
        f"{100 * (ours / base - 1).mean():+.1f} %",
    ]


def check_overview(tables, options, grid):
    """Means by method and graph, with their spread where it is asked for."""
    (name,), backbone = tables.values(), options.get("backbones", "gcn")
    lines = {(x["method"], x["dataset"]): x for x in part(name, {"backbones": backbone})}
    for title, *cells in grid[1:]:
        for graph, cell in zip(grid[0][1:], cells, strict=True):
            line = lines.get((method_of(title, options), graph))
            expected = shown(number(line), name) if line else "–"
            if line and "spread" in options:
                expected += f" ± {shown(number(line, 'std'), name)}"
            assert cell.replace("*", "") == expected


def check_summary(tables, options, lines):
    """Counts, means, the rivals' means, and where the method is behind."""
    (_, ours), *rivals = named(options["methods"]).items()
    for line, name in zip(lines, tables.values(), strict=True):
        pairs = pairs_of(name, options, ours)
        if not pairs:
            assert "not measured" in line
            continue
        lower, less, more, mean, base, change, _ = told(pairs, name)
        assert f"in {lower} of {len(pairs)} settings, significantly in {less}; " in line
        assert f"mean {mean} against {base} ({change}" in line
        for title, rival in rivals:
            theirs = pairs_of(name, options, rival)
            if len(theirs) == len(pairs):
                *_, mean, _, change, _ = told(theirs, name)
                assert f"; {title} {mean}, {change}" in line
        gaps = {where(x): number(x, "difference") for x, _ in pairs}
        above = {place: gap for place, gap in gaps.items() if gap > 0}
        assert re.findall(r"[A-Z]\w+ (?:GCN|GAT)\b", line) == list(above)
        if above:
            assert f"at most {shown(max(above.values()), name)}, " in line
            assert line.strip().endswith(f"significantly in {int(more) or 'none'}.")
        else:
            assert line.strip().endswith("Nowhere higher.")


def check_verdict(tables, options, grid):
    for title, method, settings, runs, *numbers in grid[1:]:
        name = tables.get(title) or title.strip("`")
        pairs = pairs_of(name, options, method_of(method, options))
        assert settings == str(len(pairs))
        if not pairs:
            assert (runs, set(numbers)) == ("–", {"–"})
            continue
        assert runs == told_runs([line for line, _ in pairs])
        assert numbers == told(pairs, name)


def check_agreement(tables, options, grid):
    asked = list(named(options["methods"]).values())
    for title, *cells in grid[1:]:
        for name, cell in zip(tables.values(), cells, strict=True):
            methods = asked if title in ("together", "runs") else [method_of(title, options)]
            lines = [x for x in part(name, options) if x["method"] in methods]
            near = [x for x in lines if x["deviation"]]
            if title == "runs":
                assert cell == told_runs(near or lines)
            elif not near:
                assert cell == "–"
            else:
                far, errors = (
                    np.abs([number(x, c) for x in near]) for c in ("deviation", "deviation_error")
                )
                within = f"{(far <= 1).sum()} / {(errors <= 2).sum()} of {far.size}"
                assert cell == f"{within} ({far.max():.1f}σ)"


def check_misses(tables, options, grid):
    asked = named(options["methods"]).values()
    expected = []
    for title, name in tables.items():
        for x in part(name, options):
            if x["method"] not in asked or not x["deviation"]:
                continue
            # Once more from the printed numbers.
            gap = number(x) - number(x, "printed_mean")
            spread, made, printed = (number(x, c) for c in ("std", "runs", "printed_runs"))
            printed_std = number(x, "printed_std")
            far = gap / printed_std
            errors = gap / np.sqrt(spread**2 / made + printed_std**2 / printed)
            if abs(far) > 1 or abs(errors) > 2:
                expected.append([title, where(x), x["method"], f"{far:+.1f}", f"{errors:+.1f}"])
    assert [[*line[:3], *line[-2:]] for line in grid[1:]] == expected


def check_losses(tables, options, grid):
    expected = []
    for method in named(options["methods"]).values():
        cells = [(t, n, *pair) for t, n in tables.items() for pair in pairs_of(n, options, method)]
        p = np.array([number(line, "p_value") for _, _, line, _ in cells])
        rank = np.argsort(p, kind="stable")
        adjusted = np.empty(len(p))  # Holm: the k-th smallest of n is multiplied by n − k
        adjusted[rank] = np.minimum(np.maximum.accumulate(p[rank] * np.arange(len(p), 0, -1)), 1.0)
        for (title, name, line, base), alone, together in zip(cells, p, adjusted, strict=True):
            if number(line, "difference_low") > 0:
                expected.append([
                    title if title != name else f"`{name}`",
                    where(line),
                    method,
                    shown(number(line), name),
                    shown(base, name),
                    f"{alone:.2g}",
                    f"{together:.2g}",
                ])  # fmt: skip
    assert [[*line[:5], *line[6:]] for line in grid[1:]] == expected


def check_standings(tables, options, grid):
    for title, method, *counts, _, whom in grid[1:]:
        name = tables.get(title) or title.strip("`")
        lines = [x for x in lines_of(name) if x["method"] == method and x["verdict"]]
        verdicts = [x["verdict"] for x in lines]
        assert counts == [str(verdicts.count(word)) for word in ("best", "tied", "behind")]
        others = [
            y
            for y in measured(name)
            if not re.fullmatch(r"simi-mailbox([+].*|-free.*)?", y["method"])
        ]
        for x in (x for x in lines if x["verdict"] == "best"):  # nobody of another name is lower
            there = [y for y in others if where(y) == where(x)]
            assert number(x) <= min(number(y) for y in there if int(y["runs"]) >= int(x["runs"]))
        behind = {where(x) for x in lines if x["verdict"] == "behind"}
        assert all(place in whom for place in behind)
        assert behind or whom == "–"


def check_means(tables, options, grid, reached=False):
    for title, *cells in grid[1:]:
        for name, cell in zip(tables.values(), cells, strict=True):
            found = np.array([number(x) for x in part(name, options, method_of(title, options))])
            if not found.size:
                assert cell == "–"
            elif reached:
                target = float(index()[name]["target"])
                assert cell == f"{(found >= target - 0.7).sum()} of {found.size}"
            else:
                assert cell == shown(found.mean(), name)


def check_reached(*given):
    check_means(*given, reached=True)


def check_progress(tables, options, grid):
    here = {line["dataset"] for name in tables.values() for line in measured(name)}
    here |= {graph.split()[0] for graph in here if not graph.endswith(" size")}
    for title, cells, absent in grid[1:]:
        graphs = {x["dataset"] for x in lines_of(title.strip("`"))}
        graphs = {graph for graph in graphs if graph in here or graph.split()[0] in here}
        lines = [x for x in lines_of(title.strip("`")) if x["dataset"] in graphs]
        done = sum(int(x["runs"] or 0) >= int(x["runs_wanted"]) for x in lines)
        assert cells.split(",")[0] == f"{done} of {len(lines)}"
        missing = {x["dataset"] for x in lines_of(title.strip("`"))} - {x["dataset"] for x in lines}
        assert set(absent.split(", ")) == (missing or {"–"})


@pytest.mark.parametrize(("kind", "tables", "options", "lines"), list(blocks()))
def test_every_block_is_that_of_the_tables(kind, tables, options, lines):
    globals()[f"check_{kind}"](tables, options, lines)
