"""Likelihoods against torch's cross-entropy."""

import pytest
import torch
import torch.nn.functional as F

from simi_mailbox.calibrators.parts import likelihood
from simi_mailbox.validation import Labelled

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 4 * torch.randn(50, 3, generator=GENERATOR, dtype=torch.float64)
NODES = Labelled(torch.randperm(50, generator=GENERATOR)[:30], torch.arange(30) % 3)
SCALES = torch.rand(30, generator=GENERATOR, dtype=torch.float64)


def test_scaled_nll_is_the_cross_entropy_of_the_scaled_logits_in_any_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = F.cross_entropy(LOGITS[NODES.index] * SCALES[:, None], NODES.y)
    for elements in (1, 20, 1 << 16):
        monkeypatch.setattr(likelihood, "CACHED_ELEMENTS", elements)
        nll = likelihood.scaled_nll(LOGITS)(NODES)
        torch.testing.assert_close(nll(SCALES), expected)
        assert torch.autograd.gradcheck(nll, (SCALES.clone().requires_grad_(),))


def test_scaled_nll_does_not_overflow() -> None:
    nll = likelihood.scaled_nll(torch.tensor([[1e4, -1e4]]))
    right, wrong = (Labelled(torch.tensor([0]), torch.tensor([k])) for k in (0, 1))
    assert nll(right)(torch.ones(1)).item() == 0.0
    assert nll(wrong)(torch.ones(1)).item() == 2e4
