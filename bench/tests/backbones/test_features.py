"""Feature matrices in both kinds; dropout masks."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from simi_mailbox_bench.backbones.features import Features, dropout_mask, row_normalised


@pytest.mark.parametrize("density", [0.05, 0.9], ids=["sparse", "dense"])
def test_features_multiply_alike_however_they_are_given(density):
    x = sp.random_array((40, 30), density=density, rng=0, format="csr", dtype=np.float32)
    weight = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    expected = torch.from_numpy(x.toarray()) @ weight
    tensor = torch.from_numpy(x.toarray())
    for given in (x, x.toarray(), tensor, tensor.to_sparse_csr()):
        features = Features(given)
        assert features.is_dense == (density > 0.5)
        torch.testing.assert_close(features @ weight, expected, atol=1e-5, rtol=1e-4)
        rows = torch.tensor([7, 0, 39])
        torch.testing.assert_close(
            features.rows(rows) @ weight, expected[rows], atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("density", [0.1, 0.9], ids=["sparse", "dense"])
def test_dropped_features_average_to_the_whole(density):
    x = Features(sp.random_array((15, 20), density=density, rng=0, format="csr"))
    weight = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    generator = torch.Generator().manual_seed(1)
    draws = torch.stack([x.dropped(weight, 0.5, generator) for _ in range(500)])
    whole = (x @ weight).detach()
    error = (draws.detach().mean(0) - whole).abs() / (draws.detach().std(0) / np.sqrt(500) + 1e-6)
    assert error.max() < 5  # standard errors
    assert draws.detach().std(0).max() > 0
    # The gradient must see the same mask: output = X̃ W and ∂sum/∂W = X̃ᵀ 1.
    one = x.dropped(weight, 0.5, generator)
    (slope,) = torch.autograd.grad(one.sum(), weight)
    torch.testing.assert_close((slope * weight).sum(), one.sum(), atol=1e-4, rtol=1e-4)


def test_features_with_holes_are_refused():
    with pytest.raises(ValueError, match="nan or infinite"):
        Features(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match="must be a matrix"):
        Features(np.ones(3))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows_are_divided_by_sums_above_one(kind, dtype):
    x = np.array([[3, 1, 0], [0, 0, 0], [1, 0, 0], [0, 2, 6]], dtype=dtype)
    given = kind(x)
    normalised = row_normalised(given)
    dense = normalised.toarray() if sp.issparse(given) else normalised
    assert dense.tolist() == [[0.75, 0.25, 0], [0, 0, 0], [1, 0, 0], [0, 0.25, 0.75]]
    assert sp.issparse(normalised) == sp.issparse(given)
    unchanged = given.toarray() if sp.issparse(given) else given
    assert (unchanged == x).all()
    assert row_normalised(kind([[0.25, 0.0]])).sum() == 0.25  # small rows are left alone
    multiplied = Features(given, row_normalise=True) @ torch.eye(3)
    assert multiplied.tolist() == dense.tolist()


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_dropout_mask_is_unbiased_at_every_position(rate):
    # 128 positions cover two random words: a stuck bit in a word would show as a constant column.
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([dropout_mask(128, rate, generator) for _ in range(4000)])
    assert set(draws.unique().tolist()) == {0.0, torch.tensor(1 / (1 - rate)).item()}
    deviation = (draws.mean(0) - 1).abs().max().item()
    # Five standard errors of the mean of 4000 draws.
    assert deviation < 5 * np.sqrt(rate / (1 - rate) / 4000)
