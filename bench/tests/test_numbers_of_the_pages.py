"""Numbers of README and docs, computed a second time: csv, json and NumPy alone.

Rows to tables: every measured cell of the tables below, its spread, runs and difference from the
baseline. Tables to pages: every block is read back from the page, and each of its numbers
recomputed; overview, matrix, verdict and summary from the rows themselves. Charts are drawn from
the same tables. No code of the bench is used.
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
BLOCK = re.compile(r"^<!-- begin:(.*?)-->\n(.*?)^<!-- end -->", re.MULTILINE | re.DOTALL)
# Two-sided 95 % quantiles of Student's t by the number of splits.
STUDENT = {
    2: 12.70620474, 3: 4.30265273, 4: 3.18244631, 5: 2.77644511, 6: 2.57058184, 7: 2.44691185,
    8: 2.36462425, 9: 2.30600414, 10: 2.26215716, 15: 2.14478669,
}  # fmt: skip

MAIN = ("Cora", "Citeseer", "Pubmed", "Computers", "Photo", "CS", "Physics")
GEOM = ("Chameleon", "Squirrel", "Actor", "Texas", "Wisconsin", "Cornell")
FOLDS, OFFICIAL, SPARSE = (5, 3, 5), (10, 1, 5), (15, 1, 1)
METRICS = {
    "ece": (100, 2),
    "kde_ece": (100, 2),
    "debiased_ece": (100, 2),
    "classwise_ece": (100, 2),
}
METRICS |= {"accuracy": (100, 2), "nll": (1, 4), "brier": (1, 4)}


def table(metric="ece", graphs=MAIN, backbones=("gcn", "gat"), runs=15, size=FOLDS, kind="folds"):
    return metric, graphs, backbones, runs, size, kind


TABLES = {
    "table1": table(runs={"Cora": 75, "Citeseer": 75}),
    "table1-5": table(runs=5),
    "class": table("classwise_ece", runs={"Cora": 75, "Citeseer": 75}),
    "kde": table("kde_ece", runs={"Cora": 75, "Citeseer": 75}),
    "nll": table("nll", runs={"Cora": 75, "Citeseer": 75}),
    "brier": table("brier", runs={"Cora": 75, "Citeseer": 75}),
    "recent": table(backbones=("gcn", "gat", "sage")),
    "het1": table(graphs=GEOM, runs=10, size=OFFICIAL, kind="official"),
    "het2": table(graphs=("Minesweeper", "Tolokers"), runs=10, size=OFFICIAL, kind="official"),
    "sparse": table(size=SPARSE, kind="sparse"),
    **{name: table(backbones=(name,)) for name in ("mlp", "sage", "gin")},
    **{
        f"registry{suffix}": table(metric, runs=5)
        for suffix, metric in {
            "": "ece", "-kde": "kde_ece", "-debiased": "debiased_ece", "-nll": "nll",
            "-brier": "brier", "-accuracy": "accuracy",
        }.items()
    },
    **{
        f"versus{suffix}": table(metric, runs=5)
        for suffix, metric in {
            "": "ece", "-kde": "kde_ece", "-nll": "nll", "-brier": "brier",
        }.items()
    },
    "ablation": table("nll"),
    "ablation-ece": table(),
    "gpn": table(graphs=("CoraML", *MAIN), backbones=("gpn",), runs=10, size=OFFICIAL, kind="gpn"),
}  # fmt: skip
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
def rows():
    """Measured rows by (method as a table calls it, graph, backbone, protocol), then by run."""
    lines = gzip.decompress((ROOT / "results/rows.jsonl.gz").read_bytes()).decode().splitlines()
    lines += (ROOT / "results/rows.jsonl").read_text("utf-8").splitlines()
    made = [json.loads(line) for line in lines]
    made = [r for r in made if (r.get("measure"), r.get("evaluation")) == ("metrics", "test")]
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


def values(name, runs):
    metric = TABLES[name][0]
    return np.array([METRICS[metric][0] * row["metrics"][metric] for row in runs.values()])


def shown(value, name, sign=""):
    return f"{value:{sign}.{METRICS[TABLES[name][0]][1]}f}"


def against_temperature(name, method):
    """The eight numbers of a verdict."""
    pairs = []
    for graph, backbone in product(*TABLES[name][1:3]):
        ours = runs_of(name, method, graph, backbone)
        base = runs_of(name, BASELINES.get(name, "temperature"), graph, backbone)
        same = [p for p in ours if p in base and ours[p]["logits"] == base[p]["logits"]]
        if not same:
            continue
        ours, base = (values(name, {p: side[p] for p in same}) for side in (ours, base))
        splits = np.array([place[0] for place in same])
        each = np.array([(ours - base)[splits == s].mean() for s in np.unique(splits)])
        if len(each) > 1:
            half = STUDENT[len(each)] * each.std(ddof=1) / np.sqrt(len(each))
            pairs.append((ours.mean(), base.mean(), each.mean(), half))
    if not pairs:
        return ["0", *["–"] * 7]
    ours, base, difference, half = np.array(pairs).T
    return [
        str(len(pairs)),
        str((difference < 0).sum()),
        str((difference + half < 0).sum()),
        str((difference - half > 0).sum()),
        shown(ours.mean(), name),
        shown(base.mean(), name),
        f"{100 * (ours.mean() / base.mean() - 1):+.1f} %",
        f"{100 * (ours / base - 1).mean():+.1f} %",
    ]


def runs_told(name, method):
    """Fewest and most runs of the settings that are compared."""
    found = []
    for place in product(*TABLES[name][1:3]):
        against = BASELINES.get(name, "temperature")
        ours, base = (runs_of(name, m, *place) for m in (method, against))
        same = [p for p in ours if p in base and ours[p]["logits"] == base[p]["logits"]]
        if len({split for split, _, _ in same}) > 1:
            found.append(len(ours))
    return "–".join(map(str, dict.fromkeys([min(found), max(found)]))) if found else "–"


def named(text):
    """``"a as b, c"`` -> {"b": "a", "c": "c"}."""
    parts = [part.strip().partition(" as ") for part in text.split(",") if part.strip()]
    return {called or name: name for name, _, called in parts}


def blocks():
    for page in PAGES:
        for asks, body in BLOCK.findall(page.read_text("utf-8")):
            kind, *words = shlex.split(asks)
            options = dict(word.split("=", 1) for word in words if "=" in word)
            tables = named(",".join(word for word in words if "=" not in word))
            where = f"{page.name}: {kind} {' '.join(tables.values())}"
            if kind == "summary":
                yield pytest.param(kind, tables, options, body.split("\n- ")[1:], id=where)
            if kind in ("overview", "matrix", "verdict") and set(tables.values()) <= set(TABLES):
                lines = [line.strip("|").split("|") for line in body.splitlines() if "|" in line]
                grid = [[cell.strip() for cell in line] for line in lines]
                if grid:
                    yield pytest.param(kind, tables, options, [grid[0], *grid[2:]], id=where)


def method_of(title, options):
    return named(options.get("methods", "")).get(title) or re.sub(r" \([^()]*\)$", "", title)


def check_sentence(line, name, methods):
    """A line of a summary: counts, means, the rivals' means, and where the method is behind."""
    (_, ours), *rivals = methods.items()
    settings, lower, less, more, mean, base, change, _ = against_temperature(name, ours)
    if settings == "0":
        assert "not measured" in line
        return
    assert f"in {lower} of {settings} settings, significantly in {less}; " in line
    assert f"mean {mean} against {base} ({change}" in line
    for title, rival in rivals:
        numbers = against_temperature(name, rival)
        assert numbers[0] != settings or f"; {title} {numbers[4]}, {numbers[6]}" in line
    places = product(*TABLES[name][1:3])
    gaps = {f"{g} {b.upper()}": difference(name, ours, g, b) for g, b in places}
    above = {place: gap for place, gap in gaps.items() if gap > 0}
    listed = re.findall(r"[A-Z]\w+ (?:GCN|GAT)\b", line)
    assert listed == list(above)
    if above:
        assert f"at most {shown(max(above.values()), name)}, " in line
        assert line.strip().endswith(f"significantly in {int(more) or 'none'}.")
    else:
        assert line.strip().endswith("Nowhere higher.")


