"""The table of all methods: its rows, and the verdicts beneath it."""

import pytest

from simi_mailbox import calibrators
from simi_mailbox_bench import render
from simi_mailbox_bench.backbones.cached_runs import runs
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.methods import HIDDEN, Method
from simi_mailbox_bench.rivals import RIVALS
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables import Selection, get

# Mean ECE of each method by setting; what a split adds differs, so that intervals have a width.
MEANS = {
    ("Cora", "gcn"): {"simi-mailbox": 0.030, "temperature": 0.038, "gats": 0.036},
    ("Cora", "gat"): {"simi-mailbox": 0.030, "temperature": 0.0299, "gats": 0.034},
    ("Photo", "gcn"): {"simi-mailbox": 0.030, "temperature": 0.038, "gats": 0.010},
}
WOBBLE = {"simi-mailbox": 1, "temperature": -1, "gats": 2}
SHORT = {("Cora", "gcn", "cagcn"): 3, ("Photo", "gat", "simi-mailbox"): 3}


def add(store, dataset, backbone, name, mean, n):
    method = Method.of(name)
    for run in runs(dataset, backbone, "folds", n):
        value = mean + 1e-4 * WOBBLE.get(name, 0) * (run.split - 2)
        key = CalibrationUnit(run, (method,)).key(method)
        store.append({"key": key, "metrics": {"ece": value, "nll": 10 * value}})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Invented rows: best, tied, behind, and two cells with too few runs."""
    made = ResultStore(tmp_path_factory.mktemp("standings") / "rows.jsonl")
    for (dataset, backbone), means in MEANS.items():
        for name, mean in means.items():
            add(made, dataset, backbone, name, mean, 5)
    for (dataset, backbone, name), n in SHORT.items():
        add(made, dataset, backbone, name, 0.001, n)
    return made


@pytest.fixture(scope="module")
def result(store):
    return get("registry").result(store, Selection(("Cora", "Photo")))


def test_every_method_of_the_registry_and_nothing_that_reads_test_labels():
    for name in ("registry", "registry-nll", "registry-kde", "registry-debiased", "registry-brier"):
        many = [method for method in calibrators.names() if method not in ("platt", "beta")]
        found = [method for method in get(name).methods if " " not in method]
        assert found == [*many, *HIDDEN, *RIVALS]


def test_no_run_is_made_twice():
    """Rows of the main table, and of the recent methods, are rows of this one."""
    for other, methods in (("table1", ("gats", "vector", "simi-mailbox")), ("recent", ("gets",))):
        selection = Selection(("Cora", "CS"), ("gat",), methods, 15)
        keys = [
            [set(unit.keys()) for unit in get(name).units(selection)]
            for name in ("registry", other)
        ]
        assert keys[0] == keys[1]
    selection = Selection(("Cora",), ("gcn",), runs=2)
    ece, nll = (get(name).units(selection) for name in ("registry", "registry-nll"))
    assert [unit.keys() for unit in ece] == [unit.keys() for unit in nll]


def test_what_cannot_be_run_is_not_asked_for():
    """A GAT takes no edge weights: DCGC on it would fail in every run."""
    units = get("registry").units(Selection(("Cora",), methods=("dcgc", "gets"), runs=1))
    asked = {(unit.run.backbone, method.name) for unit in units for method in unit.items}
    assert asked == {("gcn", "dcgc"), ("gcn", "gets"), ("gat", "gets")}
    assert len(get("registry").units(Selection())) == 7 * 2 * 5


def test_verdicts(result):
    found = {
        where: (one.verdict, one.best) for where, one in result.standings["simi-mailbox"].items()
    }
    assert found == {
        ("Cora", "gcn"): ("best", "simi-mailbox"),
        ("Cora", "gat"): ("tied", "temperature"),
        ("Photo", "gcn"): ("behind", "gats"),
        ("Photo", "gat"): ("", ""),
    }


def test_terminal_and_markdown_show_each_setting_and_the_sum_once(result):
    for form in ("terminal", "markdown"):
        text = " ".join(render.FORMATS[form](result).split())
        assert text.count("simi-mailbox is best or tied in 2 of 3 settings") == 1
        assert "1 best, 1 tied" in text
        assert "1 behind; 1 not judged" in text
    lines = render.terminal(result).splitlines()
    behind = next(line for line in lines if "behind" in line and "Photo" in line)
    assert behind.split()[:5] == ["Photo", "GCN", "gats", "gats", "1.00"]
    pair = result.standings["simi-mailbox"]["Photo", "gcn"].paired
    assert f"+2.00 [{pair.low:+.2f}, {pair.high:+.2f}]" in behind
    text = render.markdown(result)
    assert "## Where simi-mailbox stands" in text
    assert "| Photo | GAT | – | – | – | not judged |" in text
    assert "printed" not in text
