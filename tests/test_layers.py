"""The table of levels in CONTRIBUTING.md is true: no arrow in the code that is not in it.

Imports inside functions, imports for type checkers and modules named in strings (for importing them
late) count like any other.
"""

import ast
import re
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from simi_mailbox.cli import ENTRY_POINTS

ROOT = Path(__file__).parents[1]
PACKAGE = "simi_mailbox"
SOURCE = ROOT / "src" / PACKAGE
BENCH = "simi_mailbox_bench"
MODULE_NAME = re.compile(rf"({PACKAGE}(\.\w+)|{BENCH}(\.\w+)?)(\.\w+)*(:\w+)?")


@dataclass(frozen=True)
class Table:
    """Level of every package, and arrows within a level; those of level 0 see each other."""

    levels: dict[str, int]
    arrows: set[tuple[str, str]]

    def allows(self, package, other):
        lower = self.levels[other] < max(self.levels[package], 1)
        return lower or (package, other) in self.arrows


def table():
    """The table of CONTRIBUTING.md."""
    levels: dict[str, int] = {}
    arrows: set[tuple[str, str]] = set()
    for line in (ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or not re.fullmatch(r"\d", cells[0]):
            continue
        packages = re.findall(r"`(\w+)`", cells[1])
        assert not set(packages) & set(levels), "a package is in the table twice"
        levels |= dict.fromkeys(packages, int(cells[0]))
        arrows |= set(re.findall(r"`(\w+)` → `(\w+)`", cells[2]))
    return Table(levels, arrows)


def imports(tree):
    """Dotted names of everything of this package that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            if node.module == PACKAGE:
                yield from (f"{PACKAGE}.{alias.name}" for alias in node.names)
            elif node.module and node.module.startswith((f"{PACKAGE}.", BENCH)):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith((f"{PACKAGE}.", BENCH)))
        elif isinstance(node, ast.Constant) and MODULE_NAME.fullmatch(str(node.value)):
            if node.value == ENTRY_POINTS:  # a group of entry points, no module
                continue
            yield str(node.value).split(":")[0]


def modules(source):
    """All modules of the package by their path below it."""
    return {
        str(path.relative_to(source)): ast.parse(path.read_text("utf-8"))
        for path in sorted(source.rglob("*.py"))
    }


def is_bench(name):
    return name.split(".")[0] == BENCH


def package_of(path):
    return path.split("/")[0].removesuffix(".py")


def wrong_arrows(source):
    """Every import that the table does not allow, in words."""
    rules = table()
    wrong = []
    for path, tree in modules(source).items():
        package = package_of(path)
        found = list(imports(tree))
        wrong += [f"{path} imports {name}, of the bench" for name in found if is_bench(name)]
        if package in ("__init__", "__main__"):
            continue  # the front door shows what is behind it
        if package not in rules.levels:
            wrong.append(f"{path}: the package {package} is not in the table")
            continue
        for name in (name for name in found if not is_bench(name)):
            other = name.split(".")[1]
            if other in (package, "__version__"):
                continue
            if other not in rules.levels:
                wrong.append(f"{path} imports {name} through the front door")
            elif not rules.allows(package, other):
                wrong.append(f"{path} imports {name}")
    return wrong


def test_the_table_names_the_packages_that_there_are():
    rules = table()
    packages = {package_of(path) for path in modules(SOURCE)} - {"__init__", "__main__"}
    assert set(rules.levels) == packages
    assert {package for arrow in rules.arrows for package in arrow} <= packages


def test_a_package_imports_from_lower_levels_only():
    assert wrong_arrows(SOURCE) == []


def test_no_packages_go_round_in_a_circle():
    graph: dict[str, set[str]] = {}
    for path, tree in modules(SOURCE).items():
        if package_of(path) not in ("__init__", "__main__"):
            found = {name.split(".")[1] for name in imports(tree)}
            own = package_of(path)
            graph.setdefault(own, set()).update(found - {own, "__version__"})
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)


def test_no_class_name_is_defined_twice():
    places: dict[str, list[str]] = {}
    for source in (SOURCE, ROOT / "bench" / "src" / BENCH):
        for path, tree in modules(source).items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(f"{source.name}/{path}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("metrics/scores.py", "from simi_mailbox.calibrators import get"),
        ("graph.py", "def f():\n    import simi_mailbox.calibrators.base"),
        ("metrics/model.py", "from simi_mailbox_bench.datasets.catalogue import find"),
        ("calibrators/gats.py", "def f():\n    import simi_mailbox_bench"),
        ("__init__.py", 'LATE = "simi_mailbox_bench.store:ResultStore"'),
        ("analysis/curve.py", "def f():\n    from simi_mailbox import plots"),
        ("calibrators/base.py", 'LATE = "simi_mailbox.report:write_report"'),
        ("plots/style.py", "from simi_mailbox.report import render"),
        ("softmax.py", "from simi_mailbox import SimiMailbox"),
        ("surprise.py", "import math"),
    ],
)
def test_an_added_arrow_is_found(tmp_path, path, line):
    target = tmp_path / path
    target.parent.mkdir(exist_ok=True)
    target.write_text(line + "\n", "utf-8")
    assert len(wrong_arrows(tmp_path)) == 1