def difference(name, method, graph, backbone):
    """Mean over splits of the paired difference from temperature scaling."""
    ours, base = (runs_of(name, m, graph, backbone) for m in (method, "temperature"))
    same = [p for p in ours if p in base and ours[p]["logits"] == base[p]["logits"]]
    if len({place[0] for place in same}) < 2:
        return 0.0
    gaps = values(name, {p: ours[p] for p in same}) - values(name, {p: base[p] for p in same})
    splits = np.array([place[0] for place in same])
    return np.mean([gaps[splits == s].mean() for s in np.unique(splits)])


@pytest.mark.parametrize(("kind", "tables", "options", "grid"), list(blocks()))
def test_every_number_is_that_of_the_rows(kind, tables, options, grid):
    if kind == "summary":
        for line, name in zip(grid, tables.values(), strict=True):
            check_sentence(line, name, named(options["methods"]))
        return
    head, *lines = grid
    if kind == "verdict":
        for title, method, settings, runs, *numbers in lines:
            name = tables.get(title) or title.strip("`")
            told = against_temperature(name, method_of(method, options))
            assert [settings, *numbers] == told, (title, method)
            assert runs.split(" of ")[0] == runs_told(name, method_of(method, options)), title
        return
    (name,) = tables.values()
    if kind == "overview":
        backbone = options.get("backbones", "gcn")
        cells = {
            (method_of(line[0], options), graph, backbone): cell.strip("*")
            for line in lines
            for graph, cell in zip(head[1:], line[1:], strict=True)
        }
        if "spread" in options:
            for (method, graph, _), cell in cells.items():
                spread = values(name, runs_of(name, method, graph, backbone)).std()
                assert cell.split(" ± ")[1] == shown(spread, name), (method, graph)
            cells = {place: cell.split(" ± ")[0].strip("*") for place, cell in cells.items()}
    else:
        at = head.index("runs") + 1
        only = TABLES[name][2][0] if "backbone" not in head else None
        cells = {
            (method_of(title, options), line[0], only or line[1].lower()): cell.split(" (")[0]
            for line in lines
            for title, cell in zip(head[at:], line[at:], strict=True)
        }
    checked = 0
    for (method, graph, backbone), cell in cells.items():
        found = runs_of(name, method, graph, backbone)
        if cell == "–":
            continue
        assert cell == shown(values(name, found).mean(), name), (method, graph, backbone)
        checked += 1
    assert checked


