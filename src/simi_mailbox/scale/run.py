"""From a folder of shards to a folder of calibrated shards."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from simi_mailbox._arrays import Ints
from simi_mailbox.calibrators import SimiMailbox, load
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.files import StrPath
from simi_mailbox.parameters import check_parameters
from simi_mailbox.scale import default, tiles
from simi_mailbox.scale.engines import Dask, Engine, Here, Progress, quiet
from simi_mailbox.scale.evidence import View
from simi_mailbox.scale.inputs import Folder, gather, read_block
from simi_mailbox.scale.limits import Facts, added, find_limits, stacked
from simi_mailbox.scale.outputs import CALIBRATOR, Output
from simi_mailbox.scale.plan import PROCESS, Plan, read_size
from simi_mailbox.scale.store import DiskStore, MemoryStore
from simi_mailbox.scale.workspace import JOURNAL, alone_in, claim, clear
from simi_mailbox.validation import InputType, Labelled, NodeInputs, looks_trained_on, refuse_shared

EngineName = Literal["auto", "memory", "disk", "dask"]
WORK = ".work"
"""Folder of blocks and tiles, in that of the results."""
SAMPLE = 20_000


@dataclass(frozen=True)
class Calibrated:
    """What was done, and how much it took.

    Attributes
    ----------
    out : Path
        Folder of ``probabilities/``, ``groups/``, ``calibrator.safetensors``, ``manifest.json``.
    calibrator : SimiMailbox
    facts : dict
        Engine, nodes, entries of the graph, classes, blocks, seconds, bytes read and written.

    Examples
    --------
    `calibrate` and `apply` return it; ``calibrator`` predicts in memory, too.

    >>> done = Calibrated(Path("out"), SimiMailbox(), {"engine": "disk", "nodes": 300})
    >>> done.facts["engine"]
    'disk'
    """

    out: Path
    calibrator: SimiMailbox
    facts: dict[str, Any]


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
    """Calibrate a graph of any size, from shards to shards.

    The method is `SimiMailbox`, its temperatures are those it finds in memory. If it is stopped,
    however rudely, and called again, it goes on where it was.

    Parameters
    ----------
    folder : path
        Holds ``logits/`` (shards of rows, ``.npy`` or Parquet), ``edges/`` (shards of pairs of
        nodes in any order, one way or both), ``labels.*`` (one per node, or rows of node and
        label), ``calibration.*`` (nodes, or a boolean for each) and perhaps ``train.*`` (nodes
        that the GNN was trained on) and ``hidden/`` (shards of what enters its last layer).
    out : path
        Folder for the results.
    engine : {"auto", "memory", "disk", "dask"}
        Who does the work. By default Dask if there is a scheduler, else memory if everything fits
        into it, else disk.
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
        Folder for blocks and tiles, on a fast disk; kept, and used again for the same shards. By
        default it is in ``out`` and removed in the end.
    progress : callable, optional
        Called with the name of a pass, blocks done, and blocks in all.

    Returns
    -------
    Calibrated

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
    ...     done = calibrate(name, f"{name}/out")
    ...     np.load(f"{name}/out/probabilities/00000.npy").shape
    (300, 3)
    >>> done.facts["engine"]
    'memory'
    """
    source, chosen = Folder.open(Path(folder)), _unfitted(calibrator)
    (nodes, y), trained = _labelled(source)
    with _working(source, Path(out), engine, memory, scheduler, input_type, work, progress) as job:
        named = y if trained is None else np.concatenate([y, trained[1]])
        facts = find_limits(job.engine, job.plan, np.unique(named))
        if trained is None:
            _suspect(job, facts, nodes, y)
        given = (facts, (nodes, y), trained, source.hidden, chosen)
        view = default.fit(job.engine, job.plan, *given, used_for_selection=used_for_selection)
        chosen.input_type_ = input_type
        return job.finish(view, chosen, source, {"calibration_nodes": len(nodes)})


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
    file of both, or else ``known.*`` in the folder, names labels that are known by now: evidence on
    other nodes, as for ``SimiMailbox.predict_proba``; those of nodes in ``train.*`` are taken as
    ones that the GNN was trained on. Everything else is as for `calibrate`; ``input_type`` is what
    it was at the fit.

    Examples
    --------
    >>> import os, tempfile
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(300, 3, seed=0)
    >>> cal = SimiMailbox().fit(problem.logits, problem.y, graph=problem.graph, mask=range(100))
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for part in ("logits", "edges"):
    ...         os.mkdir(f"{name}/{part}")
    ...     np.save(f"{name}/logits/0.npy", problem.logits)
    ...     np.save(f"{name}/edges/0.npy", problem.graph.edge_index().numpy())
    ...     done = apply(cal, name, f"{name}/out")
    ...     probs = np.load(f"{name}/out/probabilities/00000.npy")
    >>> bool(np.allclose(probs, cal.predict_proba(problem.logits, graph=problem.graph), atol=1e-6))
    True
    """
    source = Folder.open(Path(folder))
    fitted = calibrator if isinstance(calibrator, SimiMailbox) else load(calibrator)
    if not isinstance(fitted, SimiMailbox):
        raise ValueError(f"{calibrator} is a {fitted.name}; shards are calibrated by simi-mailbox")
    _check_fits(fitted, source)
    named, more = _named(fitted, source, known), {}
    if named.known is not None:
        more["known_labels"] = len(named.known)
    kind = fitted.input_type_ if input_type is None else input_type
    with _working(source, Path(out), engine, memory, scheduler, kind, work, progress) as job:
        view = default.look_again(job.engine, job.plan, fitted, named, source.hidden)
        return job.finish(view, fitted, source, more)


