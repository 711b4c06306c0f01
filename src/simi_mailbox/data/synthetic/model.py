"""`BlockModel`: the parameters of a contextual stochastic block model, and its node draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Floats, Ints

# One stream of random numbers for each kind of draw, so that changing, say, the number of
# features leaves labels and edges as they were.
LABELS, PROPENSITY, MEANS, NOISE, COUNTS, EDGES = range(6)


@dataclass(frozen=True)
class BlockModel:
    r"""Degree-corrected stochastic block model with Gaussian node features.

    * class: :math:`y_i \sim \pi`, independently;
    * features: :math:`x_i \sim N(\mu_{y_i}, \sigma^2 I)`;
    * edges: nodes i and j are joined with probability :math:`1 - \exp(-\lambda_{ij})`,
      independently, where :math:`\lambda_{ij} = \theta_i \theta_j c_{in}` if their classes are
      equal and :math:`\theta_i \theta_j c_{out}` if not. :math:`c_{in}` and :math:`c_{out}` are
      such that the expected mean degree and the expected share of edges within classes are as
      asked (up to the rare pairs drawn twice, which are merged).

    Parameters
    ----------
    n, classes
        Number of nodes and of classes.
    prior
        Class probabilities π; uniform by default.
    mean_degree
        Expected number of neighbours, averaged over nodes.
    homophily
        Expected share of edges that join two nodes of one class, 0 to 1. Σ π² is "no structure".
    degree_law
        "constant": all propensities θ are 1, degrees are Poisson within a class; "power": θ has
        density ∝ θ^-exponent, cut at sqrt(n), scaled to mean 1.
    exponent
        Exponent of the power law, above 2.
    features, separation, noise
        Feature dimension, distance of the class means μ from the origin, and standard deviation σ.
    seed
        Everything follows from it.

    Examples
    --------
    >>> model = BlockModel(1000, 3, homophily=0.9, seed=1)
    >>> model.labels()[:8].tolist() == BlockModel(1000, 3, seed=1).labels()[:8].tolist()
    True
    """

    n: int
    classes: int = 4
    prior: Sequence[float] | None = None
    mean_degree: float = 10.0
    homophily: float = 0.8
    degree_law: Literal["constant", "power"] = "constant"
    exponent: float = 2.5
    features: int = 16
    separation: float = 1.0
    noise: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 2 or self.classes < 2 or self.features < 1:
            raise ValueError(
                f"need n ≥ 2, classes ≥ 2 and features ≥ 1, got n={self.n}, "
                f"classes={self.classes}, features={self.features}"
            )
        if not 0 <= self.homophily <= 1:
            raise ValueError(f"homophily is a share between 0 and 1, got {self.homophily}")
        if not 0 < self.mean_degree < self.n:
            raise ValueError(f"mean_degree must be above 0 and below n, got {self.mean_degree}")
        if self.degree_law not in ("constant", "power"):
            raise ValueError(f"degree_law is 'constant' or 'power', got {self.degree_law!r}")
        if self.exponent <= 2:
            raise ValueError(
                f"exponent must be above 2 for degrees to have a mean, got {self.exponent}"
            )
        if self.noise <= 0 or self.separation < 0:
            raise ValueError(
                f"need noise > 0 and separation ≥ 0, got {self.noise} and {self.separation}"
            )
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        if self.prior is not None:
            prior = np.asarray(self.prior, dtype=np.float64)
            if prior.shape != (self.classes,) or (prior <= 0).any():
                raise ValueError(
                    f"prior needs {self.classes} positive numbers, got {list(self.prior)}"
                )
            if abs(prior.sum() - 1) > 1e-6:
                raise ValueError(f"prior must sum to 1, got {prior.sum():g}")

    def rng(self, *key: int) -> np.random.Generator:
        """Random generator of one kind of draw."""
        return np.random.default_rng([self.seed, *key])

    @property
    def class_probabilities(self) -> Floats:
        """The prior π."""
        if self.prior is None:
            return np.full(self.classes, 1 / self.classes)
        prior = np.asarray(self.prior, dtype=np.float64)
        return np.asarray(prior / prior.sum())

    @property
    def rates(self) -> tuple[float, float]:
        """(c_in, c_out): edge rates within and between classes for propensities of 1."""
        same = float((self.class_probabilities**2).sum())
        density = self.mean_degree / self.n
        return self.homophily * density / same, (1 - self.homophily) * density / (1 - same)

    def labels(self) -> Ints:
        """Classes of all nodes."""
        edges = np.cumsum(self.class_probabilities)[:-1]
        return np.searchsorted(edges, self.rng(LABELS).random(self.n), side="right")

    def propensities(self) -> Floats:
        """θ of all nodes, with mean 1; drawn independently of the classes."""
        if self.degree_law == "constant":
            return np.ones(self.n)
        uniform = 1.0 - self.rng(PROPENSITY).random(self.n)
        theta = np.minimum(uniform ** (-1 / (self.exponent - 1)), np.sqrt(self.n))
        return np.asarray(theta / theta.mean())

    def means(self) -> Floats:
        """Class means μ, [classes, features]: random directions of length ``separation``."""
        directions = self.rng(MEANS).standard_normal((self.classes, self.features))
        length = np.linalg.norm(directions, axis=1, keepdims=True)
        return np.asarray(self.separation * directions / length)

    def node_features(self, labels: Ints) -> npt.NDArray[np.float32]:
        """Features of all nodes, [n, features]."""
        noise = self.rng(NOISE).standard_normal((self.n, self.features), dtype=np.float32)
        noise *= np.float32(self.noise)
        noise += self.means().astype(np.float32)[labels]
        return noise
