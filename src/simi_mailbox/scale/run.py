"""From a folder of shards to a folder of calibrated shards, and whether these are calibrated."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from simi_mailbox._arrays import Array, Bools, Ints
from simi_mailbox.calibrators import SimiMailbox, load
from simi_mailbox.exceptions import CalibrationWarning, FileFormatError
from simi_mailbox.files import StrPath
from simi_mailbox.graph import Graph
from simi_mailbox.grouping import added, stacked
from simi_mailbox.metrics import StreamingMetrics
from simi_mailbox.parameters import check_parameters
from simi_mailbox.scale import default, inputs, store, tiles
from simi_mailbox.scale.default import View
from simi_mailbox.scale.engines import Dask, Engine, Progress, quiet
from simi_mailbox.scale.inputs import Folder
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Output, Store, Written, alone_in
from simi_mailbox.scale.tiles import PROCESS, Plan, read_size
from simi_mailbox.softmax import LogitRange, row_blocks, scaled_softmax
from simi_mailbox.validation import (
    PER_CLASS,
    InputType,
    Labelled,
    NodeInputs,
    looks_trained_on,
    refuse_shared,
)

EngineName = Literal["auto", "memory", "disk", "dask"]
SAMPLE = 20_000  # nodes that the calibration nodes are compared with
TOGETHER = 1 << 23  # numbers that are judged together


@dataclass(frozen=True)
class Calibrated:
    """What `calibrate` and `apply` did: the folder of results, the fitted calibrator, and facts
    (engine, nodes, entries of the graph, classes, blocks, seconds)."""

    out: Path
    calibrator: SimiMailbox
    facts: dict[str, Any]


@dataclass(frozen=True)
class FolderMetrics:
    """What `evaluate` has seen; ``left_out`` counts labelled nodes that something was fitted on."""

    metrics: StreamingMetrics
    left_out: int


def calibrate(
    folder: StrPath,
    out: StrPath,
    *,
    engine: EngineName = "auto",
    memory: str | int = "2GB",
    scheduler: str | None = None,
    calibrator: SimiMailbox | None = None,
    input_type: InputType = "logits",
    used_for_selection: bool = True,
    work: StrPath | None = None,
    progress: Progress | None = None,
) -> Calibrated:
    """Calibrate a graph of any size, from shards to shards, with the results of `SimiMailbox.fit`.

    If it is stopped, also by kill -9, and called again, it goes on where it was.

    Parameters
    ----------
    folder : path
        Holds ``logits/`` and ``edges/`` (shards, ``.npy`` or Parquet), ``labels.*``,
        ``calibration.*`` (nodes, or a boolean for each) and perhaps ``train.*``, ``hidden/`` and
        ``node_ids.*``, by which `apply` finds the labels of these nodes again.
    out : path
        Folder for the results.
    engine : {"auto", "memory", "disk", "dask"}
        By default Dask if there is a scheduler, else memory if everything fits into it, else disk.
    memory : str or int
        Most memory of a process, such as ``"2GB"``: of this one, or of each Dask worker.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers see both folders under the same names.
    calibrator : SimiMailbox, optional
        Its parameters are used, and it stays as it is: ``SimiMailbox(keep_classes=False)``.
    input_type : {"logits", "log-probabilities", "probabilities"}
        What the shards hold.
    used_for_selection : bool
        Whether the calibration nodes had a part in choosing the model, as of `SimiMailbox.fit`.
    work : path, optional
        Folder for blocks and tiles; kept, and used again for the same shards. By default it is in
        ``out`` and removed in the end.
    progress : callable, optional
        Called with the name of a pass, blocks done, and blocks in all.

    Examples
    --------
    >>> import os, tempfile
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(300, 3, seed=0)
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for part in ("logits", "edges"):
    ...         os.mkdir(f"{name}/{part}")
    ...     np.save(f"{name}/logits/0.npy", problem.logits)
    ...     np.save(f"{name}/edges/0.npy", problem.graph.edge_index().numpy())
    ...     np.save(f"{name}/labels.npy", problem.y)
    ...     np.save(f"{name}/calibration.npy", np.arange(100))
    ...     calibrate(name, f"{name}/out").facts["engine"]
    'memory'
    """
    source, chosen = Folder.open(Path(folder)), _unfitted(calibrator)
    nodes, y, train = _labelled(source)
    ids = source.node_ids()
    job = _Job(source, Path(out), engine, memory, scheduler, input_type, work, progress)
    job.facts["calibration_nodes"] = len(nodes)
    with alone_in(job.output.folder):
        job.output.check()
        if job.engine == "memory":
            logits, known = job.read()
            known |= {"train_mask": train, "node_ids": ids}
            about: dict[str, Any] = {"mask": nodes, "input_type": input_type}
            chosen.fit(logits, y, used_for_selection=used_for_selection, **about, **known)
            return job.write(chosen, chosen.predict_proba(logits, **known), chosen.groups_)
        with job.blocks() as (runner, plan):
            limits = inputs.find_limits(runner, plan, np.unique(y))
            if train is None:
                _suspect(runner, plan, limits, nodes, y)
            given = (runner, plan, limits, (nodes, y), source.hidden, chosen)
            view = default.fit(*given, used_for_selection=used_for_selection)
            chosen.input_type_ = input_type
            if ids is not None:
                chosen._name_labels(ids[nodes])
            return job.write_blocks(runner, view, chosen)


def apply(
    calibrator: StrPath | SimiMailbox,
    folder: StrPath,
    out: StrPath,
    *,
    engine: EngineName = "auto",
    memory: str | int = "2GB",
    scheduler: str | None = None,
    known: tuple[Any, Any] | StrPath | None = None,
    input_type: InputType | None = None,
    work: StrPath | None = None,
    progress: Progress | None = None,
) -> Calibrated:
    """Calibrate the shards of a folder with a calibrator that was fitted before.

    ``folder`` needs ``logits/`` and ``edges/``, which need not be those that the calibrator was
    fitted on, and ``hidden/`` if it was fitted with such. ``known``, a pair (nodes, labels) or a
    file of both, or else ``known.*`` in the folder, names labels that are known by now, as for
    ``SimiMailbox.predict_proba``; those of ``train.*`` are left out. Everything else is as for
    `calibrate`; ``input_type`` is by default what it was at the fit.

    Examples
    --------
    >>> import os, tempfile
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(300, 3, seed=0)
    >>> graph = problem.graph.edge_index()
    >>> cal = SimiMailbox().fit(problem.logits, problem.y, graph=graph, mask=np.arange(100))
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for part, array in {"logits": problem.logits, "edges": graph}.items():
    ...         os.mkdir(f"{name}/{part}")
    ...         np.save(f"{name}/{part}/0.npy", array)
    ...     apply(cal, name, f"{name}/out").facts["nodes"]
    300
    """
    source = Folder.open(Path(folder))
    fitted = calibrator if isinstance(calibrator, SimiMailbox) else load(calibrator)
    if not isinstance(fitted, SimiMailbox):
        raise ValueError(f"{calibrator} is a {fitted.name}; shards are calibrated by simi-mailbox")
    if hasattr(fitted, "offset_"):
        raise ValueError(
            f"{calibrator} was fitted with prior_shift=, which shards do not take: add "
            "log(deployed / trained) to their logits, and fit on these"
        )
    source = _matching(fitted, source)
    if known is None or isinstance(known, str | os.PathLike):
        known = source.known(None if known is None else Path(known))
    train, ids = source.nodes("train"), source.node_ids()
    kind = fitted.input_type_ if input_type is None else input_type
    job = _Job(source, Path(out), engine, memory, scheduler, kind, work, progress)
    if known is not None:
        job.facts["known_labels"] = len(known[0])
    with alone_in(job.output.folder):
        job.output.check()
        if job.engine == "memory":
            logits, given = job.read()
            given |= {"known": known, "train_mask": train, "node_ids": ids}
            probs = fitted.predict_proba(logits, **given, input_type=kind)
            data = fitted._read_fitted(logits, graph=given["graph"], input_type=kind)
            return job.write(fitted, probs, fitted._groups(data))
        count = source.logits.rows
        nodes = NodeInputs(
            torch.empty(1, len(fitted.classes_)).expand(count, -1),
            known=None if known is None else fitted._read_known(known, count),
            training=None if train is None else torch.from_numpy(train),
            node_ids=ids,
        )
        with job.blocks() as (runner, plan):
            view = default.look_again(runner, plan, fitted, nodes, source.hidden)
            return job.write_blocks(runner, view, fitted)


def evaluate(
    folder: StrPath,
    *,
    labels: StrPath | None = None,
    test: StrPath | None = None,
    calibration: StrPath | None = None,
    train: StrPath | None = None,
    input_type: InputType = "probabilities",
    bins: int = 15,
    progress: Progress | None = None,
) -> FolderMetrics:
    """Judge the shards of a folder by labels, in one look and bounded memory.

    Judged are the nodes of ``test``, or all that have a label; those of ``calibration`` and
    ``train`` are left out, because whatever was fitted on them looks better than it is.

    Parameters
    ----------
    folder : path
        What `calibrate` or `apply` have written; or any folder of ``probabilities/``, or of
        ``logits/``, with the files of labels and nodes beside.
    labels, test, calibration, train : path, optional
        Files of labels and nodes. By default those of the folder, or else of the folder that it
        was calibrated from.
    input_type, progress
        As of `calibrate`.
    bins : int
        Bins of the calibration errors.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     Path(name, "probabilities").mkdir()
    ...     np.save(f"{name}/probabilities/0.npy", np.tile([0.8, 0.2], (10, 1)))
    ...     np.save(f"{name}/labels.npy", np.repeat([0, 1, -1], [6, 3, 1]))
    ...     round(evaluate(name).metrics.evaluate()["ece"], 3)
    0.133
    """
    place, say = Path(folder), progress or quiet
    shards, folders = _open(place)
    given = {"labels": labels, "test": test, "calibration": calibration, "train": train}
    files: dict[str, Path | None] = {}
    for part, path in given.items():
        found = (inputs.file_of(folder, part) for folder in folders)
        files[part] = Path(path) if path is not None else next(filter(None, found), None)
    if files["labels"] is None:
        raise FileNotFoundError(f"there is no file {folders[-1] / 'labels.*'}")
    y_of = inputs.Labels.open(files["labels"], shards.rows, shards.columns).of
    wanted, fitted_on = _masks(files, shards.rows)
    metrics, left_out = StreamingMetrics.empty(shards.columns, bins), 0
    runs = list(row_blocks(shards.rows, shards.columns, TOGETHER))
    for done, rows in enumerate(runs):
        say("judging", done, len(runs))
        y = y_of(np.arange(rows.start, rows.stop), unknown=True)
        known = (y >= 0) & wanted[rows]
        judged = known & ~fitted_on[rows]
        left_out += int(known.sum() - judged.sum())
        if judged.any():
            raw = shards.read(rows.start, rows.stop)
            if input_type == "probabilities":
                inputs.check_numbers(raw, input_type, shards, rows.start)
                probs = raw.astype(np.promote_types(raw.dtype, np.float32), copy=False)
            else:
                z = inputs.as_logits(shards, rows.start, raw, input_type)
                probs = scaled_softmax(z).numpy()
            metrics = metrics.update(probs[judged], y[judged])
    say("judging", len(runs), len(runs))
    if not metrics.num_nodes:
        raise ValueError("no labelled node is left to judge on: name other nodes as test")
    return FolderMetrics(metrics, left_out)


def _unfitted(calibrator: SimiMailbox | None) -> SimiMailbox:
    """A calibrator of one's own, with the parameters of another."""
    if calibrator is None:
        return SimiMailbox()
    if not isinstance(calibrator, SimiMailbox):
        raise TypeError(f"shards are calibrated by a SimiMailbox, not by {calibrator!r}")
    check_parameters(calibrator)
    return type(calibrator)(**calibrator.get_params())


