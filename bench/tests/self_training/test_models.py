"""What is trained and calibrated in every stage."""

import numpy as np
import pytest
import torch

from simi_mailbox import calibrators
from simi_mailbox_bench.self_training import self_train
from toy_graph import QUICK, N, never, oracle_trainer, toy


def test_without_features_a_trainer_of_ones_own_will_do() -> None:
    _, graph, y, split = toy()
    arguments = {"backbone": oracle_trainer(y), "stages": 1}
    assert self_train(None, graph, y, split, **arguments).logits.shape == (N, 3)
    with pytest.raises(TypeError, match="gets needs features: pass x"):
        self_train(None, graph, y, split, calibrator="gets", **arguments)


@pytest.mark.parametrize("name", calibrators.names())
def test_every_registered_calibrator_works(name: str) -> None:
    x, graph, y, split = toy()
    calibrator = calibrators.get(name)()
    if "epochs" in calibrator.get_params():
        calibrator.set_params(epochs=3)
    result = self_train(x, graph, y, split, calibrator=calibrator, settings=QUICK, stages=1)
    np.testing.assert_allclose(result.probs.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_dcgc_is_given_the_gnn_of_its_stage(backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, graph, y, split = toy()
    differences = []
    kind = calibrators.get("dcgc")
    fit = kind._fit

    def watched(self: object, data: object) -> None:
        same = data.forward(torch.ones(graph.num_entries))
        differences.append(float((same - data.logits).abs().max()))
        fit(self, data)

    monkeypatch.setattr(kind, "_fit", watched)
    dcgc = kind(epochs=3)
    result = self_train(
        x,
        graph,
        y,
        split,
        backbone=backbone,
        calibrator=dcgc,
        settings=QUICK,
        threshold=0.6,
        stages=2,
    )
    assert len(result.stages) == len(differences) == 2
    assert max(differences) < 1e-4


@pytest.mark.parametrize("backbone", ["gat", "gin", "mlp", never])
def test_dcgc_is_refused_before_training_where_it_cannot_work(
    backbone: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simi_mailbox_bench.backbones.training.train", never)
    x, graph, y, split = toy()
    with pytest.raises(ValueError, match="dcgc runs the trained GNN again with other edge weights"):
        self_train(x, graph, y, split, backbone=backbone, calibrator="dcgc")
