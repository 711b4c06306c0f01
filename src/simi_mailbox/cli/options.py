"""Options that the commands on users' own files share, and the check of what they will write."""

import difflib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

Decorator = Callable[[Any], Any]
FILES_EPILOG = """\b
Files: .csv .tsv .txt (.gz) .parquet .feather .npy .npz .safetensors .pt, or SciPy's .npz for
edges; - is a table from standard input.
A table may have a header; a column 'id' names the nodes, and all tables then use those names.
Labels may be text if the header of the logits (or --classes) names the classes; an empty
label or -1 is unknown. How files are read: docs/shell.md. Exit codes: simi-mailbox --help.
"""


class ExistingFile(click.Path):
    """A file that is there, or one line that says so before anything heavy is imported."""

    def __init__(self, *, folders: bool = False) -> None:
        super().__init__(dir_okay=folders, path_type=Path)
        self.name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(value)
        if path.is_dir() and not self.dir_okay:
            raise click.ClickException(f"{path} is a folder; name a file")
        if value == "-" or path.exists():
            return path
        beside = os.listdir(path.parent) if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.75)
        hint = f"did you mean {path.parent / close[0]}?" if close else "check the name"
        option = f"{param.opts[0]}: " if isinstance(param, click.Option) else ""
        raise click.ClickException(f"{option}there is no file {path}; {hint}")


class MethodName(click.ParamType):  # type: ignore[type-arg]
    """The name of a calibrator, or several separated by commas."""

    name = "method"

    def __init__(self, *, several: bool = False, all: bool = False) -> None:
        self.several, self.all = several, all

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from simi_mailbox.calibrators import registry
        from simi_mailbox.plain_text import unknown

        known = [*registry.names(), *(["all"] if self.all else [])]
        names = value.split(",") if self.several else [value]
        names = list(dict.fromkeys(name.strip() for name in names if name.strip()))
        for name in names:
            if name not in known:
                self.fail(unknown("method", name, known), param, ctx)
        if not names:
            self.fail("name at least one method", param, ctx)
        return names if self.several else names[0]

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


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator."""
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


FILES = {
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
FIT_PARTS = ("edges", "labels", "calibration", "train", "features", "hidden", "ids", "classes")
_UNKNOWN = "Rows about nodes that the first file does not have."
INPUT_TYPES = ["logits", "log-probabilities", "probabilities"]
INPUT_TYPES += ["binary-logits", "binary-probabilities"]


def file_command(
    *arguments: str,
    parts: Sequence[str],
    input_type: str | None,
    folders: bool = False,
    **other: str,
) -> Decorator:
    """A command on users' files, with options for ``parts``; ``other`` are its own help texts."""
    files, told = ExistingFile(), FILES | other
    holds = "What the first file holds" + ("." if input_type else "; as at fit if not given.")
    *first, last = arguments
    return together(
        click.command(epilog=FILES_EPILOG),
        *(click.argument(name, type=files) for name in first),
        click.argument(last, type=ExistingFile(folders=folders)),
        *(click.option(f"--{part}", type=files, help=told[part]) for part in parts),
        click.option("--id-column", metavar="NAME", help="Column that names the nodes."),
        click.option("--encoding", metavar="NAME", help="Of text files, such as latin-1."),
        choice_option("--unknown", ("refuse", "drop"), _UNKNOWN, "refuse"),
        choice_option("--input-type", INPUT_TYPES, holds, input_type),
    )


def choice_option(
    name: str, choices: Iterable[str], help: str, default: str | None = None
) -> Decorator:
    """One of a few words."""
    return click.option(name, type=click.Choice(list(choices)), default=default, help=help)


def path_option(name: str, help: str, default: str | None = None) -> Decorator:
    """A file to write."""
    path = None if default is None else Path(default)
    return click.option(name, type=click.Path(path_type=Path), default=path, help=help)


probabilities_out = path_option(
    "--out",
    "File of probabilities (.csv, .parquet, .npz, …), - for CSV; of a folder, a folder.",
    "probs.csv",
)
positive_option = click.option(
    "--positive", metavar="CLASS", help="Judge or act on this one class: its name, or its number."
)
selection_option = click.option(
    "--not-used-for-selection",
    "used_for_selection",
    flag_value=False,
    default=True,
    show_default=False,
    help="The calibration nodes had no part in choosing the model (its checkpoint).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
FOLDER_OPTIONS = ("engine", "memory", "scheduler", "work")
_ENGINES = "Folders only: compute in memory, from disk, or on Dask.  [default: auto]"
_MEMORY = "Folders only: memory of one process, such as 2GB."
_SCHEDULER = "Folders only: Dask scheduler, tcp://host:port."
_WORK = "Folders only: folder for intermediate files; kept, to go on after a stop."
folder_options = together(
    choice_option("--engine", ("auto", "memory", "disk", "dask"), _ENGINES),
    click.option("--memory", metavar="SIZE", help=_MEMORY),
    click.option("--scheduler", metavar="ADDRESS", help=_SCHEDULER),
    click.option("--work", metavar="DIR", help=_WORK),
)


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


plugin_option = click.option(
    "--plugin",
    multiple=True,
    metavar="MODULE:CLASS",
    is_eager=True,  # before any other option names its method
    expose_value=False,
    callback=_plug_in,
    help="A calibrator of your own, installed or in this folder; may be repeated.",
)
method_options = together(
    click.option(
        "--method",
        type=MethodName(),
        default="simi-mailbox",
        help="The calibrator: see simi-mailbox methods.",
    ),
    plugin_option,
    click.option(
        "--set",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="A parameter of the method, such as n_groups=10; may be repeated.",
    ),
    selection_option,
    click.option(
        "--allow-training-nodes",
        is_flag=True,
        help="Calibrate with nodes of --train, too, which makes the result overconfident.",
    ),
)


def refuse_options(names: Iterable[str], why: str) -> None:
    """Refuse options that were typed and are for something else."""
    ctx = click.get_current_context()
    for name in names:
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is for {why}")


def check_file(path: Path, ending: str = "", what: str = "") -> None:
    """Refuse a path that cannot be written, or not with this ``ending``; make its folder."""
    ctx = click.get_current_context()
    if path.suffix.lower() != ending and ending:
        raise click.ClickException(f"{path}: {what} is a {ending} file; name it so")
    if str(path) == "-":
        if ctx.params.get("as_json"):
            raise click.UsageError("--out - and --json both take standard output: leave out one")
        return
    for given in ctx.command.params if path.exists() else ():
        read = ctx.params.get(given.name or "") if isinstance(given.type, ExistingFile) else None
        if read is not None and read.exists() and path.samefile(read):
            named = given.make_metavar(ctx) if isinstance(given, click.Argument) else given.opts[0]
            raise click.ClickException(
                f"cannot write {path}: it is what {named} reads; name another file"
            )
    if path.is_dir():
        raise click.ClickException(f"cannot write {path}: it is a folder; name a file in it")
    if not path.exists():
        check_folder(path.parent)
    elif path.is_file() and not os.access(path, os.W_OK):
        raise click.ClickException(f"cannot write {path}: Permission denied")


def check_folder(path: Path) -> None:
    """Make a folder, if need be, and refuse one that no file can be written into."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise click.ClickException(f"cannot write into {path}: {error.strerror or error}") from None
