"""What the commands on users' own files share: options, reading, tables and JSON."""

from __future__ import annotations

import ast
import difflib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from simi_mailbox.cli.plugins import plugin_option
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.plain_text import plain

if TYPE_CHECKING:
    from simi_mailbox.calibrators import Calibrator
    from simi_mailbox.node_files import Problem

F = TypeVar("F", bound=Callable[..., Any])

INPUTS = ("logits", "log-probabilities", "probabilities")
CLASS_NAMES = "class_names_"
"""Fitted value in which a calibrator remembers what the classes are called."""
FROM_FILES = ("graph", "features")
"""What a method may need that a file can hold."""
_PARTS = (
    *("edges", "labels", "calibration", "test", "train"),
    *("features", "hidden", "known", "ids", "classes"),
)
# Wide enough for all columns where there is no terminal to ask for its width.
_PLAIN_WIDTH = 120

FILES_EPILOG = """\b
Files: .csv .tsv .txt .npy .npz .parquet .safetensors .pt, or SciPy's .npz for edges.
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
        if path.exists():
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

    def __init__(self, *, several: bool = False) -> None:
        self.several = several

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from simi_mailbox.calibrators import registry
        from simi_mailbox.suggestions import unknown

        if not isinstance(value, str):
            return value
        known = [*registry.names(), *(["all"] if self.several else [])]
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

        before, comma, last = incomplete.rpartition(",") if self.several else ("", "", incomplete)
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in registry.names()
            if name.startswith(last)
        ]


_FILE = ExistingFile()
_HELP = {
    "edges": "Two columns of nodes, or an edge index [2, E].",
    "labels": "Labels by node; empty or -1 where unknown.",
    "calibration": "Nodes to calibrate with: ids, or a mask. All labelled nodes if not given.",
    "test": "Nodes to judge on: ids, or a mask.",
    "train": "Nodes the model was trained on: ids, or a mask.",
    "features": "Features of the nodes, for methods that need them.",
    "hidden": "What enters the GNN's last layer, by node, for methods that can use it.",
    "known": "Labels that are known by now: evidence on other nodes, for methods that take it.",
    "ids": "Names of the nodes in the order of the logits, if they have no column 'id'.",
    "classes": "Names of the classes in the order of the columns, one per line.",
}


def file_options(*parts: str) -> Callable[[F], F]:
    """Options for the parts of a problem that a command takes, and how they are to be read."""

    def decorate(function: F) -> F:
        options = [click.option(f"--{part}", type=_FILE, help=_HELP[part]) for part in parts]
        options.append(
            click.option("--id-column", metavar="NAME", help="Column that names the nodes.")
        )
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def input_option(default: str | None = "logits") -> Callable[[F], F]:
    """``--input``: what the numbers are, never guessed."""
    return click.option(
        "--input",
        "kind",
        type=click.Choice(INPUTS),
        default=default,
        show_default=default is not None,
        help="What the first file holds" + ("." if default else "; as at fit if not given."),
    )


def method_options(function: F) -> F:
    """Which calibrator, how it is set, and what is said of the nodes that it is fitted on."""
    function = click.option(
        "--allow-training-nodes",
        "insist",
        is_flag=True,
        help="Calibrate with nodes of --train, too, which makes the result too sure.",
    )(function)
    function = fresh_option(function)
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


fresh_option = click.option(
    "--fresh",
    is_flag=True,
    help="The calibration nodes had no part in choosing the model (its checkpoint).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def read(source: Path, options: Mapping[str, Any], kind: str = "logits") -> Problem:
    """The problem that the files of a command describe."""
    from simi_mailbox.node_files import read_problem

    with working(f"reading {source}"):
        return read_problem(
            source,
            values="probabilities" if kind == "probabilities" else "logits",
            files={part: options.get(part) for part in _PARTS},
            id_column=options.get("id_column"),
        )


def calibrator_of(method: str, settings: Sequence[str]) -> Calibrator:
    """An unfitted calibrator with its parameters set."""
    from simi_mailbox import calibrators

    calibrator = calibrators.get(method)()
    others = sorted(calibrator.needs - set(FROM_FILES))
    if others:
        raise ValueError(
            f"{method} needs {' and '.join(others)}, a function of the trained model: "
            "no file holds it, so use it from Python"
        )
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise ValueError(f"--set {setting}: write it as NAME=VALUE, such as n_groups=10")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        calibrator.set_params(**{name.strip().replace("-", "_"): value})
    return calibrator


def missing_parts(needs: frozenset[str], problem: Problem) -> list[str]:
    """Options that a method needs and the problem lacks."""
    given = {"graph": problem.graph, "features": problem.features}
    options = {
        "graph": "--edges FILE",
        "features": "--features FILE",
        "forward": "the model itself (from Python)",
    }
    return [options[part] for part in sorted(needs) if given.get(part) is None]


def calibration_nodes(problem: Problem, *, insist: bool | None = None) -> Any:
    """Nodes to calibrate with: those named, or all with a label if that leaves others.

    ``insist`` is what the user says of training nodes; None where a command has no such option.
    """
    rows = _calibration_nodes(problem)
    if not insist:
        why = "a model looks better than it is on nodes it was trained on; calibrate with others"
        why += "" if insist is None else ", or insist with --allow-training-nodes"
        refuse_shared(problem, {"calibration": rows, "train": problem.sets.get("train", [])}, why)
    return rows


def refuse_shared(problem: Problem, sets: Mapping[str, Any], why: str) -> None:
    """Raise if two sets have a node in common, and call it what the user calls it."""
    import numpy as np

    first, second = sets
    both = np.intersect1d(sets[first], sets[second])
    if both.size:
        shown = problem.nodes.shown()[int(both[0])]
        raise ValueError(
            f"{both.size:,} nodes are both in --{first} and in --{second} (the first is {shown}): "
            f"{why}"
        )


def _calibration_nodes(problem: Problem) -> Any:
    if problem.labels is None:
        raise ValueError("labels are missing: give --labels FILE")
    if "calibration" in problem.sets:
        rows = problem.sets["calibration"]
        unknown = rows[problem.labels[rows] < 0]
        if unknown.size:
            raise ValueError(
                f"{unknown.size} of the {rows.size} calibration nodes have no label (the first is "
                f"{problem.nodes.shown()[unknown[0]]}): take them out of --calibration"
            )
        return rows
    rows = problem.labelled("labels")
    if rows.size == problem.nodes.count:
        raise ValueError(
            "every node has a label: say which to calibrate with, --calibration FILE (nodes that "
            "the model was not trained on)"
        )
    return rows


def fitted(
    calibrator: Calibrator, problem: Problem, *, kind: str, method: str, insist: bool, fresh: bool
) -> Any:
    """Fit on the calibration nodes, and return them."""
    rows = calibration_nodes(problem, insist=insist)
    missing = missing_parts(calibrator.needs, problem)
    if missing:
        raise ValueError(f"{method} needs {' and '.join(missing)}")
    tell_if_unused(fresh, [calibrator])
    given = inputs(calibrator, problem, kind)
    with working(f"fitting {method} on {rows.size:,} nodes"):
        calibrator.fit(
            problem.values,
            problem.labels,
            mask=rows,
            holdout_mask=holdout(calibrator, problem),
            allow_training_nodes=insist,
            fresh=fresh,
            **given,
        )
    return rows


def tell_if_unused(fresh: bool, chosen: Sequence[Calibrator]) -> None:
    """Warn that ``--fresh`` changes nothing, where no method allows for luck."""
    if fresh and not any("fresh" in calibrator.takes for calibrator in chosen):
        names = ", ".join(calibrator.name for calibrator in chosen)
        text = f"--fresh changes nothing: no allowance for luck is made by {names}"
        warnings.warn(text, CalibrationWarning, stacklevel=2)


def inputs(calibrator: Calibrator, problem: Problem, kind: str) -> dict[str, Any]:
    """What a method is given besides logits and labels, to fit and to predict."""
    return {
        "graph": problem.graph,
        "features": problem.features if "features" in calibrator.needs else None,
        "hidden": problem.hidden if "hidden" in calibrator.takes else None,
        "train_mask": training_nodes(calibrator, problem),
        "input": kind,
    }


def training_nodes(calibrator: Calibrator, problem: Problem) -> Any:
    """Nodes of ``--train``; only labelled ones for a method that reads their labels."""
    rows = problem.sets.get("train")
    if rows is None or problem.labels is None or "known" not in calibrator.takes:
        return rows
    rows = rows[problem.labels[rows] >= 0]
    return rows if rows.size else None


def known_labels(calibrator: Calibrator, problem: Problem) -> dict[str, Any]:
    """Labels of ``--known`` as ``predict_proba`` takes them; nothing if there are none."""
    if problem.known is None:
        return {}
    if "known" not in calibrator.takes:
        raise ValueError(f"{calibrator.name} makes no use of known labels: leave out --known")
    rows = (problem.known >= 0).nonzero()[0]
    return {"known": (rows, problem.known[rows])}


def holdout(calibrator: Calibrator, problem: Problem) -> Any:
    """Training nodes with a label, for methods that stop early on them."""
    if calibrator.holdout != "training" or "train" not in problem.sets or problem.labels is None:
        return None
    rows = problem.sets["train"]
    rows = rows[problem.labels[rows] >= 0]
    return rows if rows.size else None


def same_classes(calibrator: Calibrator, problem: Problem, path: Path) -> Problem:
    """The problem with its classes as the calibrator knows them, whatever order the file has."""
    import numpy as np

    known, given = getattr(calibrator, CLASS_NAMES, None), problem.nodes.classes
    if known is None or len(known) != problem.values.shape[1]:
        return problem
    if given is None or sorted(given) == sorted(known):
        order = range(len(known)) if given is None else [given.index(name) for name in known]
        nodes = replace(problem.nodes, classes=tuple(known))
        labels = problem.known
        if labels is not None:  # −1, an unknown label, stays what it is
            labels = np.append(np.argsort(list(order)), -1)[labels]
        columns = list(order)
        return replace(problem, values=problem.values[:, columns], nodes=nodes, known=labels)
    strange = next(name for name in given if name not in known)
    raise ValueError(f"{path} knows no class {strange!r}; it was fitted on: {', '.join(known)}")


def facts(problem: Problem, rows: Any, calibrator: Calibrator) -> dict[str, Any]:
    """What a calibrator was fitted on; from here on it also knows the names of the classes."""
    if problem.nodes.classes is not None:
        setattr(calibrator, CLASS_NAMES, list(problem.nodes.classes))
    return {
        "method": calibrator.name,
        "nodes": problem.nodes.count,
        "classes": problem.values.shape[1],
        "calibration_nodes": int(rows.size),
        "calibration_is": "as named" if "calibration" in problem.sets else "all labelled nodes",
    }


def changes(problem: Problem, probs: Any, calibrator: Calibrator, kind: Any) -> dict[str, Any]:
    """What calibration did to all nodes; no label is read."""
    from simi_mailbox.inputs import read_logits
    from simi_mailbox.softmax import confidence

    before = confidence(read_logits(problem.values, kind))
    return {
        "method": calibrator.name,
        "nodes": problem.nodes.count,
        "mean_confidence_before": float(before.mean()),
        "mean_confidence_after": float(probs.max(axis=1).mean()),
        "predictions_changed": int((probs.argmax(1) != problem.values.argmax(1)).sum()),
    }


# --- what is said ---------------------------------------------------------------------------------


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is going on; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Warnings of calibrators, each told in one line; they and errors speak of options."""
    told: list[str] = []
    with heard() as caught:
        try:
            yield told
        except (ValueError, TypeError) as error:
            raise click.ClickException(" ".join(in_options(str(error)).split())) from error
    for message in dict.fromkeys(caught):
        told.append(message)
        click.echo(f"Warning: {plain(message)}", err=True)