# --- from rows to tables --------------------------------------------------------------------------


@cache
def lines_of(name):
    """Cells of a written table; ``x/m`` is metric m of table x."""
    file, _, metric = name.partition("/")
    with (ROOT / f"results/tables/{file}.csv").open(encoding="utf-8", newline="") as text:
        return [line for line in csv.DictReader(text) if not metric or line["metric"] == metric]


@cache
def index():
    with (ROOT / "results/tables/index.csv").open(encoding="utf-8", newline="") as text:
        return {line["table"]: line for line in csv.DictReader(text)}


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
    scale = METRICS[TABLES[name][0]][0]
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
    lines = gzip.decompress((ROOT / "results/rows.jsonl.gz").read_bytes()).decode().splitlines()
    lines += (ROOT / "results/rows.jsonl").read_text("utf-8").splitlines()
    made = [json.loads(line) for line in lines]
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
        elif kind == "ood":
            graph = f"{graph} {row['kind']}"
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


def all_blocks():
    for page in PAGES:
        text = page.read_text("utf-8")
        for asks, body in re.findall(
            r"^[ ]*<!-- begin:(.*?)-->\n(.*?)^[ ]*<!-- end -->", text, re.MULTILINE | re.DOTALL
        ):
            kind, *words = shlex.split(asks)
            if kind not in CHECKS:
                continue
            options = dict(word.split("=", 1) for word in words if "=" in word)
            tables = named(",".join(word for word in words if "=" not in word))
            where = f"{page.name}: {kind} {' '.join(tables.values())}"
            lines = [
                line.strip().strip("|").split("|") for line in body.splitlines() if "|" in line
            ]
            grid = [[cell.strip() for cell in line] for line in lines]
            if grid:
                yield pytest.param(kind, tables, options, [grid[0], *grid[2:]], id=where)