def _matching(fitted: SimiMailbox, source: Folder) -> Folder:
    """A folder with what the calibrator was fitted on, and no hidden layer that it does not use."""
    fitted._check_fitted()
    kept, hidden = getattr(fitted, "hidden_", None), source.hidden
    if kept is None and hidden is not None:
        text = f"{source.path / 'hidden'} is not used: the calibrator was fitted without it"
        warnings.warn(text, CalibrationWarning, stacklevel=3)
        source, hidden = replace(source, hidden=None), None
    found = source.logits.columns, 0 if hidden is None else hidden.columns
    needed = fitted.num_classes_, 0 if kept is None else kept["means"].shape[1]
    if found != needed:
        raise ValueError(
            f"{source.path}: it has {found[0]} classes and {found[1]} columns of hidden/, but the "
            f"calibrator was fitted on {needed[0]} and {needed[1]}"
        )
    return source


@dataclass
class _Job:
    """Where from, where to, and by whom."""

    source: Folder
    out: Path
    engine: EngineName
    memory: str | int
    scheduler: str | None
    kind: InputType
    work: StrPath | None = None
    progress: Progress | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        for what, value, allowed in (
            ("engine", self.engine, get_args(EngineName)),
            ("input_type", self.kind, PER_CLASS),
        ):
            if value not in allowed:
                raise ValueError(f"{what} must be one of {', '.join(allowed)}, got {value!r}")
        self.space, self.say = read_size(self.memory), self.progress or quiet
        if self.engine == "auto":
            fits = PROCESS + in_memory(self.source) <= self.space
            self.engine = "dask" if self.scheduler else "memory" if fits else "disk"
        if (self.engine == "dask") != (self.scheduler is not None):
            raise ValueError(
                "engine='dask' needs scheduler='tcp://…', the address that `dask scheduler` "
                f"prints, and no other does; got {self.engine!r} with {self.scheduler!r}"
            )
        if self.out.exists() and self.out.samefile(self.source.path):
            raise ValueError(f"{self.out} is the folder of the shards itself: name another")
        self.output = Output(self.out.resolve(), self.source.logits.shards[0].path.suffix)

    def plan(self, **cluster: int) -> Plan:
        """Blocks that fit; ``cluster`` tells tasks and slots of Dask."""
        logits = self.source.logits
        item = max(4, np.dtype(logits.shards[0].dtype).itemsize)
        return Plan.of(logits.rows, logits.columns, self.space, item=item, **cluster)

    def read(self) -> tuple[Array, dict[str, Any]]:
        """All of a folder: logits, and what else `SimiMailbox.fit` takes."""
        source, rows = self.source, self.source.logits.rows
        self.say("reading", 0, 1)
        logits = source.logits.read(0, rows)
        inputs.check_numbers(logits, self.kind, source.logits, 0)
        parts = []
        for shard, start, stop in source.edges.chunks(rows=1 << 22):
            edges = shard.read(start, stop)
            tiles.check_ids(edges, rows, shard, start)
            parts.append(edges.astype(np.int64))
        graph = Graph.from_edges(np.concatenate(parts).T, rows)
        hidden = None if source.hidden is None else default.hidden_rows(source.hidden, 0, rows)
        self.say("reading", 1, 1)
        self.facts["entries"] = graph.num_entries
        return logits, {"graph": graph, "hidden": hidden}

    @contextmanager
    def blocks(self) -> Iterator[tuple[Engine, Plan]]:
        """An engine whose store holds blocks of logits and tiles of the graph."""
        shards = [shard.identity() for shard in self.source.shards]
        with nullcontext() if self.work is None else alone_in(Path(self.work)):
            holder = Path(self.work or self.output.folder).resolve()
            given = (Store(holder / store.WORK), self.say)
            engine = Engine(*given) if self.scheduler is None else Dask(*given, self.scheduler)
            with closing(engine) as runner:
                plan = self.plan(**runner.cluster)
                facts = {"plan": vars(plan), "input_type": self.kind, "shards": shards}
                place = store.work_in(holder, facts)
                runner.journal.resume(place / store.JOURNAL)
                self.output.prepare()
                of = (plan.blocks, plan, self.source.logits, self.kind)
                runner.write("reading logits", inputs.read_block, *of)
                tiles.cut(runner, plan, self.source.edges)
                yield runner, plan
            if self.work is None:
                store.clear(place)

    def write(self, calibrator: SimiMailbox, probs: Array, groups: Ints) -> Calibrated:
        self.output.prepare()
        plan, files = self.plan(), list[Written]()
        for block in plan.blocks:
            rows = slice(*plan.span(block))
            files += self.output.block(block, probs[rows], groups[rows])
        return self._finish(files, calibrator)

    def write_blocks(self, runner: Engine, view: View, calibrator: SimiMailbox) -> Calibrated:
        files = default.write(runner, view, calibrator, self.output)
        self.facts["entries"] = runner.total("degrees", default.entries_of, added, view.plan.blocks)
        return self._finish(files, calibrator)

    def _finish(self, files: list[Written], calibrator: SimiMailbox) -> Calibrated:
        out, logits = self.output, self.source.logits
        for shard in self.source.shards:
            shard.check_unchanged()
        calibrator.save(out.folder / store.CALIBRATOR)
        facts = {
            "method": calibrator.name,
            "engine": self.engine,
            "nodes": logits.rows,
            "classes": logits.columns,
            **self.facts,
            "blocks": len(files) // 2,
            "seconds": round(time.perf_counter() - self.began, 3),
        }
        out.finish(files, {"folder": str(self.source.path.resolve()), **facts})
        return Calibrated(out.folder, calibrator, facts)


