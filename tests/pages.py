"""What the pages hold: their snippets, and the commands that they show."""

import contextlib
import io
import os
import re
import shlex
import warnings
from pathlib import Path

import click
import numpy as np
from click.testing import CliRunner

from simi_mailbox.cli import COMMANDS
from simi_mailbox.cli.group import cli

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"]
# Pages about the bench: its own tests run them.
BENCH_PAGES = ("self-training", "ood", "gpn", "data", "backbones", "prior")
BLOCK = re.compile(r"^```python\n(.*?)^```(\n*```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
"""A snippet, and the output that stands right below it."""


def blocks(page, language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )


def run_page(name, blocks=None, atol=0.002, **given):
    """Run the Python of a page, in one place; what a block prints is what stands below it."""
    text = (DOCS / name).read_text(encoding="utf-8")
    found = BLOCK.findall(text)
    assert found, f"{name} shows no code"
    names: dict[str, object] = dict(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (block, _, shown) in enumerate(found[:blocks], start=1):
            code = compile(block, f"{name}, block {number}", "exec", dont_inherit=True)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, names)  # our own page
            print(printed.getvalue(), end="")
            if shown:
                compare(printed.getvalue(), shown, f"{name}, block {number}", atol)
    return names


def stored_cora():
    """What stands for PyG's loader: Cora as it would download it, from a file that is here."""
    import torch
    from torch_geometric.data import Data

    path = Path(os.environ.get("SIMI_MAILBOX_DATA", "nowhere"), "Cora.npz")
    if not path.exists():
        return None
    with np.load(path) as file:
        edges, rows, x = file["edge_index"], file["x_indptr"], np.zeros(file["x_shape"], np.float32)
        x[np.repeat(np.arange(len(x)), np.diff(rows)), file["x_indices"]] = file["x_data"]
        parts = {key: torch.tensor(file[key]) for key in ("train_mask", "val_mask", "test_mask")}
        y = torch.tensor(file["y"].astype(np.int64))
    data = Data(torch.tensor(x), torch.tensor(edges.astype(np.int64)), y=y, **parts)
    return type("Planetoid", (), {"__new__": lambda cls, *_, transform: [transform(data)]})


def compare(printed, shown, where, atol=0.002):
    """What is printed is what a page shows, up to the last digits of numbers."""
    (words, numbers), (shown_words, shown_numbers) = apart(printed), apart(shown)
    assert words == shown_words, where
    np.testing.assert_allclose(numbers, shown_numbers, rtol=1e-3, atol=atol, err_msg=where)


def apart(text):
    """Words and numbers: the last digit of a number may differ between machines."""
    number = r"-?\d[\d,]*(?:\.\d+)?"
    found = [float(value.replace(",", "")) for value in re.findall(number, text)]
    return re.sub(number, "#", text).split(), found


def command_lines(bench=False):
    """Every line of a page that calls the command, but those of shell.md, which are run.

    ``bench`` asks for the commands that simi-mailbox-bench adds instead of the library's.
    """
    found = []
    for page in PAGES:
        text = re.sub(r"\\\n\s*", " ", page.read_text("utf-8"))
        lines = re.findall(
            r"^(?:    |\$ |)(simi-mailbox (?=[a-z])(?!says).*?)(?:  +#.*)?$", text, re.MULTILINE
        )
        found += [
            (page.name, line)
            for line in lines
            if page.name != "shell.md" and (shlex.split(line)[1] not in COMMANDS) == bench
        ]
    return found


def parse(command, arguments):
    """Read arguments as the command would, without looking at files or doing anything."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        name, *rest = arguments
        found = command.get_command(context, name)
        assert found is not None, f"no such command: {name}"
        parse(found, rest)
    else:
        values, left, _ = command.make_parser(context).parse_args(list(arguments))
        assert not left or command.allow_extra_args, f"too many arguments: {left}"
        for parameter in command.params:
            given = values.get(parameter.name)
            if isinstance(parameter.type, click.Choice) and isinstance(given, str):
                parameter.type.convert(given, parameter, context)


def line_of(begin):
    """The one command of the pages that begins so, without the name of the program."""
    (line,) = {
        line
        for _, line in (*command_lines(), *command_lines(bench=True))
        if line.startswith(f"simi-mailbox {begin}")
    }
    return shlex.split(line)[1:]


def run_line(begin):
    result = CliRunner().invoke(cli, line_of(begin))
    assert result.exit_code == 0, result.output
    return result.output


def run_shell(command):
    """What a command of docs/shell.md prints."""
    program, *arguments = shlex.split(command)
    if program == "head":
        lines = Path(arguments[2]).read_text().splitlines(keepends=True)
        return "".join(lines[: int(arguments[1])])
    assert program == "simi-mailbox"
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return result.stdout