def part(name, options, method=None):
    """Measured cells that a block shows of a table."""
    for option, column in (("datasets", "dataset"), ("backbones", "backbone")):
        asked = named(options.get(option, "")).values()
        if asked:
            return [line for line in part(name, {}, method) if line[column] in asked]
    return [line for line in measured(name) if method in (None, line["method"])]


def digits(name):
    return int(index()[name]["digits"])


def number(line, column="mean"):
    return float(line[column])


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


def check_verdict(tables, options, grid):
    for title, method, settings, runs, *numbers in grid[1:]:
        name = tables.get(title) or title.strip("`")
        pairs = pairs_of(name, options, method_of(method, options))
        assert settings == str(len(pairs))
        if not pairs:
            assert (runs, set(numbers)) == ("–", {"–"})
            continue
        assert runs == told_runs([line for line, _ in pairs])
        ours, base = np.array([number(line) for line, _ in pairs]), np.array([b for _, b in pairs])
        ends = [
            [number(line, f"difference{e}") for line, _ in pairs] for e in ("", "_high", "_low")
        ]
        centre, high, low = map(np.array, ends)
        d = digits(name)
        assert numbers == [
            str((centre < 0).sum()),
            str((high < 0).sum()),
            str((low > 0).sum()),
            f"{ours.mean():.{d}f}",
            f"{base.mean():.{d}f}",
            f"{100 * (ours.mean() / base.mean() - 1):+.1f} %",
            f"{100 * (ours / base - 1).mean():+.1f} %",
        ]


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
                where = f"{x['dataset']} {x['backbone'].upper()}"
                expected.append([title, where, x["method"], f"{far:+.1f}", f"{errors:+.1f}"])
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
                d = digits(name)
                expected.append([
                    title if title != name else f"`{name}`",
                    f"{line['dataset']} {line['backbone'].upper()}",
                    method,
                    f"{number(line):.{d}f}",
                    f"{base:.{d}f}",
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
        for x in (x for x in lines if x["verdict"] == "best"):  # nobody of another name is lower
            place = x["dataset"], x["backbone"]
            rivals = [
                number(y)
                for y in measured(name)
                if (y["dataset"], y["backbone"]) == place
                and not y["method"].startswith(("simi-mailbox+", "simi-mailbox-free"))
                and y["method"] != "simi-mailbox"
                and int(y["runs"]) >= int(x["runs"])
            ]
            assert number(x) <= min(rivals)
        behind = {
            f"{x['dataset']} {x['backbone'].upper()}" for x in lines if x["verdict"] == "behind"
        }
        assert all(place in whom for place in behind)
        assert behind or whom == "–"


def check_means(tables, options, grid, what="means"):
    for title, *cells in grid[1:]:
        for name, cell in zip(tables.values(), cells, strict=True):
            found = np.array([number(x) for x in part(name, options, method_of(title, options))])
            if not found.size:
                assert cell == "–"
            elif what == "means":
                assert cell == f"{found.mean():.{digits(name)}f}"
            else:
                target = float(index()[name]["target"])
                assert cell == f"{(found >= target - 0.7).sum()} of {found.size}"


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


CHECKS = {
    "verdict": check_verdict,
    "agreement": check_agreement,
    "misses": check_misses,
    "losses": check_losses,
    "standings": check_standings,
    "means": check_means,
    "reached": lambda *given: check_means(*given, what="reached"),
    "progress": check_progress,
}


@pytest.mark.parametrize(("kind", "tables", "options", "grid"), list(all_blocks()))
def test_every_block_is_that_of_the_tables(kind, tables, options, grid):
    CHECKS[kind](tables, options, grid)


def test_no_kind_of_block_is_left_out():
    kinds = {
        asks.split()[0] for page in PAGES for asks, _ in BLOCK.findall(page.read_text("utf-8"))
    }
    assert kinds <= {*CHECKS, "overview", "matrix", "summary", "chart"}