def in_memory(source: Folder) -> int:
    """Bytes that `SimiMailbox` takes at most, with all that is read."""
    n, width = source.logits.rows, 0 if source.hidden is None else source.hidden.columns
    return 14 * 4 * n * source.logits.columns + 24 * n * width + 64 * source.edges.rows


def _labelled(source: Folder) -> tuple[Ints, Ints, Ints | None]:
    """Calibration nodes, sorted, their labels, and training nodes, if they are named."""
    nodes, train = source.nodes("calibration"), source.nodes("train")
    if nodes is None:
        raise FileNotFoundError(
            f"there is no file {source.path / 'calibration.*'}: the nodes to calibrate with"
        )
    nodes = np.sort(nodes)
    if train is not None:
        why = "the model looks better than it is on nodes it was trained on"
        refuse_shared(nodes, train, ("calibration", "train"), why)
    return nodes, source.labels(nodes), train


def _suspect(engine: Engine, plan: Plan, limits: LogitRange, nodes: Ints, y: Ints) -> None:
    """Warn of calibration nodes that look trained on, by a sample of the others."""
    others = np.setdiff1d(np.arange(0, plan.nodes, max(1, plan.nodes // SAMPLE)), nodes)
    both = np.sort(np.concatenate([nodes, others]))
    given = (plan.blocks, plan, "logits", both)
    z = engine.total("looking at logits", inputs.gather, stacked, *given)
    index = torch.from_numpy(np.searchsorted(both, nodes))
    here = Labelled(index, limits.number(torch.from_numpy(y)))
    suspicion = looks_trained_on(limits.cut(torch.from_numpy(z)), here)
    if suspicion:
        warnings.warn(suspicion.replace("train_mask", "train.*"), CalibrationWarning, stacklevel=3)


def _open(place: Path) -> tuple[Shards, list[Path]]:
    """The shards of a folder, and where files of labels may be: there, or in that of its logits."""
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}")
    if not (place / "probabilities").is_dir():
        return Shards.open(place / "logits"), [place]
    shards, manifest = Shards.open(place / "probabilities"), place / store.MANIFEST
    if not manifest.exists():
        if (place / "groups").is_dir():
            raise FileNotFoundError(
                f"{place} is not finished, it has no {manifest.name}: run the command again that "
                "made it"
            )
        return shards, [place]
    try:
        source = json.loads(manifest.read_text("utf-8")).get("folder")
    except (ValueError, AttributeError) as error:
        raise FileFormatError(f"{manifest}: it is damaged: {error}") from error
    return shards, [place] if source is None else [place, Path(source)]


def _masks(files: dict[str, Path | None], count: int) -> tuple[Bools, Bools]:
    """Nodes that are to be judged if they have a label, and those that must not be."""
    parts = {
        part: inputs.nodes_in(path, count, part)
        for part, path in files.items()
        if part != "labels" and path is not None
    }
    wanted, fitted_on = np.full(count, "test" not in parts), np.zeros(count, dtype=bool)
    test = parts.pop("test", np.empty(0, dtype=np.int64))
    wanted[test] = True
    for part, nodes in parts.items():
        names = f"{files[part]}", f"{files['test']}"
        refuse_shared(nodes, test, names, "take them out of one of the two")
        fitted_on[nodes] = True
    return wanted, fitted_on
