"""The API reference: a page for each package, and one for each class that it offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import sys
from types import ModuleType

import simi_mailbox

ROOT = "simi_mailbox."
FEW_NAMES = {
    "audit": ("reads_only", "Audit"),
    "calibrators.simi_mailbox.families": ("relatives",),
    "calibrators.simi_mailbox.prior": ("leave_out",),
    "crossfit": ("cross_fitted", "cross_fitted_folds"),
    "demo": ("run_demo", "digits_graph", "Demonstration"),
    "parameters": (
        *("hyperparameters", "Count", "Whole", "Positive", "NonNegative", "Share", "Level"),
    ),
}
"""Modules of one file, which offer these of their names."""
FITTED, FIELDS = "Fitted attributes", "Fields"
"""Headings of lists of attributes: of estimators, and of results."""
HIDDEN = (
    *("set_fit_request", "set_predict_proba_request", "set_score_request"),
    *("get_metadata_routing", "fitted", "name", "version"),
    *("required_inputs", "optional_inputs", "shift_invariant"),
)
"""What a calibrator inherits and no user calls; `Calibrator` tells of the last ones."""
BENCH = {
    "simi_mailbox_bench.datasets": (
        *("load", "make_split", "names", "available", "NodeDataset", "Split"),
    ),
    "simi_mailbox_bench.backbones": ("train", "Settings", "RunKey", "RunCache", "CachedRun"),
    "simi_mailbox_bench.backbones.cached_runs": ("load_logits",),
    "simi_mailbox_bench.backbones.gpn": ("GPNSettings", "train_gpn"),
    "simi_mailbox_bench.prior": ("PastRun", "read_run", "write_run"),
    "simi_mailbox_bench.self_training": ("self_train",),
    "simi_mailbox_bench.ood": (
        *("leave_out_classes", "interpolated_features", "random_blocks", "train_classifier"),
        *("calibrated_confidence", "propagated_energy", "evaluate"),
    ),
}
"""What the pages use of the bench."""


def packages() -> list[str]:
    """Packages and modules that users import from, the root first."""
    return ["", *sorted({*simi_mailbox._PACKAGES, *FEW_NAMES})]


def names(package: str) -> list[str]:
    """What a package offers and no other package is the home of."""
    module = _module(package)
    offered = BENCH.get(package) or FEW_NAMES.get(package) or module.__all__
    # The root lends names from the packages, for short imports; they are told of at home.
    homes = simi_mailbox._HOMES
    lent = {name for name in offered if package == "" and homes.get(name) in simi_mailbox._PACKAGES}
    return sorted(name for name in offered if name not in lent and not name.startswith("__"))


def page(package: str) -> dict[str, str]:
    """The pages of a package, in Markdown: its own, and one for each class."""
    module = _module(package)
    found = {name: getattr(module, name) for name in names(package)}
    classes = {name: value for name, value in found.items() if inspect.isclass(value)}
    text = [f"# `{module.__name__}`", "", "```{eval-rst}"]
    text += [*linked(inspect.getdoc(module) or "").splitlines(), "```", ""]
    lent = [name for name, home in simi_mailbox._HOMES.items() if home and package == ""]
    if lent:
        listed = ", ".join(f"`{name}`" for name in sorted(lent))
        text += [f"Of the packages below, these can be imported from here: {listed}.", ""]
    pages = {}
    if classes:
        text += ["| class | |", "|---|---|"]
        for name, value in classes.items():
            first = (inspect.getdoc(value) or "").splitlines()[0].replace("|", r"\|")
            text.append(f"| [`{name}`]({module.__name__}.{name}.md) | {first} |")
            lines = [f"# `{name}`", "", "```{eval-rst}"]
            lines += [*_entry(f"{module.__name__}.{name}", value), "```", ""]
            pages[f"{module.__name__}.{name}.md"] = "\n".join(lines)
        listed = "\n".join(f"{module.__name__}.{name}" for name in classes)
        text += ["", "```{toctree}", ":hidden:", "", listed, "```", ""]
    for name, value in found.items():
        if name not in classes:
            text += ["```{eval-rst}", *_entry(f"{module.__name__}.{name}", value), "```", ""]
    return {f"{module.__name__}.md": "\n".join(text), **pages}


def told(module: ModuleType, name: str) -> str:
    """The text under a constant or an alias, which Python itself does not keep."""
    for other in [module, *(m for key, m in sys.modules.items() if key.startswith(ROOT))]:
        body = ast.parse(inspect.getsource(other)).body
        for before, after in itertools.pairwise(body):
            target = getattr(before, "target", None) or (getattr(before, "targets", [None])[0])
            if getattr(target, "id", None) == name and isinstance(after, ast.Expr):
                return inspect.cleandoc(after.value.value)  # type: ignore[attr-defined]
    return ""


def _entry(path: str, value: object) -> list[str]:
    """What asks Sphinx for one name."""
    from simi_mailbox.calibrators import Calibrator

    if isinstance(value, ModuleType):
        return [f".. automodule:: {path}", "   :members:"]
    if inspect.isclass(value):
        lines = [f".. autoclass:: {path}", "   :members:", "   :show-inheritance:"]
        if issubclass(value, Calibrator):  # with `fit` and `predict_proba`, where they are asked
            lines.append("   :inherited-members: BaseEstimator")
            hidden = HIDDEN if value is not Calibrator else HIDDEN[:4]
            lines.append(f"   :exclude-members: {', '.join(hidden)}")
        return lines
    if inspect.isroutine(value):
        return [f".. autofunction:: {path}"]
    package, _, name = path.rpartition(".")
    text = told(sys.modules[package], name)
    return [f".. py:data:: {path}", "", *(f"   {line}" for line in text.splitlines())]


def linked(text: str) -> str:
    """``docs/page.md`` of a docstring as a link to that page."""
    return re.sub(r"``docs/([\w-]+)\.md``", r":doc:`/\1`", text)


def with_attributes(lines: list[str]) -> list[str]:
    """A numpydoc docstring whose attributes are a plain list.

    Their names end in an underscore, which reStructuredText takes for a link unless they are
    written as code; and one line may name several.
    """
    made, at = [], 0
    while at < len(lines):
        if lines[at].strip() == "Attributes" and set(lines[at + 1 : at + 2]) <= {"-" * 10}:
            start = at + 2
            at = stop = next(
                (k for k in range(start, len(lines)) if _heading(lines, k)), len(lines)
            )
            named = [line for line in lines[start:stop] if line[:1].strip()]
            title = (
                FITTED
                if any(line.split()[0].strip(",").endswith("_") for line in named)
                else FIELDS
            )
            made += [title, "-" * len(title), *_listed(lines[start:stop])]
        else:
            made.append(lines[at])
            at += 1
    return made


def _listed(lines: list[str]) -> list[str]:
    """Items of an attributes section as a list: names as code, types and texts beside them."""
    made = []
    for line, below in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        if line and not line.startswith(" "):
            shown, _, kind = line.partition(" : ")
            names = ", ".join(f"``{name.strip()}``" for name in shown.split(","))
            text = f"{names} : {kind}" if kind else names
            made += ["", f"* {text}", ""] if below.startswith(" ") else ["", f"* {text}"]
        else:
            made.append(f"  {line.strip()}" if line else "")
    return [*made, ""]


def _heading(lines: list[str], at: int) -> bool:
    """Whether a section begins here: a line with dashes under it."""
    under = lines[at + 1] if at + 1 < len(lines) else ""
    return bool(lines[at]) and len(under) >= 3 and set(under) == {"-"}


def index() -> str:
    """The page that leads to all packages."""
    library = "\n".join(_module(package).__name__ for package in packages())
    lines = ["# API reference", "", "A page for each package, and one for each class.", ""]
    lines += ["```{toctree}", ":maxdepth: 1", "", library, "```", "", "## Experiments", ""]
    lines += ["What these pages use of the second distribution, `simi-mailbox-bench`:", ""]
    return "\n".join([*lines, "```{toctree}", ":maxdepth: 1", "", *BENCH, "```", ""])


def pages(bench: bool = True) -> dict[str, str]:
    """File name -> text, of the whole reference."""
    made = {"index.md": index()}
    for package in [*packages(), *(BENCH if bench else ())]:
        made |= page(package)
    return made


def _module(package: str) -> ModuleType:
    full = package if package in BENCH else f"simi_mailbox.{package}".rstrip(".")
    return importlib.import_module(full)
