"""GATS: attention over neighbours' logits gives every node its temperature."""

from typing import Any, ClassVar

from torch import Tensor

from simi_mailbox.calibrators.network import NetworkTemperatures
from simi_mailbox.calibrators.parts.gats_attention import (
    TemperatureAttention,
    training_distances,
)
from simi_mailbox.exceptions import SolverError
from simi_mailbox.parameters import Count, Positive, hyperparameters
from simi_mailbox.validation import CalibrationData, NodeInputs


@hyperparameters
class GATS(NetworkTemperatures):
    """q_i = softmax(z_i / T_i), T_i = T₀ + mean_h softplus(ω δ_i + Σ_j α_ij γ_j τ_jh).

    Hsu et al., "What Makes Graph Neural Networks Miscalibrated?", NeurIPS 2022. j runs over the
    neighbours of i and i itself; h over ``heads``.

    * τ_j = Θ · (logits of j, scaled to [0, 1] and sorted): what j alone says of its temperature.
    * γ_j is learned for training nodes of the GNN (a₀) and for their neighbours (a₁), else 1.
    * α_i = softmax over j of LeakyReLU(z_i·z_j / (γ_i γ_j)): neighbours that agree count more.
    * δ_i = confidence of i minus the mean confidence over j.
    * T₀, ω, a₀, a₁, Θ are learned; T₀ starts at ``start``.

    Training nodes are those of ``train_mask``, or else of ``early_stopping_mask`` (which holds them
    by the published convention); without either, γ = 1 everywhere. ``predict_proba`` takes
    ``train_mask`` as well. Without it, the graph of the fit has the training nodes of the fit, and
    any other graph has none.

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
        See `network.NetworkCalibrator`. Published weight decays differ from graph to graph.

    Attributes
    ----------
    weights_ : dict of Tensor
    training_nodes_ : dict, or None if there was neither ``train_mask`` nor ``early_stopping_mask``
        Their indices, and the fingerprint of their graph.

    Notes
    -----
    Differs from the released code: z_i·z_j is computed once, not in every epoch; only rows of
    labelled nodes are computed while training; a node with constant logits has τ = 0 instead of
    0/0. None of this changes a number that was defined.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(100, 3, temperature=4.0, seed=0)
    >>> cal = GATS(epochs=50, lr=0.05)
    >>> cal = cal.fit(problem.logits, problem.y, graph=problem.graph, mask=range(60))
    >>> bool(cal.node_temperatures(problem.logits, graph=problem.graph).mean() > 1.5)
    True
    """

    name: ClassVar[str] = "gats"
    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
    shift_invariant: ClassVar[bool] = False

    heads: Count = 8
    start: Positive = 1.0
    strict_paper: bool = False

    def _fit(self, data: CalibrationData) -> None:
        index = data.training
        if index is None and data.holdout is not None:
            index = data.holdout.index
        self.training_nodes_: dict[str, Any] | None = None
        if index is not None:
            fingerprint = data.neighbourhoods.fingerprint()
            self.training_nodes_ = {"index": index, "fingerprint": fingerprint}
        super()._fit(data)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        temperatures: Tensor = self._trained(data).temperatures(None)
        if self.strict_paper and bool((temperatures <= 0).any()):
            raise SolverError(
                f"the published formula of GATS gives {int((temperatures <= 0).sum())} nodes a "
                f"temperature that is not positive (lowest: {float(temperatures.min()):.3g}); "
                "strict_paper=False keeps all of them positive"
            )
        return temperatures

    def _network(self, data: NodeInputs) -> TemperatureAttention:
        distances = self._distances(data)
        return TemperatureAttention(
            data, distances, self.heads, self.start, bent=not self.strict_paper
        )

    def _distances(self, data: NodeInputs) -> Tensor | None:
        known, graph = self.training_nodes_, data.neighbourhoods
        if known is None:
            return None
        index = data.training
        if index is None and graph.fingerprint() == known["fingerprint"]:
            index = known["index"]
        return training_distances(index, graph)
