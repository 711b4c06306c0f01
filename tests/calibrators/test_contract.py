"""One contract, every calibrator of the registry: what must hold whatever the method does."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone

import simi_mailbox
from simi_mailbox import Graph, NotFittedError, audit, calibrators
from simi_mailbox.calibrators import NodeTemperatures, TemperatureCalibrator
from simi_mailbox.calibrators.registry import METHODS

NAMES = calibrators.names()
QUICK = {"epochs": 10, "patience": 10, "partitions": 2}
every = pytest.mark.parametrize("name", NAMES)
pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


@dataclass(frozen=True)
class Problem:
    """A small graph with everything that any method may need."""

    logits: Any
    y: Any
    edges: Any
    features: Any
    mask: Any
    holdout: Any

    @property
    def n(self) -> int:
        return len(self.logits)

    def inputs(self, name: str) -> dict[str, Any]:
        graph = Graph.from_edges(self.edges, self.n)
        offered = {"graph": graph, "features": self.features, "forward": self.forward(graph)}
        return {key: offered[key] for key in calibrators.get(name).needs}

    def forward(self, graph: Graph) -> Any:
        """A frozen GNN: each node adds a tenth of what it hears over the weighted edges."""
        given = self.logits
        z = given if isinstance(given, torch.Tensor) else torch.from_numpy(given.copy())
        rows = graph.rows()

        def run(edge_weight: torch.Tensor) -> torch.Tensor:
            heard = z[graph.indices] * edge_weight.to(z.dtype).reshape(-1, 1)
            return z + 0.1 * torch.zeros_like(z).index_add(0, rows, heard)

        return run

    def permuted(self, order: np.ndarray) -> Problem:
        """The same problem with node ``order[k]`` renamed to ``k``."""
        place = np.argsort(order)
        return Problem(
            self.logits[order],
            self.y[order],
            place[self.edges],
            self.features[order],
            np.sort(place[self.mask]),
            np.sort(place[self.holdout]),
        )


def make_problem(n: int = 90, classes: int = 4, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, classes)) * 2
    y = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(1)
    edges = rng.integers(0, n - 5, size=(2, 3 * n))  # the last five nodes have no neighbour
    features = np.concatenate([logits, rng.normal(size=(n, 2))], axis=1).astype(np.float32)
    # Isolated nodes stand in both masks and outside.
    return Problem(logits, y, edges, features, np.arange(0, n, 2), np.arange(1, n, 4))


PROBLEM = make_problem()


def make(name: str) -> Any:
    """The method as it comes, with a short training."""
    cal = calibrators.get(name)()
    return cal.set_params(**{k: v for k, v in QUICK.items() if k in cal.get_params()})


def fit(name: str, problem: Problem, *, holdout: bool = True, **changes: Any) -> Any:
    these = problem.inputs(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", simi_mailbox.CalibrationWarning)
        return (
            make(name)
            .set_params(**changes)
            .fit(
                problem.logits,
                problem.y,
                mask=problem.mask,
                holdout_mask=problem.holdout if holdout else None,
                **these,
            )
        )


@functools.cache
def fitted(name: str) -> Any:
    return fit(name, PROBLEM)


def predict(cal: Any, problem: Problem, **more: Any) -> Any:
    return cal.predict_proba(problem.logits, **problem.inputs(cal.name), **more)


def assert_probabilities(probs: Any, shape: tuple[int, int], tolerance: float = 1e-9) -> None:
    probs = np.asarray(probs)
    assert probs.shape == shape
    assert np.isfinite(probs).all()
    assert (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=tolerance)


@every
def test_no_label_outside_the_masks_is_read(name: str) -> None:
    outcome = audit.reads_only(
        make(name),
        PROBLEM.logits,
        PROBLEM.y,
        mask=PROBLEM.mask,
        holdout_mask=PROBLEM.holdout,
        **PROBLEM.inputs(name),
    )
    assert outcome, outcome.detail


@every
def test_rows_are_probabilities(name: str) -> None:
    assert_probabilities(predict(fitted(name), PROBLEM), PROBLEM.logits.shape)


@every
def test_labels_of_the_mask_are_enough(name: str) -> None:
    cal = make(name).fit(
        PROBLEM.logits, PROBLEM.y[PROBLEM.mask], mask=PROBLEM.mask, **PROBLEM.inputs(name)
    )
    full = fit(name, PROBLEM, holdout=False)
    np.testing.assert_array_equal(predict(cal, PROBLEM), predict(full, PROBLEM))


@every
def test_same_seed_same_bits(name: str) -> None:
    again = fit(name, PROBLEM)
    np.testing.assert_array_equal(predict(again, PROBLEM), predict(fitted(name), PROBLEM))


@every
def test_prediction_follows_a_renaming_of_nodes(name: str) -> None:
    order = np.random.default_rng(1).permutation(PROBLEM.n)
    expected = predict(fitted(name), PROBLEM)[order]
    # On a graph with other names, only the caller knows which nodes the GNN was trained on.
    renamed = PROBLEM.permuted(order)
    found = predict(fitted(name), renamed, train_mask=renamed.holdout)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@every
def test_fit_follows_a_renaming_of_nodes(name: str) -> None:
    # Dropout and exploration noise are drawn node by node: without them, order must not matter.
    quiet = {key: 0.0 for key in ("dropout", "noise") if key in make(name).get_params()}
    order = np.random.default_rng(1).permutation(PROBLEM.n)
    renamed = PROBLEM.permuted(order)
    expected = predict(fit(name, PROBLEM, **quiet), PROBLEM)[order]
    found = predict(fit(name, renamed, **quiet), renamed)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@every
def test_order_and_direction_of_edges_do_not_matter(name: str) -> None:
    rng = np.random.default_rng(2)
    shuffled = PROBLEM.edges[:, rng.permutation(PROBLEM.edges.shape[1])]
    turned = np.where(rng.random(shuffled.shape[1]) < 0.5, shuffled, shuffled[::-1])
    other = replace(PROBLEM, edges=np.concatenate([turned, turned[:, :7]], axis=1))
    np.testing.assert_array_equal(predict(fit(name, other), other), predict(fitted(name), PROBLEM))


@every
def test_saved_and_loaded_gives_the_same_bits(name: str, tmp_path: Any) -> None:
    cal = fitted(name)
    cal.save(tmp_path / "cal.safetensors")
    again = simi_mailbox.load(tmp_path / "cal.safetensors")
    assert type(again) is type(cal)
    assert again.get_params() == cal.get_params()
    np.testing.assert_array_equal(predict(again, PROBLEM), predict(cal, PROBLEM))


@every
def test_predicted_classes_stay_where_that_is_promised(name: str) -> None:
    if not calibrators.get(name).preserves_accuracy:
        # The promise must not be withheld from a method that could give it for free.
        assert not issubclass(calibrators.get(name), NodeTemperatures)
        return
    rng = np.random.default_rng(3)
    near = PROBLEM.logits.astype(np.float32)
    near[:20] = rng.normal(size=(20, 1))  # ties
    near[20:40, 1:] = np.nextafter(near[20:40, :1], np.float32(-np.inf))  # and almost ties
    for logits in (PROBLEM.logits, near, PROBLEM.logits * 1e3):
        problem = replace(PROBLEM, logits=logits)
        for cal in (fitted(name), fit(name, problem)):
            found = torch.as_tensor(predict(cal, problem)).argmax(dim=1)
            assert torch.equal(found, torch.as_tensor(logits).argmax(dim=1))


@every
def test_temperatures_and_blind_share_say_what_the_probabilities_are(name: str) -> None:
    cal = fitted(name)
    assert isinstance(cal, NodeTemperatures) == hasattr(cal, "node_temperatures")
    if not isinstance(cal, NodeTemperatures):
        return
    temperatures = cal.node_temperatures(PROBLEM.logits, **PROBLEM.inputs(name))
    assert (temperatures > 0).all()
    expected = softmax(PROBLEM.logits / temperatures[:, None], axis=1)
    if not isinstance(cal, TemperatureCalibrator):
        assert 0 < cal.blind_share < 1  # or it should be one
        expected = (1 - cal.blind_share) * expected + cal.blind_share / PROBLEM.logits.shape[1]
    np.testing.assert_allclose(predict(cal, PROBLEM), expected, rtol=1e-9, atol=1e-12)


@every
def test_class_without_calibration_label(name: str) -> None:
    without = PROBLEM.mask[PROBLEM.y[PROBLEM.mask] != 2]
    problem = replace(PROBLEM, mask=without)
    assert_probabilities(predict(fit(name, problem), problem), problem.logits.shape)


@every
@pytest.mark.parametrize("label", [0, 3])
def test_one_calibration_node(name: str, label: int) -> None:
    problem = replace(PROBLEM, mask=np.array([0]), y=np.full(PROBLEM.n, label))
    cal = fit(name, problem, holdout=False)
    assert_probabilities(predict(cal, problem), problem.logits.shape)


@every
def test_all_calibration_nodes_right_or_wrong(name: str) -> None:
    for shift in (0, 1):
        y = (PROBLEM.logits.argmax(1) + shift) % PROBLEM.logits.shape[1]
        problem = replace(PROBLEM, y=y)
        assert_probabilities(predict(fit(name, problem), problem), problem.logits.shape)


@every
def test_graph_without_edges(name: str) -> None:
    problem = replace(PROBLEM, edges=np.empty((2, 0), dtype=np.int64))
    for cal in (fitted(name), fit(name, problem)):
        assert_probabilities(predict(cal, problem), problem.logits.shape)


@every
def test_one_node_graph(name: str) -> None:
    only = np.array([0])
    problem = Problem(
        PROBLEM.logits[:1], PROBLEM.y[:1], np.empty((2, 0), int), PROBLEM.features[:1], only, only
    )
    cal = fit(name, problem, holdout=False)
    assert_probabilities(predict(cal, problem), (1, PROBLEM.logits.shape[1]))


@every
def test_constant_logits(name: str) -> None:
    problem = replace(PROBLEM, logits=np.zeros_like(PROBLEM.logits))
    for cal in (fit(name, problem), fitted(name)):
        probs = predict(cal, problem)
        assert_probabilities(probs, problem.logits.shape)
        if isinstance(cal, NodeTemperatures):
            np.testing.assert_allclose(probs, 1 / problem.logits.shape[1], atol=1e-12)


@every
@pytest.mark.parametrize("size", [1e4, 1e-4])
def test_extreme_logits(name: str, size: float) -> None:
    problem = replace(PROBLEM, logits=PROBLEM.logits * size)
    assert_probabilities(predict(fit(name, problem), problem), problem.logits.shape)


@every
def test_unseen_graph(name: str) -> None:
    other = make_problem(n=37, seed=5)
    assert_probabilities(predict(fitted(name), other), other.logits.shape)


@every
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_output_is_of_the_kind_of_the_input(name: str, dtype: str) -> None:
    wide = "float64" if dtype == "float64" else "float32"
    array = replace(PROBLEM, logits=PROBLEM.logits.astype(dtype))
    tensor = replace(array, logits=torch.from_numpy(array.logits))
    as_array = predict(fit(name, array), array)
    as_tensor = predict(fit(name, tensor), tensor)
    assert isinstance(as_array, np.ndarray)
    assert isinstance(as_tensor, torch.Tensor)
    assert str(as_array.dtype) == str(as_tensor.dtype).removeprefix("torch.") == wide
    np.testing.assert_array_equal(as_array, as_tensor.numpy())
    assert_probabilities(as_array, PROBLEM.logits.shape, 1e-9 if wide == "float64" else 1e-6)


@every
def test_inputs_are_left_alone_and_may_be_read_only(name: str) -> None:
    copy = make_problem()
    for array in (copy.logits, copy.y, copy.features, copy.mask):
        array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        found = predict(fit(name, copy), copy)
    np.testing.assert_array_equal(found, predict(fitted(name), PROBLEM))
    np.testing.assert_array_equal(copy.logits, make_problem().logits)


@every
def test_use_before_fit(name: str, tmp_path: Any) -> None:
    with pytest.raises(NotFittedError, match="fit"):
        predict(make(name), PROBLEM)
    with pytest.raises(NotFittedError, match="fit"):
        make(name).save(tmp_path / "cal.safetensors")
    assert not any(tmp_path.iterdir())


@every
def test_failed_fit_leaves_it_unfitted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cal = fit(name, PROBLEM)
    cls = type(cal)
    original = cls._fit

    def late_failure(self: Any, data: Any) -> None:
        original(self, data)
        raise RuntimeError("after all values were set")

    monkeypatch.setattr(cls, "_fit", late_failure)
    with pytest.raises(RuntimeError, match="after all"):
        cal.fit(PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **PROBLEM.inputs(name))
    assert not [key for key in vars(cal) if key.endswith("_")]
    with pytest.raises(NotFittedError):
        predict(cal, PROBLEM)


@every
def test_parameters(name: str) -> None:
    cal = fit(name, PROBLEM)
    params = make(name).get_params()
    assert cal.get_params() == params  # fitting changes none of them
    fresh = clone(cal)
    assert fresh.get_params() == params
    assert not hasattr(fresh, "num_classes_")
    assert repr(type(cal)()) == f"{type(cal).__name__}()"
    for key, value in params.items():
        if value != calibrators.get(name)().get_params()[key]:
            assert f"{key}={value!r}" in repr(cal)


@every
def test_each_parameter_refuses_what_it_is_not(name: str) -> None:
    for key, default in make(name).get_params().items():
        wrong: list[Any] = [object(), np.nan, np.inf]
        if not isinstance(default, str):
            wrong.append("5")
        if not isinstance(default, bool):
            wrong.append(True)
        for value in wrong:
            with pytest.raises(ValueError, match=rf"^{key} must be .*, got "):
                fit(name, PROBLEM, **{key: value})


def test_every_method_is_in_the_one_table() -> None:
    classes = [calibrators.get(name) for name in METHODS]
    assert [cls.name for cls in classes] == list(METHODS) == sorted(METHODS)
    bases = {"Calibrator", "NodeTemperatures", "TemperatureCalibrator"}
    exported = {title for title in calibrators.__all__ if title[0].isupper()} - bases
    assert exported == {cls.__name__ for cls in classes}


def test_a_method_from_outside_can_be_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrators.registry, "_FROM_OUTSIDE", {})

    @calibrators.register("mine")
    class Mine(calibrators.Uncalibrated):
        pass

    assert calibrators.get("mine") is Mine
    assert Mine.name == "mine"
    for taken in ("mine", "temperature"):
        with pytest.raises(ValueError, match=f"two calibrators are called '{taken}'"):
            calibrators.register(taken)(Mine)


@every
def test_missing_inputs_are_named(name: str) -> None:
    inputs = PROBLEM.inputs(name)
    for missing in calibrators.get(name).needs:
        given = {key: value for key, value in inputs.items() if key != missing}
        with pytest.raises(TypeError, match=missing):
            make(name).fit(PROBLEM.logits, PROBLEM.y, mask=PROBLEM.mask, **given)
        with pytest.raises(TypeError, match=missing):
            fitted(name).predict_proba(PROBLEM.logits, **given)


@every
def test_other_number_of_classes_is_refused(name: str) -> None:
    other = replace(PROBLEM, logits=PROBLEM.logits[:, :3])
    with pytest.raises(ValueError, match="3 classes"):
        predict(fitted(name), other)


@every
def test_documentation_says_what_the_class_declares(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "methods.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `{name}`")]
    needs, keeps, holdout = (cell.strip() for cell in row.split("|")[4:7])
    cls = calibrators.get(name)
    assert cls.needs == (frozenset() if needs == "–" else frozenset(needs.split(", ")))
    assert keeps == ("yes" if cls.preserves_accuracy else "no")
    uses = {"training": ("stops on it", "trains on it"), "separate": ("second stage",)}
    assert holdout in uses.get(cls.holdout or "", ("unused",))