def _unfitted(calibrator: SimiMailbox | None) -> SimiMailbox:
    """A calibrator of one's own, with the parameters of another."""
    if calibrator is None:
        return SimiMailbox()
    if not isinstance(calibrator, SimiMailbox):
        raise TypeError(f"shards are calibrated by a SimiMailbox, not by {calibrator!r}")
    check_parameters(calibrator)
    return type(calibrator)(**calibrator.get_params())


def _check_fits(fitted: SimiMailbox, source: Folder) -> None:
    """Raise unless a folder holds what a fitted calibrator needs."""
    fitted._check_fitted()
    if source.logits.columns != fitted.num_classes_:
        raise ValueError(
            f"the logits have {source.logits.columns} classes, but the calibrator was fitted on "
            f"{fitted.num_classes_}"
        )
    place, width = source.path / "hidden", fitted.evidence_["width"]
    if source.hidden is None:
        if width:
            raise FileNotFoundError(
                f"there is no folder {place}, but the calibrator was fitted with a hidden layer"
            )
    elif not width:
        text = f"{place} is not used: the calibrator was fitted without a hidden layer"
        warnings.warn(text, CalibrationWarning, stacklevel=3)
    elif source.hidden.columns != width:
        raise ValueError(
            f"{place} has {source.hidden.columns} columns, but the calibrator was fitted on {width}"
        )


def _named(fitted: SimiMailbox, source: Folder, known: Any) -> NodeInputs:
    """Labels that are known by now, and the training nodes, which only matter beside them."""
    nobody = NodeInputs(torch.empty(0, len(fitted._logit_range.classes)))
    given = known
    if known is None or isinstance(known, str | os.PathLike):
        given = source.known(None if known is None else Path(known))
    if given is None:
        return nobody
    train = source.nodes("train")
    return replace(
        nobody,
        known=fitted._read_known(given, source.logits.rows),
        training=None if train is None else torch.from_numpy(train),
    )


# --- what both share ------------------------------------------------------------------------------


@dataclass
class _Job:
    """An engine whose store holds blocks of logits and tiles of the graph."""

    engine: Engine
    plan: Plan
    output: Output
    began: float
    moved: tuple[int, int]

    def finish(
        self, view: View, calibrator: SimiMailbox, source: Folder, more: dict[str, Any]
    ) -> Calibrated:
        blocks, out = self.plan.blocks, self.output
        factors = calibrator.temperatures_ / calibrator.baseline_["temperature"]
        blind = calibrator.uniform_weight
        given = (view, factors, blind, calibrator.keep_classes, out)
        files = self.engine.write("writing", default.probability_block, blocks, *given)
        source.check_unchanged()
        calibrator.save(out.folder / CALIBRATOR)
        entries = int(self.engine.total("degrees", default.entries_of, added, blocks))
        read, written = (now - then for now, then in zip(_moved(), self.moved, strict=True))
        facts = {
            "method": calibrator.name,
            "engine": self.engine.name,
            "nodes": self.plan.nodes,
            "classes": self.plan.classes,
            "entries": entries,
            **more,
            "blocks": len(blocks),
            "seconds": round(time.perf_counter() - self.began, 3),
            "bytes_read": read,
            "bytes_written": written,
        }
        out.finish(files, {"folder": str(source.path.resolve()), **facts})
        return Calibrated(out.folder, calibrator, facts)


