"""Options that the commands on users' own files share: files, methods, what is said of nodes."""

import difflib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
INPUTS = ("logits", "log-probabilities", "probabilities", "binary-logits", "binary-probabilities")
FILES_EPILOG = """\b
Files: .csv .tsv .txt (.gz) .parquet .feather .npy .npz .safetensors .pt, or SciPy's .npz for
edges; - is a table from standard input.
A table may have a header; a column 'id' names the nodes, and all tables then use those names.
Labels may be text if the header of the logits (or --classes) names the classes; an empty
label or -1 is unknown. How files are read: docs/shell.md. Exit codes: simi-mailbox --help.
"""


class ExistingFile(click.ParamType):  # type: ignore[type-arg]
    """A file that is there, or one line that says so before anything heavy is imported."""

    name = "file"

    def __init__(self, *, folders: bool = False) -> None:
        self.folders = folders

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        if value == "-" or path.exists():
            if path.is_dir() and not self.folders:
                raise click.ClickException(f"{path} is a folder; name a file")
            return path
        try:
            beside = [entry.name for entry in path.parent.iterdir()]
        except OSError:
            beside = []
        close = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.75)
        hint = f"did you mean {path.parent / close[0]}?" if close else "check the name"
        option = f"{param.opts[0]}: " if isinstance(param, click.Option) else ""
        raise click.ClickException(f"{option}there is no file {path}; {hint}")

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class MethodName(click.ParamType):  # type: ignore[type-arg]
    """The name of a calibrator, or several separated by commas; the shell completes them."""

    name = "method"

    def __init__(self, *, several: bool = False, all: bool = False) -> None:
        self.several, self.all = several, all

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from simi_mailbox.calibrators import registry
        from simi_mailbox.plain_text import unknown

        if not isinstance(value, str):
            return value
        known = [*registry.names(), *(["all"] if self.all else [])]
        names = [name.strip() for name in value.split(",")] if self.several else [value]
        names = [name for name in names if name]
        for name in names:
            if name not in known:
                self.fail(unknown("method", name, known), param, ctx)
        if not names:
            self.fail("name at least one method", param, ctx)
        return list(dict.fromkeys(names)) if self.several else value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from simi_mailbox.calibrators import registry

        return completions(registry.names(), incomplete, several=self.several)


def completions(
    names: Iterable[str], incomplete: str, *, several: bool = True
) -> list[CompletionItem]:
    """What a shell offers for a name, or for the last of several that commas separate."""
    before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last)]


_FILE = ExistingFile()
_HELP = {
    "edges": "Two columns of nodes, or an edge index [2, E].",
    "labels": "Labels by node; empty or -1 where unknown.",
    "calibration": "Nodes to calibrate with: ids, or a mask. All labelled nodes if not given.",
    "test": "Nodes to judge on (no calibration or training nodes): ids, or a mask.",
    "train": "Nodes the model was trained on: ids, or a mask.",
    "features": "Features of the nodes, for methods that need them.",
    "hidden": "What enters the GNN's last layer, by node, for methods that can use it.",
    "known": "Labels that came in after fit: evidence on neighbouring nodes, for some methods.",
    "ids": "Names of the nodes in the order of the logits, if they have no column 'id'.",
    "classes": "Names of the classes in the order of the columns, one per line.",
}


def file_options(*parts: str, **other: str) -> Callable[[F], F]:
    """Options for the parts of a problem that a command takes, and how they are to be read.

    ``other`` are help texts of parts that mean something else to this command.
    """

    def decorate(function: F) -> F:
        told = {**_HELP, **other}
        options = [click.option(f"--{part}", type=_FILE, help=told[part]) for part in parts]
        options += [
            click.option("--id-column", metavar="NAME", help="Column that names the nodes."),
            click.option("--encoding", metavar="NAME", help="Of text files, such as latin-1."),
            click.option(
                "--unknown",
                type=click.Choice(["refuse", "drop"]),
                help="Rows about nodes that the first file does not have.  [default: refuse]",
            ),
        ]
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


positive_option = click.option(
    "--positive", metavar="CLASS", help="Judge or act on this one class: its name, or its number."
)


def input_option(default: str | None = "logits") -> Callable[[F], F]:
    """``--input-type``: what the numbers are, never guessed."""
    return click.option(
        "--input-type",
        "kind",
        type=click.Choice(INPUTS),
        default=default,
        show_default=default is not None,
        help="What the first file holds" + ("." if default else "; as at fit if not given."),
    )


def out_option(default: str, help: str) -> Callable[[F], F]:
    """``--out``: the file to write."""
    path = click.Path(path_type=Path)
    return click.option("--out", type=path, default=Path(default), show_default=True, help=help)


probabilities_out = out_option(
    "probs.csv",
    "File of probabilities (.csv, .parquet, .npz, …), - for CSV; of a folder, a folder.",
)


def method_options(function: F) -> F:
    """Which calibrator, how it is set, and what is said of the nodes that it is fitted on."""
    function = click.option(
        "--allow-training-nodes",
        "insist",
        is_flag=True,
        help="Calibrate with nodes of --train, too, which makes the result overconfident.",
    )(function)
    function = selection_option(function)
    function = click.option(
        "--set",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="A parameter of the method, such as n_groups=10; may be repeated.",
    )(function)
    return click.option(
        "--method",
        type=MethodName(),
        default="simi-mailbox",
        show_default=True,
        help="The calibrator: see simi-mailbox methods.",
    )(plugin_option(function))


selection_option = click.option(
    "--not-used-for-selection",
    "used_for_selection",
    flag_value=False,
    default=True,
    help="The calibration nodes had no part in choosing the model (its checkpoint).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def plugin_option(command: F) -> F:
    """Decorator: the option ``--plugin``, done before any other option is read."""
    return click.option(
        "--plugin",
        multiple=True,
        metavar="MODULE:CLASS",
        is_eager=True,
        expose_value=False,
        callback=_plug_in,
        help="A calibrator of your own, installed or in this folder; may be repeated.",
    )(command)


def _plug_in(_ctx: click.Context, _option: click.Parameter, targets: tuple[str, ...]) -> None:
    if not targets:
        return
    from simi_mailbox.calibrators import plug_in

    # As `python -m` would find it, but behind all that is installed.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    for target in targets:
        try:
            plug_in(target)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
