"""How many small changes of the core do its tests see? Mutation testing in one process.

    python bench/speed/mutants.py --count 200 --seed 0        # or: make mutants
    python bench/speed/mutants.py --again mutants.json        # the survivors of last time only

Each mutant changes one operator, number or condition, or leaves out one call. Tests are collected
once, and traced once to know which of them runs which line; then a fork per mutant swaps the code
of the one function and runs those tests, quick ones first. Tests that start other processes do not
see the change there.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "simi_mailbox"
TARGETS = ("calibrators/simi_mailbox", "decide", "scale", "validation")
TESTS = (
    *("tests/calibrators/simi_mailbox", "tests/decide", "tests/scale", "tests/validation"),
    *("tests/golden", "tests/calibrators/test_base.py", "tests/test_crossfit.py"),
    *("tests/calibrators/test_files_of_calibrators.py", "tests/pyg/test_identity.py"),
    *("tests/calibrators/test_binary_methods.py", "tests/calibrators/test_weights_and_priors.py"),
    *("tests/metrics/test_inputs.py", "tests/monitor", "tests/test_audit.py", "tests/cli"),
)
SECONDS, LONGEST = 8.0, 3.0
"""Processor time that the tests of one mutant, and any one of them, may take without it."""
TRACED = ROOT / ".mutants-traced.json"
"""Who runs which line: found once for as long as the sources are the same."""
EQUIVALENT = frozenset(
    {"BLOCK_NUMBERS", "BLOCK_SIMILARITIES", "PART", "PIECE", "CHUNK", "SAMPLE", "CELLS", "FEW"}
    | {"LARGEST_CHUNK", "LARGEST_BLOCK", "TOGETHER", "BATCH", "FAN_IN", "PATIENCE", "COPIES"}
    | {"PER_NODE", "EDGE_BYTES", "USED", "PROCESS"}
)
"""Sizes of blocks and the like, which change memory and time, and no result."""
SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: which function (or module-level name) of which file, and the new source."""

    path: str
    line: int
    end_line: int
    where: str
    change: str
    source: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.where}: {self.change}"


# --- making ---------------------------------------------------------------------------------------


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file: of its functions, methods and module-level numbers."""
    raw = path.read_bytes()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: Any) -> tuple[int, int]:
        return (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

    for where, part in _parts(ast.parse(raw), ""):
        for node, last in _nodes(part, 0):
            for (begin, end), new in _changes(node, raw, span):
                source = raw[:begin] + new.encode() + raw[end:]
                change = " ".join(f"{raw[begin:end].decode()[:40]} -> {new[:40]}".split())
                file = str(path.relative_to(SOURCE))
                yield Mutant(file, node.lineno, last, where, change, source.decode())


def _parts(tree: Any, inside: str) -> Iterator[tuple[str, ast.AST]]:
    """Outermost functions and methods, and module-level assignments, with their names."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _parts(node, f"{inside}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            for statement in node.body:
                if not _is_text(statement):
                    yield f"{inside}{node.name}()", statement
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not inside and _assigned(node):
            yield _assigned(node), node.value


def _nodes(node: ast.AST, last: int) -> Iterator[tuple[Any, int]]:
    """What may be changed in a statement, and the last line that runs with it."""
    if isinstance(node, ast.stmt):
        last = node.end_lineno or 0
        if hasattr(node, "body"):
            last = max(node.lineno, node.body[0].lineno - 1)
    if hasattr(node, "lineno"):
        yield node, max(last, node.end_lineno if isinstance(node, ast.expr) else 0)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield from _nodes(child, last)


