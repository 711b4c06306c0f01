"""The API reference tells of every public name once, and each shows how it is used."""

import ast
import functools
import importlib.util
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path

import docutils.core
import pytest
from sklearn.base import BaseEstimator

import simi_mailbox
from simi_mailbox.calibrators import Calibrator
from tests.pages import BENCH_PAGES, PAGES, blocks

FILE = Path(__file__).parent.parent / "docs" / "reference.py"
spec = importlib.util.spec_from_file_location("reference", FILE)
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


@functools.cache
def entries(bench=False):
    return [
        path
        for text in reference.pages(bench=bench).values()
        for path in re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", text, flags=re.MULTILINE)
    ]


def value(path):
    package, _, name = path.rpartition(".")
    return getattr(importlib.import_module(package), name)


def test_every_public_name_appears_once():
    found = entries()
    objects = [id(value(path)) for path in found]
    assert len(set(found)) == len(found)
    assert len(set(objects)) == len(objects)
    offered = [name for name in simi_mailbox.__all__ if name != "__version__"]
    for package in simi_mailbox._PACKAGES:
        module = importlib.import_module(f"simi_mailbox.{package}")
        offered += [f"{package}.{name}" for name in getattr(module, "__all__", ())]
    for name in offered:
        assert id(value(f"simi_mailbox.{name}")) in objects, name


def test_every_package_is_led_to():
    pages = reference.pages(bench=False)
    led = {f"{line}.md" for text in pages.values() for line in text.splitlines()}
    assert led >= set(pages) - {"index.md"}


def is_result(found):
    """What users get and do not make: errors and plain records."""
    record = is_dataclass(found) and not issubclass(found, BaseEstimator)
    return record or issubclass(found, Exception)


def test_each_name_says_what_it_is_and_shows_how_it_is_used():
    pages = [page for page in PAGES if page.stem not in BENCH_PAGES]
    missing, on_pages = [], {id(found) for _, _, found in used(pages)}
    for path in entries():
        found, (package, _, name) = value(path), path.rpartition(".")
        if inspect.isclass(found) or inspect.isroutine(found):
            by_example = ">>>" in inspect.getdoc(found) or id(found) in on_pages
            shown = by_example or (inspect.isclass(found) and is_result(found))
        else:
            module = importlib.import_module(package)
            shown = inspect.ismodule(found) or reference.told(module, name)
        missing += [] if shown else [path]
    assert not missing


def classes():
    return [path for path in entries() if inspect.isclass(value(path))]


def test_each_class_has_a_page_of_its_own_and_calibrators_show_what_they_inherit():
    pages = reference.pages(bench=False)
    for path in classes():
        assert pages[f"{path}.md"].count(".. autoclass::") == 1
    found = [path for path in classes() if issubclass(value(path), Calibrator)]
    assert len(found) > 15
    assert all(":inherited-members: BaseEstimator" in pages[f"{path}.md"] for path in found)


@pytest.mark.parametrize("path", classes())
def test_attributes_keep_their_underscore(path):
    """As reStructuredText, every name of the list is code, and nothing else is a link."""
    lines = inspect.getdoc(value(path)).splitlines()
    text = "\n".join(reference.with_attributes(lines))
    if "Attributes" not in lines:
        assert text == "\n".join(lines)
        return
    start = lines.index("Attributes") + 2
    stop = next((k - 1 for k in range(start, len(lines)) if set(lines[k]) == {"-"}), len(lines))
    named = [line.partition(" : ")[0] for line in lines[start:stop] if line[:1].strip()]
    assert named
    title = next(title for title in (reference.FITTED, reference.FIELDS) if f"\n{title}\n" in text)
    _, _, listed = text.partition(f"\n{title}\n{'-' * len(title)}\n")
    listed = listed.partition("\nNotes\n")[0].partition("\nExamples\n")[0]
    quiet = {"report_level": 5, "halt_level": 6}
    tree = docutils.core.publish_doctree(listed, settings_overrides=quiet)
    code = [node.astext() for node in tree.findall() if node.tagname == "literal"]
    for name in (name.strip() for names in named for name in names.split(",")):
        assert name in code
    assert not [node for node in tree.findall() if node.tagname in ("problematic", "reference")]


def used(pages=PAGES):
    """Names of the library that the pages use, as modules and names in them."""
    for page in pages:
        modules = {}
        for node in ast.walk(ast.parse("\n".join(blocks(page, "python")))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simi_mailbox"):
                for alias in node.names:
                    home = importlib.import_module(node.module)
                    if not hasattr(home, alias.name):  # a module that is not imported yet
                        importlib.import_module(f"{node.module}.{alias.name}")
                    found = getattr(home, alias.name)
                    if inspect.ismodule(found):
                        modules[alias.asname or alias.name] = found
                    else:
                        yield page.name, alias.name, found
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                home = modules.get(node.value.id)
                if home is not None:
                    yield page.name, f"{node.value.id}.{node.attr}", getattr(home, node.attr)


def test_every_name_that_the_pages_use_is_there():
    pytest.importorskip("simi_mailbox_bench")
    objects = {id(value(path)) for path in entries(bench=True)}
    assert {name for _, name, found in used() if id(found) not in objects} == set()
