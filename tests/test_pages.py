"""The Python blocks of our pages run, in the order in which a reader meets them."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from simi_mailbox import metrics, ood
from simi_mailbox.data import Split
from simi_mailbox.data.synthetic import calibration_problem
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.models import Settings
from simi_mailbox.selftraining import self_train
from simi_mailbox.testing import Problem
from tests.pyg.loaders import AllNeighbours

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_page(name: str, blocks: int | None = None, **given: object) -> dict[str, object]:
    text = (DOCS / name).read_text(encoding="utf-8")
    found = BLOCK.findall(text)
    assert len(found) >= 2, f"{name} shows no code"
    names: dict[str, object] = dict(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(found[:blocks], start=1):
            exec(compile(block, f"{name}, block {number}", "exec"), names)  # our own page
    return names


def test_self_training_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_page("self-training.md")
    assert names["result"].predictions.shape == (1797,)
    assert (names["result"].pseudo_labels >= 0).sum() > 50
    # The page shows self-training that helps, and says how it comes to harm.
    first, last = names["result"].stages[0], names["result"].stages[-1]
    assert last.test_accuracy > first.test_accuracy + 0.02
    assert names["safe"].kept == 1 + np.argmax([s.val_accuracy for s in names["safe"].stages])
    assert names["mine"].stages[0].added.size > 0
    assert "stage" in capsys.readouterr().out


def test_self_training_page_is_right_about_harm() -> None:
    names = run_page("self-training.md", blocks=1)
    given = (names[name] for name in ("x", "graph", "y"))
    split = Split(names["train"], names["val"], names["test"])
    with pytest.warns(CalibrationWarning, match="self-training: "):
        result = self_train(*given, split, stages=2, settings=Settings(epochs=80), truth=names["y"])
    assert result.test_accuracy < result.stages[0].test_accuracy


def test_ood_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_page("ood.md")
    assert "Detection(auroc=" in capsys.readouterr().out
    assert ood.evaluate(names["known"], names["unknown"]).auroc > 0.95
    assert names["score"].shape == (1797,)


def test_gpn_page() -> None:
    names = run_page("gpn.md")
    probabilities = names["probabilities"]
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(1797))
    assert bool((names["prediction"].evidence > 0).any())


def test_pyg_page(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_geometric.loader
    import torch_geometric.nn.models.basic_gnn
    from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

    if not (WITH_PYG_LIB or WITH_TORCH_SPARSE):  # PyG's own sampler is compiled
        monkeypatch.setattr(torch_geometric.loader, "NeighborLoader", AllNeighbours)
        monkeypatch.setattr(torch_geometric.nn.models.basic_gnn, "NeighborLoader", AllNeighbours)
    names = run_page("pyg.md")
    data, log_probs, test = names["data"], names["log_probs"], names["data"].test_mask
    loss = torch.nn.functional.nll_loss
    before = names["model"].eval()(data.x, data.edge_index).log_softmax(dim=1).detach()
    assert loss(log_probs[test], data.y[test]) < loss(before[test], data.y[test])
    assert torch.equal(log_probs.argmax(dim=1), before.argmax(dim=1))
    assert names["calibrated"].num_hops == 4
    torch.testing.assert_close(names["again"](data.x, data.edge_index), log_probs, rtol=0, atol=0)
    torch.testing.assert_close(data.prob, log_probs.exp())
    last = test.nonzero().flatten()[-names["batch"].batch_size :]
    torch.testing.assert_close(names["batch_log_probs"], log_probs[last], rtol=0, atol=1e-5)
    some = log_probs[names["nodes"]]
    torch.testing.assert_close(names["some_log_probs"], some, rtol=0, atol=1e-5)
    whole = names["large"](data.x, data.edge_index)
    torch.testing.assert_close(names["large_log_probs"], whole, rtol=0, atol=1e-5)


def test_decide_page() -> None:
    names = run_page("decide.md")
    rest, y = names["rest"], names["y"]
    assert 0.87 < metrics.coverage(names["sets"][rest], y[rest]) < 0.93
    wrong = names["probs"].argmax(axis=1) != y
    accepted = names["accepted"][rest]
    assert 0.3 < accepted.mean() < 0.95
    assert wrong[rest][accepted].mean() < 0.1 < wrong[rest].mean()
    assert names["costs"].saving_interval_[0] > 0
    assert names["found"].worst > 0.7


def test_methods_page() -> None:
    problem = calibration_problem(400, 3, temperature=2.0, seed=0)
    edges, mask = problem.graph.edge_index(), np.arange(400) < 200
    given = {"logits": problem.logits, "y": problem.y, "edge_index": edges, "val_mask": mask}
    names = run_page("methods.md", **given)
    np.testing.assert_allclose(names["probs"].sum(axis=1), 1.0, atol=1e-5)
    scores = {n: names["likelihood"]({**names["best"], "n_groups": n}) for n in (5, 20)}
    assert names["best"]["n_groups"] == max(scores, key=scores.get)


def test_plugins_page() -> None:
    names = run_page("plugins.md")
    problem = Problem.random()
    fitted = names["Smoothing"](strength=0.5).fit(problem.logits, problem.y, mask=problem.mask)
    wrong = (problem.logits.argmax(1) != problem.y)[problem.mask].mean()
    assert fitted.share_ == pytest.approx(0.5 * wrong)
