"""GATS: attention over neighbours' logits gives every node its temperature."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from simi_mailbox.calibrators.base import Holdout, TemperatureCalibrator
from simi_mailbox.calibrators.parts.gats_attention import TemperatureAttention
from simi_mailbox.calibrators.parts.likelihood import scaled_nll
from simi_mailbox.calibrators.parts.training import Schedule, restore, stopping_split, train
from simi_mailbox.calibrators.parts.training_nodes import TrainingNodes
from simi_mailbox.calibrators.registry import register
from simi_mailbox.exceptions import SolverError
from simi_mailbox.inputs import CalibrationData, NodeInputs


@register("gats")
class GATS(TemperatureCalibrator):
    """q_i = softmax(z_i / T_i), T_i = T₀ + mean_h softplus(ω δ_i + Σ_j α_ij γ_j τ_jh).

    Hsu et al., "What Makes Graph Neural Networks Miscalibrated?", NeurIPS 2022. j runs over the
    neighbours of i and i itself; h over ``heads``.

    * τ_j = Θ · (logits of j, scaled to [0, 1] and sorted): what j alone says of its temperature.
    * γ_j is learned for training nodes of the GNN (a₀) and for their neighbours (a₁), else 1.
    * α_i = softmax over j of LeakyReLU(z_i·z_j / (γ_i γ_j)): neighbours that agree count more.
    * δ_i = confidence of i minus the mean confidence over j.
    * T₀, ω, a₀, a₁, Θ are learned; T₀ starts at ``start``.

    Training nodes are the nodes of ``holdout_mask`` (the published convention); without one, γ = 1
    everywhere. How they are known again on another graph: `calibrators.parts.training_nodes`.

    Parameters
    ----------
    heads : int
        Number of rows of Θ.
    start : float
        Initial T₀. Published tables: 1, for CoraFull 1.5.
    strict_paper : bool
        The released formula lets T₀ and γ become negative, and temperatures with them. By default,
        values below 0.1 are bent so that they stay positive, x ↦ 0.1 exp(x / 0.1 − 1), and values
        above are left exactly as they are. With ``strict_paper`` nothing is bent, and a
        temperature that is not positive raises `SolverError`.
    lr, weight_decay, epochs, patience, seed
        See `training.Schedule`. Published weight decays differ from graph to graph.

    Attributes
    ----------
    weights_ : dict of Tensor
    training_nodes_ : dict, or None if there was no ``holdout_mask``
    epochs_, best_epoch_ : int

    Notes
    -----
    Differs from the released code: z_i·z_j is computed once, not in every epoch; only rows of
    labelled nodes are computed while training; a node with constant logits has τ = 0 instead of
    0/0. None of this changes a number that was defined.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 3)) * 4
    >>> y = (z / 4 + rng.gumbel(size=z.shape)).argmax(1)  # four times as sure as it should be
    >>> ring = np.stack([np.arange(100), (np.arange(100) + 1) % 100])
    >>> cal = GATS(epochs=50, lr=0.05).fit(z, y, graph=ring, mask=np.arange(60))
    >>> bool(cal.node_temperatures(z, graph=ring).mean() > 2)
    True
    """

    needs: ClassVar[frozenset[str]] = frozenset({"graph"})
    holdout: ClassVar[Holdout] = "training"

    weights_: dict[str, Tensor]
    training_nodes_: dict[str, Any] | None
    epochs_: int
    best_epoch_: int

    def __init__(
        self,
        *,
        heads: int = 8,
        start: float = 1.0,
        strict_paper: bool = False,
        lr: float = 0.01,
        weight_decay: float = 5e-3,
        epochs: int = 2000,
        patience: int = 100,
        seed: int = 0,
    ) -> None:
        self.heads = heads
        self.start = start
        self.strict_paper = strict_paper
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.seed = seed

    def _check_params(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads must be at least 1, got {self.heads}")
        if not 0 < self.start < float("inf"):
            raise ValueError(f"start must be a positive temperature, got {self.start}")
        Schedule.of(self)

    def _fit(self, data: CalibrationData) -> None:
        self.training_nodes_ = None
        if data.holdout is not None:
            nodes = data.holdout.index, data.logits, data.neighbourhoods
            self.training_nodes_ = TrainingNodes.remember(*nodes).state()
        trained = train(
            lambda: self._network(data),
            *stopping_split(data, self.seed),
            Schedule.of(self),
            likelihood=scaled_nll(data.logits),
        )
        self.weights_ = trained.network.state_dict()
        self.epochs_, self.best_epoch_ = trained.epochs, trained.best_epoch

    def _temperatures(self, data: NodeInputs) -> Tensor:
        temperatures = restore(lambda: self._network(data), self.weights_).temperatures(None)
        if self.strict_paper and bool((temperatures <= 0).any()):
            raise SolverError(
                f"the published formula of GATS gives {int((temperatures <= 0).sum())} nodes a "
                f"temperature that is not positive (lowest: {float(temperatures.min()):.3g}); "
                "strict_paper=False keeps all of them positive"
            )
        return temperatures

    def _network(self, data: NodeInputs) -> TemperatureAttention:
        distances = None
        if self.training_nodes_ is not None:
            nodes = TrainingNodes(**self.training_nodes_)
            distances = nodes.distances(data.logits, data.neighbourhoods)
        bent = not self.strict_paper
        network = TemperatureAttention(data, distances, self.heads, self.start, bent)
        return network.to(data.logits.dtype)
