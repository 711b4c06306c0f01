"""Numbers of the written tables, computed a second time from the rows: csv, json and NumPy alone.

Every measured cell of the tables below, its spread, runs and difference from the baseline. No code
of the bench is used. What blocks of pages make of the tables is tested in test_pages_filled.py.
"""

from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
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


@cache
def lines_of(name):
    """Cells of a written table; ``x/m`` is metric m of table x."""
    file, _, metric = name.partition("/")
    with (ROOT / f"results/tables/{file}.csv").open(encoding="utf-8", newline="") as text:
        return [line for line in csv.DictReader(text) if not metric or line["metric"] == metric]


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


def test_no_self_training_beats_training_on_validation_labels_too():
    """What docs/self-training.md says of Citeseer and Pubmed with a GCN."""
    found = measured("self-training-gcn")
    for cell in {row["dataset"] for row in found if not row["dataset"].startswith("Cora")}:
        means = {row["method"]: float(row["mean"]) for row in found if row["dataset"] == cell}
        assert len(means) == 13
        assert means["plain GNN, validation labels too"] == max(means.values())
