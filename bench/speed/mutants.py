"""How many small changes of the core do its tests see? Mutation testing in one process.

    python bench/speed/mutants.py --count 200 --seed 0        # or: make mutants
    python bench/speed/mutants.py --again mutants.json        # the survivors of last time only

Each mutant changes one operator, number or condition, or leaves out one call. Tests are collected
once, and run once to know which of them runs which statement: modules of the core are loaded with a
mark before every statement. Then a fork per mutant swaps the code of the one function and runs
those tests, the ones named after its module first. Tests that start other processes do not see the
change there. Stopped and started again with the same options, it goes on where it was.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "simi_mailbox"
TARGETS = ("calibrators/simi_mailbox", "decide", "scale", "validation.py")
TESTS = (
    *("tests/calibrators/simi_mailbox", "tests/decide", "tests/scale", "tests/validation"),
    *("tests/golden", "tests/calibrators/test_base.py", "tests/test_crossfit.py"),
    *("tests/calibrators/test_files_of_calibrators.py", "tests/pyg/test_identity.py"),
    *("tests/calibrators/test_logistic.py", "tests/calibrators/test_weights_and_priors.py"),
    *("tests/metrics/test_inputs.py", "tests/monitor", "tests/test_audit.py", "tests/cli"),
)
SECONDS, LONGEST = 20.0, 5.0
"""Processor time that the tests of one mutant, and any one of them, may take without it."""
TRACED = ROOT / ".mutants-traced.json"
"""Who runs which line: found once for as long as the files that a test runs are the same."""
DEAD = ("killed", "timeout")
EQUIVALENT = frozenset(
    {"BLOCK_NUMBERS", "BLOCK_SIMILARITIES", "PART", "PIECE", "CHUNK", "SAMPLE", "CELLS", "FEW"}
    | {"LARGEST_CHUNK", "LARGEST_BLOCK", "TOGETHER", "BATCH", "FAN_IN", "PATIENCE", "COPIES"}
    | {"PER_NODE", "EDGE_BYTES", "USED", "PROCESS", "_GLANCE", "BLOCK"}
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
    column: int
    end_line: int
    where: str
    change: str
    source: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.where}: {self.change}"

    @property
    def place(self) -> tuple[str, int, int, str]:
        return self.path, self.line, self.column, self.change


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
                column = begin - starts[node.lineno - 1]
                yield Mutant(file, node.lineno, column, last, where, change, source.decode())


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
        last = _last_line(node)
    if hasattr(node, "lineno"):
        yield node, max(last, node.end_lineno if isinstance(node, ast.expr) else 0)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield from _nodes(child, last)


def _last_line(node: Any) -> int:
    """Of a statement, without those inside it."""
    return max(node.lineno, node.body[0].lineno - 1) if hasattr(node, "body") else node.end_lineno


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
        self.digest = hashlib.sha256("".join(MARKS.digests.values()).encode()).hexdigest()
        self._trace()
        started = time.time()
        for mutant in self._chosen():
            status, tests = self._try(mutant)
            if status == "not made":
                continue
            self.results.append({**asdict(mutant), "status": status, "tests": tests})
            done, score = len(self.results), self._score()
            print(f"{done} {score:5.1%} {status:9} {mutant.name}", flush=True)
            self._write()
            if done == self.options.count:
                break
        counted = [r["status"] for r in self.results]
        print(
            f"{len(counted)} mutants, {time.time() - started:.0f} s: "
            + ", ".join(f"{counted.count(s)} {s}" for s in sorted(set(counted)))
            + f"; score {self._score():.1%}"
        )
        for result in self.results:
            if result["status"] == "survived":
                names = ("path", "line", "where", "change", "tests")
                print("survived: {}:{} {}: {} ({} tests)".format(*(result[n] for n in names)))
        return True

    def _score(self) -> float:
        dead = sum(r["status"] in DEAD for r in self.results)
        return dead / max(1, len(self.results))

    def _write(self) -> None:
        kept = [{k: v for k, v in r.items() if k != "source"} for r in self.results]
        settings = {"sources": self.digest, "seed": self.options.seed, "only": self.options.only}
        Path(self.options.out).write_text(json.dumps({**settings, "results": kept}, indent=1))

    def _chosen(self) -> Iterator[Mutant]:
        """Mutants that are still to be tried; what is known of others is in ``results``."""
        files = _files()
        every = [m for file in files for m in mutants_of(file) if m.where not in EQUIVALENT]
        if self.options.again:
            last = json.loads(Path(self.options.again).read_text("utf-8"))
            self.options.seed, self.options.out = last["seed"], self.options.again
            self.options.count = None
            survivors = {_place(r) for r in last["results"] if r["status"] not in DEAD}
            self.results = [r for r in last["results"] if r["status"] in DEAD]
            yield from [m for m in every if m.place in survivors]
            return
        print(f"{len(every)} mutants can be made of {len(files)} files", flush=True)
        every = [m for m in every if self.options.only in m.path]
        order = random.Random(self.options.seed).sample(every, len(every))
        out = Path(self.options.out)
        last = json.loads(out.read_text("utf-8")) if out.exists() else {}
        if [last.get(n) for n in ("sources", "seed", "only")] == [
            self.digest,
            self.options.seed,
            self.options.only,
        ]:
            self.results = last["results"]
        known = {_place(r) for r in self.results}
        yield from (
            [m for m in order if m.place not in known]
            if (len(self.results) < self.options.count)
            else []
        )

    def _trace(self) -> None:
        """Find out which test runs which line, and how long it takes."""
        known = _read_traced()
        new = [item for item in self.items if item.nodeid not in known]
        if new:
            _trace_all(new)
            known = _read_traced()
        for number, item in enumerate(self.items):
            seconds, passed, places = known.get(item.nodeid, (0.0, False, {}))
            self.seconds.append(seconds)
            if not passed or seconds > self.options.longest:
                why = "takes too long" if seconds > self.options.longest else "fails by itself"
                print(f"left out, it {why}: {item.nodeid}")
                continue
            for path, (_, lines) in places.items():
                for line in lines:
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
        chosen, left = [], self.options.seconds
        for file in sorted(by_file, key=lambda file: self._rank(file, by_file[file], mutant)):
            for number in by_file[file]:
                if self.seconds[number] <= left:
                    left -= self.seconds[number]
                    chosen.append(number)
        return chosen

    def _rank(self, file: str, numbers: list[int], mutant: Mutant) -> tuple[bool, bool, float]:
        """Tests named after the module come first, then those of its folder, then quick ones."""
        module, test = Path(mutant.path), Path(file)
        named = module.stem in test.stem or module.name == test.name
        near = test.parent.name == module.parent.name
        return not (named and near), not near, min(self.seconds[k] for k in numbers)

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
        limit = time.time() + 300 + 60 * sum(self.seconds[k] for k in numbers)  # it waits for ever
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


def _place(result: dict[str, Any]) -> tuple[str, int, int, str]:
    return result["path"], result["line"], result["column"], result["change"]


def _files() -> list[Path]:
    return sorted(
        f for t in TARGETS for f in ((PACKAGE / t).rglob("*.py") if "." not in t else [PACKAGE / t])
    )


# --- which test runs which line -------------------------------------------------------------------

SEEN = "_marks_of_mutants_"
"""A name that every module sees: an array with a place for each mark."""


class _Marks(ast.NodeTransformer):
    """Puts a mark before every statement of every function of the core, numbered throughout."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int, int]] = []  # file, first and last line of each mark
        self.path, self.code, self.digests = "", dict[str, CodeType](), dict[str, str]()
        for file in _files():
            self.path = str(file.relative_to(SOURCE))
            self.digests[self.path] = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            tree = self.visit(ast.parse(file.read_bytes()))
            self.code[str(file)] = compile(tree, str(file), "exec", dont_inherit=True)
        self.seen = bytearray(len(self.spans))
        setattr(builtins, SEEN, self.seen)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = self._marked(node.body)
        return node

    def _marked(self, body: Sequence[ast.stmt]) -> list[Any]:
        found: list[ast.stmt] = []
        for statement in body:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                mark = ast.parse(f"{SEEN}[{len(self.spans)}] = 1").body[0]
                for part in ast.walk(mark):
                    ast.copy_location(part, statement)
                self.spans.append((self.path, statement.lineno, _last_line(statement)))
                found.append(mark)
            for name in ("body", "orelse", "finalbody"):
                if inner := getattr(statement, name, None):
                    setattr(statement, name, self._marked(inner))
            for branch in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
                branch.body = self._marked(branch.body)
            found.append(statement)
        return found


