"""Numbers of README and docs, computed a second time from the rows: json and NumPy alone.

Every block of kind overview, matrix, verdict or summary of the tables below is read back from the
page, and each of its numbers recomputed. No code of the bench is used.
"""

from __future__ import annotations

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
STUDENT = {2: 12.7062, 3: 4.3027, 4: 3.1824, 5: 2.7764, 6: 2.5706, 10: 2.2622, 15: 2.1448}

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
}  # fmt: skip

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
        elif chosen.get("scaling", "min-max") != "min-max":
            continue
        else:  # other tables turn the number of groups
            labels *= chosen.get("n_groups", DEFAULT_GROUPS) == DEFAULT_GROUPS
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
        base = runs_of(name, "temperature", graph, backbone)
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
        ours, base = (runs_of(name, m, *place) for m in (method, "temperature"))
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