def _changes(node: Any, raw: bytes, span: Any) -> Iterator[tuple[tuple[int, int], str]]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield span(node), str(not node.value)
        elif isinstance(node.value, int | float):
            yield span(node), _other_number(node.value)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _swapped(node.left, node.ops[0], node.comparators[0], raw, span)
    elif isinstance(node, ast.BinOp):
        yield from _swapped(node.left, node.op, node.right, raw, span)
    elif isinstance(node, ast.BoolOp):
        yield from _swapped(node.values[0], node.op, node.values[1], raw, span)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield span(node), f"({raw[slice(*span(node.operand))].decode()})"
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield span(node.test), f"(not ({raw[slice(*span(node.test))].decode()}))"
    elif isinstance(node, ast.Continue | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield span(node), "pass"


def _swapped(left: Any, op: Any, right: Any, raw: bytes, span: Any) -> Iterator[Any]:
    if type(op) in SWAPS:
        old, new = SWAPS[type(op)]
        begin, end = span(left)[1], span(right)[0]
        place = raw[begin:end].find(old.encode())
        if place >= 0:
            yield (begin + place, begin + place + len(old)), new


def _is_text(node: ast.AST) -> bool:
    """Docstrings, messages and warnings: what they say is not tested by numbers."""
    if isinstance(node, ast.JoinedStr | ast.Raise):
        return True
    if isinstance(node, ast.Expr) and ast.unparse(node).startswith("warnings.warn("):
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "stacklevel"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _assigned(node: Any) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return targets[0].id if isinstance(targets[0], ast.Name) and node.value else ""


def _other_number(value: float) -> str:
    if isinstance(value, int):
        return str(value + 1 if abs(value) < 100 else 2 * value)
    return repr(value * 2 if value else 1.0)


# --- swapping -------------------------------------------------------------------------------------


def install(mutant: Mutant) -> bool:
    """Swap the code of the function in this process; whether it was found."""
    module = sys.modules[
        mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    ]
    if "()" not in mutant.where:
        return _install_constant(mutant, module)
    path = mutant.where.replace("()", "").split(".")
    code: Any = compile(mutant.source, str(SOURCE / mutant.path), "exec", dont_inherit=True)
    owner: Any = module
    for part in path:
        found = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == part]
        if not found:
            return False
        code = found[-1]
        if part != path[-1]:
            owner = vars(owner)[part]
    function = _plain(vars(owner).get(path[-1]))
    if function is None or len(function.__code__.co_freevars) != len(code.co_freevars):
        return False
    function.__code__ = code
    return True


def _install_constant(mutant: Mutant, module: ModuleType) -> bool:
    """Give a constant its new value wherever it was imported under its name."""
    tree = ast.parse(mutant.source)
    (node,) = [
        n for n in tree.body
        if isinstance(n, ast.Assign | ast.AnnAssign) and _assigned(n) == mutant.where
    ]  # fmt: skip
    old = vars(module)[mutant.where]
    new = eval(compile(ast.Expression(node.value), mutant.path, "eval"), dict(vars(module)))  # type: ignore[arg-type]
    if isinstance(new, type) or callable(new):
        return False
    for name, other in list(sys.modules.items()):
        if name.startswith("simi_mailbox") and vars(other).get(mutant.where) is old:
            setattr(other, mutant.where, new)
    return True


def _plain(value: Any) -> FunctionType | None:
    """The function inside a property, a class method or a decorator."""
    for _ in range(5):
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, cached_property):
            value = value.func
        elif isinstance(value, classmethod | staticmethod) or hasattr(value, "__wrapped__"):
            value = getattr(value, "__wrapped__", None) or value.__func__
    return value if isinstance(value, FunctionType) else None


# --- running --------------------------------------------------------------------------------------


