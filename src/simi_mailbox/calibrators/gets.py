"""GETS: a mixture of graph experts scales every logit of every node."""

from typing import Annotated, ClassVar

import torch
from torch import Tensor

from simi_mailbox.calibrators.network import NetworkCalibrator
from simi_mailbox.calibrators.parts.features import check_width
from simi_mailbox.calibrators.parts.gets_experts import EXPERTS, ExpertMixture
from simi_mailbox.parameters import (
    Constraint,
    Count,
    NonNegative,
    Positive,
    Share,
    hyperparameters,
)
from simi_mailbox.validation import CalibrationData, NodeInputs

LARGEST_DEGREE = 255
Selection = Annotated[Count, Constraint(f"and ≤ {len(EXPERTS)}", lambda x: x <= len(EXPERTS))]


@hyperparameters
class GETS(NetworkCalibrator):
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
        See `network.NetworkCalibrator`. Published values differ from graph to graph.

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
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(100, 3, temperature=4.0, seed=0)
    >>> given = {"graph": problem.graph, "features": problem.logits}
    >>> cal = GETS(epochs=10).fit(problem.logits, problem.y, mask=range(60), **given)
    >>> cal.predict_proba(problem.logits, **given).shape
    (100, 3)
    """

    name: ClassVar[str] = "gets"
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph", "features"})
    shift_invariant: ClassVar[bool] = False

    select: Selection = 2
    hidden: Count = 16
    feature_hidden: Count = 64
    degree_hidden: Count = 32
    dropout: Share = 0.5
    noise: NonNegative = 1.0
    balance: NonNegative = 1.0
    lr: Positive = 0.1
    weight_decay: NonNegative = 0.0
    epochs: Count = 1000
    patience: Count = 50

    @classmethod
    def num_parameters(cls, num_classes: int) -> int:
        return 100  # networks trained for some epochs

    def _fit(self, data: CalibrationData) -> None:
        self._train(data, penalty=lambda network: self.balance * network.balance)

    def _predict(self, data: NodeInputs) -> Tensor:
        check_width(data, self.weights_["project.weight"].shape[1])
        return torch.softmax(self._trained(data)(None), dim=1)

    def _network(self, data: NodeInputs) -> ExpertMixture:
        degrees = min(int(data.neighbourhoods.degree.max()), LARGEST_DEGREE) + 1
        if hasattr(self, "weights_"):  # nodes of larger degree than the fit has seen share a row
            degrees = self.weights_["embed"].shape[1]
        return ExpertMixture(
            data,
            degrees,
            select=self.select,
            hidden=self.hidden,
            feature_hidden=self.feature_hidden,
            degree_hidden=self.degree_hidden,
            dropout=self.dropout,
            noise=self.noise,
        )
