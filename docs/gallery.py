"""Pages made of scripts: cells are run in order, and what they print and draw stands below them.

A script is in jupytext's percent format: ``# %%`` begins a cell of code, ``# %% [markdown]`` one of
text. `jupytext --to notebook docs/gallery/fraud.py` makes a notebook of it. Running it here takes
no notebook server, and an error stops the build, unless data are not there.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any


def cells(text: str) -> list[tuple[str, str]]:
    """(kind, content) of each cell; text without its comment signs."""
    found = []
    for head, body in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", text, flags=re.MULTILINE):
        if "[markdown]" in head:
            found.append(("text", re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip()))
        else:
            found.append(("code", body.strip()))
    return found


def run(code: str, names: dict[str, Any], where: str) -> tuple[str, list[Any]]:
    """What a cell prints, the value of its last line included, and the figures it leaves open."""
    body = ast.parse(code, where).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(ast.Module(body, []), where, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
            if value is not None and not _is_figure(value):
                print(value)
    drawn = [name for name, value in names.items() if _is_figure(value)]
    return printed.getvalue().rstrip(), [names.pop(name) for name in drawn]


def _is_figure(value: object) -> bool:
    return hasattr(value, "savefig") and not isinstance(value, type)


def write(script: Path, folder: Path) -> Path:
    """Run ``script`` in an empty folder and write its page, and its pictures beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, Any] = {"__name__": "__main__"}
    lines: list[str] = []
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            for number, (kind, content) in enumerate(cells(script.read_text("utf-8")), start=1):
                if kind == "text":
                    lines += [content, ""]
                    continue
                try:
                    printed, figures = run(content, names, f"{script.name}, cell {number}")
                except FileNotFoundError as error:  # data that only some machines have
                    lines += [f"*Not run here: {error}*", ""]
                    break
                lines += ["```python", content, "```", ""]
                lines += ["```text", printed, "```", ""] if printed else []
                for k, figure in enumerate(figures):
                    picture = f"{script.stem}-{number}-{k}.png"
                    figure.savefig(folder / picture, dpi=200)
                    lines += [f"![]({picture})", ""]
        finally:
            os.chdir(here)
    lines += [f"*Made by running [{script.name}](path:../{script.name}).*", ""]
    page = folder / f"{script.stem}.md"
    page.write_text("\n".join(lines), "utf-8")
    return page