class _Loader(SourceFileLoader):
    """Loads a module of the core with marks."""

    def get_code(self, fullname: str) -> CodeType:
        return MARKS.code[self.get_filename(fullname)]


class _Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        packages = [
            "simi_mailbox." + name.removesuffix(".py").replace("/", ".") for name in TARGETS
        ]
        if not any(f"{fullname}.".startswith(f"{name}.") for name in packages):
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


MARKS: _Marks


def _trace_all(items: list[Any]) -> None:
    """In a fork, so that what tests leave behind is not inherited; line by line into a file."""
    child = os.fork()
    if child == 0:
        with TRACED.open("a", encoding="utf-8") as file:
            for item, following in zip(items, [*items[1:], None], strict=True):
                MARKS.seen[:] = bytes(len(MARKS.seen))
                seconds, passed = _timed(item, following)
                places: dict[str, tuple[str, set[int]]] = {}
                for mark, (path, first, last) in zip(MARKS.seen, MARKS.spans, strict=True):
                    if mark:
                        lines = places.setdefault(path, (MARKS.digests[path], set()))[1]
                        lines.update(range(first, last + 1))
                found = {path: (digest, sorted(lines)) for path, (digest, lines) in places.items()}
                file.write(json.dumps([item.nodeid, round(seconds, 3), passed, found]) + "\n")
                file.flush()
        os._exit(0)
    os.waitpid(child, 0)