class Session:
    """A pytest plugin: takes over once tests are collected."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lines: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.seconds: list[float] = []
        self.results: list[dict[str, Any]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = session.items
        self._trace()
        mutants = self._chosen()
        started = time.time()
        for number, mutant in enumerate(mutants, 1):
            status, tests = self._try(mutant)
            self.results.append({**asdict(mutant), "status": status, "tests": tests})
            score = self._score()
            print(f"{number}/{len(mutants)} {score:5.1%} {status:9} {mutant.name}", flush=True)
            self._write()
        counted = [r["status"] for r in self.results]
        print(
            f"{len(counted)} mutants in {time.time() - started:.0f} s: "
            + ", ".join(f"{counted.count(s)} {s}" for s in sorted(set(counted)))
            + f"; score {self._score():.1%}"
        )
        return True

    def _score(self) -> float:
        dead = sum(r["status"] in ("killed", "timeout") for r in self.results)
        return dead / max(1, len(self.results))

    def _write(self) -> None:
        kept = [{k: v for k, v in r.items() if k != "source"} for r in self.results]
        Path(self.options.out).write_text(json.dumps(kept, indent=1), "utf-8")

    def _chosen(self) -> list[Mutant]:
        files = _files()
        every = [m for file in files for m in mutants_of(file) if m.where not in EQUIVALENT]
        if self.options.again:
            last = json.loads(Path(self.options.again).read_text("utf-8"))
            wanted = {
                (r["path"], r["line"], r["change"]) for r in last if r["status"] == "survived"
            }
            return [m for m in every if (m.path, m.line, m.change) in wanted]
        print(f"{len(every)} mutants can be made of {len(files)} files", flush=True)
        every = [m for m in every if self.options.only in m.path]
        count = min(self.options.count, len(every))
        return random.Random(self.options.seed).sample(every, count)[self.options.skip :]

    def _trace(self) -> None:
        """Find out which test runs which line, and how long it takes."""
        sources = hashlib.sha256(b"".join(file.read_bytes() for file in _files())).hexdigest()
        known = json.loads(TRACED.read_text("utf-8")) if TRACED.exists() else {}
        known = known if known.get("sources") == sources else {"sources": sources}
        new = [item for item in self.items if item.nodeid not in known]
        if new:
            known |= zip([item.nodeid for item in new], _all_traced(new), strict=True)
            TRACED.write_text(json.dumps(known), "utf-8")
        for number, item in enumerate(self.items):
            seconds, passed, lines = known[item.nodeid]
            self.seconds.append(seconds)
            if not passed or seconds > self.options.longest:
                why = "takes too long" if seconds > 1 else "fails by itself"
                print(f"left out, it {why}: {item.nodeid}")
            else:
                for path, line in lines:
                    self.lines[path, line].add(number)
        print(f"{len(self.items)} tests take {sum(self.seconds):.0f} s", flush=True)

    def _tests(self, mutant: Mutant) -> list[int]:
        numbers: set[int] = set()
        if "()" in mutant.where:
            for line in range(mutant.line, mutant.end_line + 1):
                numbers |= self.lines.get((mutant.path, line), set())
        else:
            for (path, _), some in self.lines.items():
                numbers |= some if path == mutant.path else set()
        by_file: dict[str, list[int]] = defaultdict(list)
        for number in sorted(numbers):
            by_file[self.items[number].nodeid.split("::")[0]].append(number)
        groups = sorted(by_file.values(), key=lambda group: min(self.seconds[k] for k in group))
        chosen, left = [], self.options.seconds
        for group in groups:
            for number in group:
                if self.seconds[number] <= left:
                    left -= self.seconds[number]
                    chosen.append(number)
        return chosen

    def _try(self, mutant: Mutant) -> tuple[str, int]:
        numbers = self._tests(mutant)
        if not numbers:
            return "survived", 0
        child = os.fork()
        if child == 0:
            os.setsid()
            most = 10 + int(3 * sum(self.seconds[k] for k in numbers))
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))  # a loop without end
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os._exit(self._run(mutant, numbers))
        limit = time.time() + 120 + 30 * sum(self.seconds[k] for k in numbers)
        while time.time() < limit:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                known = {0: "survived", 3: "not made", -signal.SIGKILL: "timeout"}
                return known.get(code, "killed"), len(numbers)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout", len(numbers)

    def _run(self, mutant: Mutant, numbers: list[int]) -> int:
        try:
            if not install(mutant):
                return 3
            items = [self.items[k] for k in numbers]
            for item, following in zip(items, [*items[1:], None], strict=True):
                if any(r.failed for r in runtestprotocol(item, log=False, nextitem=following)):
                    return 1
        except BaseException:
            return 1
        return 0


def _all_traced(items: list[Any]) -> list[Any]:
    """In a fork, so that what tests leave behind is not inherited."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        following = [*items[1:], None]
        found = [_traced(*pair) for pair in zip(items, following, strict=True)]
        with os.fdopen(writer, "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = json.load(file)
    os.waitpid(child, 0)
    return found


def _files() -> list[Path]:
    return sorted(f for t in TARGETS for f in (PACKAGE / t).rglob("*.py"))


def _traced(item: Any, following: Any) -> tuple[float, bool, list[tuple[str, int]]]:
    seen: set[tuple[str, int]] = set()
    names: dict[str, str | None] = {}
    targets = tuple(f"simi_mailbox/{target}/" for target in TARGETS)

    def start(frame: Any, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in names:
            inside = file.startswith(str(SOURCE))
            path = str(Path(file).relative_to(SOURCE)) if inside else ""
            names[file] = path if path.startswith(targets) else None
        path = names[file]
        if path is None:
            return None

        def step(frame: Any, event: str, argument: Any) -> Any:
            seen.add((path, frame.f_lineno))
            return step

        seen.add((path, frame.f_lineno))
        return step

    def too_long(*_: Any) -> None:
        raise TimeoutError

    started, passed = time.process_time(), False
    signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, 8.0)  # tracing takes time as well
    threading.settrace(start)
    sys.settrace(start)
    try:
        reports = runtestprotocol(item, log=False, nextitem=following)
        passed = not any(report.failed for report in reports)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return (time.process_time() - started) / 1.5, passed, sorted(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="so many of them, done before")
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--again", default="", help="survivors of an earlier report")
    parser.add_argument("--out", default="mutants.json")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests of one mutant")
    parser.add_argument("--longest", type=float, default=LONGEST, help="of one test")
    parser.add_argument("tests", nargs="*", help="tests instead of the usual ones")
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(SOURCE), str(ROOT), str(ROOT / "bench" / "src")]
    chosen = options.tests or [
        *TESTS,
        "--doctest-modules",
        *(f"src/simi_mailbox/{t}" for t in TARGETS),
    ]
    arguments = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"]
    arguments += ["-W", "ignore", "-s"]
    arguments += ["-k", "not cluster and not dask and not without_torch and not without_loading"]
    sys.exit(pytest.main([*arguments, *chosen], plugins=[Session(options)]))


if __name__ == "__main__":
    main()