@contextmanager
def _working(
    source: Folder,
    out: Path,
    engine: EngineName,
    memory: str | int,
    scheduler: str | None,
    kind: InputType,
    work: StrPath | None,
    progress: Progress | None,
) -> Iterator[_Job]:
    """Blocks and tiles of the shards, and the engine that made them."""
    if engine not in get_args(EngineName):
        raise ValueError(f"engine must be one of {', '.join(get_args(EngineName))}, got {engine!r}")
    if kind not in get_args(InputType):
        raise ValueError(
            f"input_type must be one of {', '.join(get_args(InputType))}, got {kind!r}"
        )
    began, moved, room = time.perf_counter(), _moved(), read_size(memory)
    if engine == "auto":
        fits = PROCESS + _in_memory(source) <= room
        engine = "dask" if scheduler else "memory" if fits else "disk"
    if (engine == "dask") != (scheduler is not None):
        raise ValueError(
            "engine='dask' needs scheduler='tcp://…', the address that `dask scheduler` prints"
            if engine == "dask"
            else f"a scheduler is for engine='dask', not {engine!r}"
        )
    if out.exists() and out.samefile(source.path):
        raise ValueError(f"{out} is the folder of the shards itself: name another for the results")
    results = out if scheduler is None else out.resolve()  # which workers must find
    output = Output(results, source.logits.shards[0].path.suffix)
    nodes, classes = source.logits.rows, source.logits.columns
    item = max(4, np.dtype(source.logits.shards[0].dtype).itemsize)
    place = (Path(work) if work is not None else out / WORK).resolve()
    runner: Here | Dask
    with ExitStack() as held:
        held.enter_context(alone_in(out))
        output.check()
        if engine == "memory":
            runner = Here(MemoryStore(), progress=progress or quiet)
            plan = Plan.of(nodes, classes, room, item=item)
        else:
            if work is None:
                held.callback(_remove_if_empty, out / WORK)
            held.enter_context(alone_in(place))
            tasks, slots = 1, 1
            if scheduler is not None:
                store = DiskStore(place)
                runner = Dask(store, place / JOURNAL, scheduler, progress or quiet)
                tasks, slots = runner.tasks, runner.slots
            plan = Plan.of(nodes, classes, room, item=item, tasks=tasks, slots=slots)
            facts = {"plan": vars(plan), "input_type": kind, "shards": source.identity()}
            emptied = claim(place, facts, ours=work is None)
            if scheduler is None:
                runner = Here(DiskStore(place), place / JOURNAL, progress or quiet)
            elif emptied:
                runner.journal.done.clear()
        output.prepare()
        try:
            _cut(runner, plan, source, kind)
            yield _Job(runner, plan, output, began, moved)
        finally:
            runner.close()
        if engine != "memory" and work is None:
            clear(place)


def _remove_if_empty(place: Path) -> None:
    """Remove the work folder of a finished run; a link to one elsewhere stays."""
    if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
        place.rmdir()


def _cut(engine: Engine, plan: Plan, source: Folder, kind: InputType) -> None:
    engine.write("reading logits", read_block, plan.blocks, plan, source.logits, kind)
    pieces = source.edges.chunks(plan.chunk)
    runs = range(len(pieces))
    engine.write("sorting edges", tiles.sort_chunk, runs, plan, pieces)
    engine.write("cutting tiles", tiles.merge_row, plan.blocks, plan, len(pieces))


def _in_memory(source: Folder) -> int:
    """Bytes that blocks, tiles and what makes them take at most."""
    logits = source.logits.rows * source.logits.columns * 4
    return 8 * logits + 64 * source.edges.rows


def _labelled(source: Folder) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints] | None]:
    nodes = source.nodes("calibration")
    if nodes is None:
        raise FileNotFoundError(
            f"there is no file {source.path / 'calibration.*'}: the nodes to calibrate with"
        )
    nodes = np.sort(nodes)
    train = source.nodes("train")
    if train is not None:
        refuse_shared(
            nodes,
            train,
            ("calibration", "train"),
            "the model looks better than it is on nodes it was trained on",
        )
        train = np.sort(train)
    return (nodes, source.labels(nodes)), _trained(source, train)


def _trained(source: Folder, train: Ints | None) -> tuple[Ints, Ints] | None:
    """Training nodes whose label is known."""
    if train is None:
        return None
    y = source.labels(train, unknown=True)
    return (train[y >= 0], y[y >= 0]) if (y >= 0).any() else None


def _suspect(job: _Job, facts: Facts, nodes: Ints, y: Ints) -> None:
    """Warn of calibration nodes that look trained on, by a sample of the others."""
    plan = job.plan
    others = np.setdiff1d(np.arange(0, plan.nodes, max(1, plan.nodes // SAMPLE)), nodes)
    both = np.sort(np.concatenate([nodes, others]))
    z = job.engine.total("looking at logits", gather, stacked, plan.blocks, plan, "logits", both)
    index = torch.from_numpy(np.searchsorted(both, nodes))
    here = Labelled(index, facts.limits.number(torch.from_numpy(y)))
    suspicion = looks_trained_on(facts.limits.cut(torch.from_numpy(z)), here)
    if suspicion:
        warnings.warn(suspicion.replace("train_mask", "train.*"), CalibrationWarning, stacklevel=3)


def _moved() -> tuple[int, int]:
    """Bytes that this process has read and written so far, caches included (Linux; else 0)."""
    try:
        lines = Path("/proc/self/io").read_text().split("\n")
        found = dict(line.split(": ") for line in lines if ": " in line)
        return int(found["rchar"]), int(found["wchar"])
    except OSError:
        return 0, 0
