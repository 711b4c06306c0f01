"""The API reference tells of every public name once, and each shows how it is used."""

import functools
import importlib.util
import inspect
import re
from pathlib import Path

import simi_mailbox

FILE = Path(__file__).parent.parent / "docs" / "reference.py"
spec = importlib.util.spec_from_file_location("reference", FILE)
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


@functools.cache
def entries():
    return [
        path
        for text in reference.pages().values()
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
    pages = reference.pages()
    assert {f"{line}.md" for line in pages["index.md"].splitlines()} >= set(pages) - {"index.md"}


def test_each_name_says_what_it_is_and_shows_how_it_is_used():
    missing = []
    for path in entries():
        found, (package, _, name) = value(path), path.rpartition(".")
        if inspect.isclass(found) or inspect.isroutine(found):
            shown = ">>>" in inspect.getdoc(found)
        else:
            module = importlib.import_module(package)
            shown = inspect.ismodule(found) or reference.told(module, name)
        missing += [] if shown else [path]
    assert not missing
