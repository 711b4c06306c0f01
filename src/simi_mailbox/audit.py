"""Do calibrators and rules read labels outside their masks? Ordinary leaks are caught."""

import copy
import multiprocessing
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simi_mailbox.graph import Graph
from simi_mailbox.validation import as_numpy, read_index

DRAWS = 3
OUTPUTS = ("predict_proba", "predict_sets", "accepts")
"""What calibrators, prediction sets and acceptance rules answer with."""


@dataclass(frozen=True)
class Audit:
    """Outcome of an audit; true in a condition if it passed."""

    passed: bool
    detail: str

    def __bool__(self) -> bool:
        return self.passed


def reads_only(
    calibrator: Any,
    logits: Any,
    y: Any,
    *,
    mask: Any,
    early_stopping_mask: Any = None,
    train_mask: Any = None,
    known: Any = None,
    seed: int = 0,
    new_process: bool = False,
    **inputs: Any,
) -> Audit:
    """Change every label outside the masks and require bit-identical probabilities.

    Copies of ``calibrator`` are fitted with the labels outside the masks permuted, drawn anew, and
    replaced by −1, also those in the graph, and last as they are. Rules of `simi_mailbox.decide`
    are audited alike, on probabilities in place of logits. Hyper-parameters, feature columns and
    variables of ``forward`` that equal the hidden labels fail at once.

    Parameters
    ----------
    calibrator, logits, y, mask, early_stopping_mask, train_mask, **inputs
        As for ``fit``; ``y`` must have full length. Labels of ``train_mask`` may be read by
        calibrators that declare it (``"known" in calibrator.optional_inputs``), and by no others.
    known : (nodes, labels), optional
        Passed to ``predict_proba``.
    seed : int
        Of the changes.
    new_process : bool
        Run every fit in a process of its own, which knows the changed labels and no others; all
        that is passed in must be importable there.

    Notes
    -----
    It catches mistakes, not a malicious author: code that walks the caller's frames or keeps labels
    of an earlier fit passes unless ``new_process=True``; labels in a file or in disguise pass.
    """
    labels = np.array(y)
    n, k = np.shape(logits)
    if len(labels) != n:
        raise ValueError(f"an audit needs labels of full length {n}, got {len(labels)}")
    given = {"mask": mask, "early_stopping_mask": early_stopping_mask, "train_mask": train_mask}
    masks = {name: part for name, part in given.items() if part is not None}
    hidden = np.ones(n, dtype=bool)
    for name, nodes in masks.items():
        if name != "train_mask" or "known" in getattr(calibrator, "optional_inputs", ()):
            hidden[read_index(nodes, n, name)] = False
    outside = np.flatnonzero(hidden)
    if outside.size == 0:
        raise ValueError("every node is in a mask: there is no label to hide")
    for where, values in _passed_in(calibrator, inputs):
        if _holds(values, labels, outside):
            return Audit(False, f"{where} holds the labels outside the masks")
    later = {} if known is None else {"known": known}

    def run(these: Any) -> Any:
        passed = dict(inputs)
        if these is not labels and "graph" in inputs:
            passed["graph"] = _relabelled(inputs["graph"], labels, outside, these)
        job = (calibrator, logits, these, masks, passed, later)
        return _in_new_process(job) if new_process else _probabilities(*job)

    rng = np.random.default_rng(seed)
    changes = [("permuted", rng.permutation(labels[outside])) for _ in range(DRAWS)]
    changes += [("drawn anew", rng.integers(0, k, outside.size)) for _ in range(DRAWS)]
    changes += [("replaced by −1", np.full(outside.size, -1))]
    found = []
    for how, values in changes:
        changed = labels.copy()
        changed[outside] = values
        try:
            found.append((how, run(changed)))
        except pickle.PicklingError:
            raise
        except Exception as error:
            return Audit(False, f"labels outside the masks {how}: fit raised {error!r}")
    expected = run(labels)  # last, so that nothing kept from it can have helped the others
    for how, probs in found:
        if not torch.equal(probs, expected):
            rows = int((probs != expected).reshape(n, -1).any(dim=1).sum())
            return Audit(False, f"labels outside the masks {how}: {rows} of {n} rows changed")
    return Audit(True, f"{outside.size} hidden labels changed in {len(changes)} ways, same bits")


def _holds(values: Any, labels: Any, outside: Any) -> bool:
    """Whether an array, or a column of one, equals the labels on the hidden nodes."""
    try:
        array = as_numpy(values)
    except Exception:  # whatever it is, it is no array
        return False
    truth = labels[outside]
    if array.dtype.kind not in "biuf" or array.ndim > 2 or array.shape[:1] != labels.shape:
        return False
    columns = array.reshape(len(array), -1)[outside]
    return len(np.unique(truth)) > 1 and bool((columns == truth[:, None]).all(axis=0).any())


def _relabelled(graph: Any, labels: Any, outside: Any, others: Any) -> Any:
    """The graph with other labels in it (PyG), or with nothing but edges."""
    if isinstance(graph, Graph):
        return Graph(graph.indptr, graph.indices, is_directed=graph.is_directed)
    if not hasattr(graph, "edge_index") or not hasattr(graph, "__dict__"):
        return graph
    other, keys = copy.copy(graph), getattr(graph, "keys", ())
    for name in (*(keys() if callable(keys) else keys), *vars(graph)):
        values = getattr(graph, name, None)
        if name == "y" or _holds(values, labels, outside):
            setattr(other, name, torch.as_tensor(others) if torch.is_tensor(values) else others)
    return other


def _passed_in(calibrator: Any, inputs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything besides the graph in which labels may hide, and the words for it."""
    for name, value in vars(calibrator).items():
        for part in (value, *(value.values() if isinstance(value, dict) else ())):
            yield f"hyper-parameter {name!r}", part
    for name in ("features", "hidden"):
        columns: Any = inputs.get(name)
        yield f"a column of {name}", columns.toarray() if hasattr(columns, "toarray") else columns
    forward = inputs.get("forward")
    cells = [cell.cell_contents for cell in getattr(forward, "__closure__", None) or ()]
    kept = getattr(forward, "__defaults__", None) or ()
    for value in (*cells, *kept, *getattr(forward, "__dict__", {}).values()):
        yield "forward", value


def _probabilities(
    calibrator: Any, logits: Any, y: Any, masks: Any, inputs: Any, later: Any
) -> Any:
    copied = copy.deepcopy(calibrator)
    output = next(name for name in OUTPUTS if hasattr(calibrator, name))
    with warnings.catch_warnings(action="ignore"):
        copied.fit(logits, y, **masks, **inputs)
        return torch.as_tensor(getattr(copied, output)(logits, **inputs, **later))


def _in_new_process(job: tuple[Any, ...]) -> Any:
    """`_probabilities` in a process of its own, which has never seen other labels."""
    try:
        pickle.dumps(job)
    except Exception as error:
        raise pickle.PicklingError(
            f"new_process=True needs arguments that another process can import: {error}"
        ) from None
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(torch.set_num_threads, 1).result()
        return pool.submit(_probabilities, *job).result()
