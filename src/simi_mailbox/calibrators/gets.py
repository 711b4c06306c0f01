"""GETS: a mixture of graph experts scales every logit of every node."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from simi_mailbox.calibrators.base import Calibrator, Holdout
from simi_mailbox.calibrators.parts.gets_experts import EXPERTS, ExpertMixture
from simi_mailbox.calibrators.parts.training import Schedule, restore, stopping_split, train
from simi_mailbox.calibrators.registry import register
from simi_mailbox.inputs import CalibrationData, NodeInputs

LARGEST_DEGREE = 255


@register("gets")
class GETS(Calibrator):
    """q_i = softmax(z_i ⊙ softplus(Σ_m g_im t_im)): each t_im ∈ R^K comes from expert m's GCN.

    Zhuang et al., "GETS: Ensemble Temperature Scaling for Calibration in Graph Neural Networks",
    ICLR 2025. There is one expert, a two-layer GCN, for every non-empty subset of {logits,
    projected features, degree embedding}: seven. The gate g_i = softmax of the ``select`` largest
    of x W_g + ε · (softplus(x W_n) + 0.01), with x = [projected features, z_i] and normal noise ε
    while training. ``balance`` · (CV²(importance) + CV²(load)) keeps experts in use.

    Parameters
    ----------
    select : int
        Experts for each node (paper: 1 or 2).
    hidden, feature_hidden, degree_hidden : int
        Widths of the experts, of projected features, of degree embeddings.
    dropout : float
        Share of hidden units dropped while training.
    noise : float
        Strength of the gate's noise; 1 is published.
    balance : float
        Weight of the balance term.
    lr, weight_decay, epochs, patience, seed
        See `training.Schedule`. Published values differ from graph to graph.

    Attributes
    ----------
    weights_ : dict of Tensor
    epochs_, best_epoch_ : int

    Notes
    -----
    The scale has one entry for each class, so predicted classes may change. Differs from the
    released code: degree embeddings are trained (there, they are made after the optimiser took its
    list of parameters, and stay random); they have one row per degree up to 255, above which
    degrees share a row (there, as many rows as the largest degree); the adjacency always has self
    loops (there, only on Planetoid graphs). The gate is balanced over all nodes, as there.
    Features enter as they are given: pass those that the GNN was trained on, in the same scale.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 3)) * 4
    >>> y = (z / 4 + rng.gumbel(size=z.shape)).argmax(1)  # four times as sure as it should be
    >>> ring = np.stack([np.arange(100), (np.arange(100) + 1) % 100])
    >>> given = {"graph": ring, "features": rng.normal(size=(100, 5))}
    >>> cal = GETS(epochs=10).fit(z, y, mask=np.arange(60), **given)
    >>> cal.predict_proba(z, **given).shape
    (100, 3)
    """

    needs: ClassVar[frozenset[str]] = frozenset({"graph", "features"})
    preserves_accuracy: ClassVar[bool] = False
    holdout: ClassVar[Holdout] = "training"

    weights_: dict[str, Tensor]
    epochs_: int
    best_epoch_: int

    def __init__(
        self,
        *,
        select: int = 2,
        hidden: int = 16,
        feature_hidden: int = 64,
        degree_hidden: int = 32,
        dropout: float = 0.5,
        noise: float = 1.0,
        balance: float = 1.0,
        lr: float = 0.1,
        weight_decay: float = 0.0,
        epochs: int = 1000,
        patience: int = 50,
        seed: int = 0,
    ) -> None:
        self.select = select
        self.hidden = hidden
        self.feature_hidden = feature_hidden
        self.degree_hidden = degree_hidden
        self.dropout = dropout
        self.noise = noise
        self.balance = balance
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.seed = seed

    def _check_params(self) -> None:
        if not 1 <= self.select <= len(EXPERTS):
            raise ValueError(f"select must lie between 1 and {len(EXPERTS)}, got {self.select}")
        for name in ("hidden", "feature_hidden", "degree_hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout}")
        for name in ("noise", "balance"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        Schedule.of(self)

    def _fit(self, data: CalibrationData) -> None:
        degrees = min(int(data.neighbourhoods.degree.max()), LARGEST_DEGREE) + 1
        trained = train(
            lambda: self._network(data, degrees),
            *stopping_split(data, self.seed),
            Schedule.of(self),
            penalty=lambda network: self.balance * network.balance,
            noisy=self.dropout > 0 or self.noise > 0,
        )
        self.weights_ = trained.network.state_dict()
        self.epochs_, self.best_epoch_ = trained.epochs, trained.best_epoch

    def _predict(self, data: NodeInputs) -> Tensor:
        assert data.features is not None
        known = self.weights_["project.weight"].shape[1]
        if data.features.shape[1] != known:
            raise ValueError(
                f"features have {data.features.shape[1]} columns, "
                f"but this calibrator was fitted on {known}"
            )
        degrees = self.weights_["embed"].shape[1]
        network = restore(lambda: self._network(data, degrees), self.weights_)
        return torch.softmax(network(None), dim=1)

    def _network(self, data: NodeInputs, degrees: int) -> ExpertMixture:
        network = ExpertMixture(
            data,
            degrees,
            select=self.select,
            hidden=self.hidden,
            feature_hidden=self.feature_hidden,
            degree_hidden=self.degree_hidden,
            dropout=self.dropout,
            noise=self.noise,
        )
        return network.to(data.logits.dtype)