def _read_traced() -> dict[str, Any]:
    """Of every test: seconds, whether it passed, and its lines, while no file of these changed."""
    lines = TRACED.read_text("utf-8").splitlines() if TRACED.exists() else []
    found = {name: rest for name, *rest in map(json.loads, lines)}
    return {
        name: (seconds, passed, places)
        for name, (seconds, passed, places) in found.items()
        if all(MARKS.digests.get(path) == digest for path, (digest, _) in places.items())
    }


def _timed(item: Any, following: Any) -> tuple[float, bool]:
    def too_long(*_: Any) -> None:
        raise TimeoutError

    started, passed = time.process_time(), False
    signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, 8.0)
    try:
        reports = runtestprotocol(item, log=False, nextitem=following)
        passed = not any(report.failed for report in reports)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - started, passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--again", default="", help="survivors of an earlier report")
    parser.add_argument("--out", default="mutants.json")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests of one mutant")
    parser.add_argument("--longest", type=float, default=LONGEST, help="of one test")
    parser.add_argument("tests", nargs="*", help="tests instead of the usual ones")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["CI"] = "1"  # the same examples for every mutant
    global MARKS
    MARKS = _Marks()
    sys.meta_path.insert(0, _Finder)
    sys.path[:0] = [str(SOURCE), str(ROOT), str(ROOT / "bench" / "src")]
    chosen = [*(options.tests or TESTS), "--doctest-modules"]
    chosen += [f"src/simi_mailbox/{target}" for target in TARGETS]
    arguments = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"]
    arguments += ["-W", "ignore", "-s"]
    arguments += ["-k", "not cluster and not dask and not without_torch and not without_loading"]
    sys.exit(pytest.main([*arguments, *chosen], plugins=[Session(options)]))


if __name__ == "__main__":
    main()
