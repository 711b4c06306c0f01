"""Mahalanobis distances: against SciPy, sparse as dense, degenerate representations."""

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist

import simi_mailbox.calibrators.features as module
from simi_mailbox.calibrators.features import distances, fit_prototypes


def problem(n=300, width=5):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, width)) @ rng.normal(size=(width, width)) + 3
    return x, rng.dirichlet(np.ones(4), size=n)


def test_distances_against_scipy():
    x, probs = problem()
    means, precision = fit_prototypes(x, probs)
    scatter = sum(
        probs[i, k] * np.outer(x[i] - means[k], x[i] - means[k])
        for i in range(len(x))
        for k in range(4)
    ) / len(x)
    covariance = 0.9 * scatter + 0.1 * np.trace(scatter) / 5 * np.eye(5)
    expected = cdist(x, means, "mahalanobis", VI=np.linalg.inv(covariance)) / np.sqrt(5)
    np.testing.assert_allclose(distances(x, means, precision), expected, rtol=1e-8)
    np.testing.assert_allclose(means, (probs.T @ x) / probs.sum(axis=0)[:, None])


def test_wide_representations_use_the_diagonal(monkeypatch):
    x, probs = problem()
    monkeypatch.setattr(module, "WIDEST", 4)
    means, precision = fit_prototypes(x, probs)
    assert precision.shape == (5,)
    expected = cdist(x, means, "mahalanobis", VI=np.diag(precision)) / np.sqrt(5)
    np.testing.assert_allclose(distances(x, means, precision), expected, rtol=1e-8)


@pytest.mark.parametrize("widest", [4, 512])
def test_sparse_as_dense(monkeypatch, widest):
    monkeypatch.setattr(module, "WIDEST", widest)
    x, probs = problem()
    x[np.abs(x) < 2] = 0
    thin = scipy.sparse.csr_array(x)
    dense, sparse = (distances(part, *fit_prototypes(part, probs)) for part in (x, thin))
    np.testing.assert_allclose(sparse, dense)


def test_constant_representations_have_no_distance():
    means, precision = fit_prototypes(np.full((10, 3), 7.0), np.full((10, 2), 0.5))
    found = distances(np.full((2, 3), 7.0), means, precision)
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_class_that_nobody_is_predicted_to_be():
    x, probs = problem()
    probs[:, 3] = 0
    means, _ = fit_prototypes(x, probs)
    np.testing.assert_allclose(means[3], x.mean(axis=0))