@contextmanager
def heard() -> Iterator[list[str]]:
    """What calibrators warn of, in the words of the command line."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        yield told
    told += [
        " ".join(in_options(str(warning.message)).split())
        for warning in caught
        if issubclass(warning.category, CalibrationWarning)
    ]


def in_options(text: str) -> str:
    """What Python calls its arguments, as the options are called.

    Examples
    --------
    >>> in_options('say input="probabilities", or name them in train_mask')
    'say --input probabilities, or name them in --train'
    """
    text = re.sub(r'\binput="([\w-]+)"', r"--input \1", text)
    return text.replace("train_mask", "--train")


def show_facts(facts: Mapping[str, Any]) -> None:
    """A table of two columns."""
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for name, value in facts.items():
        if name == "calibration_is":
            continue
        shown = f"{value:.2%}" if isinstance(value, float) else value
        shown = f"{value:,}" if isinstance(value, int) else shown
        if name == "calibration_nodes":
            shown = f"{shown} ({facts['calibration_is']})"
        table.add_row(name.replace("_", " "), str(shown))
    show_table(table)


def show_json(content: Mapping[str, Any]) -> None:
    """One JSON object; what is not a number becomes null."""
    click.echo(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def show_table(table: Any) -> None:
    """A rich table, without a terminal as wide as it needs."""
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=_PLAIN_WIDTH)
    console.print(table)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and value != value else value
