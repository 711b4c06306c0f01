"""Setting the confidence: ratios of the other classes and the predicted class stay."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simi_mailbox.calibrators.parts.likelihood import with_confidence


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    classes=st.integers(2, 8),
    size=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4]),
    wanted=st.floats(0, 1),
)
def test_confidence_is_set_or_raised_to_the_tie(
    seed: int, classes: int, size: float, wanted: float
) -> None:
    z = torch.randn(5, classes, generator=torch.Generator().manual_seed(seed)).double() * size
    probs = with_confidence(z, torch.full((5,), wanted, dtype=torch.float64))
    winner = z.argmax(dim=1, keepdim=True)
    top = probs.gather(1, winner).squeeze(1)
    others = probs.scatter(1, winner, -1.0)
    assert torch.allclose(probs.sum(dim=1), torch.ones(5, dtype=torch.float64))
    assert bool((top >= others.amax(dim=1) - 1e-12).all())
    raised = top > wanted + 1e-12
    # Where it was raised, it was raised exactly to the tie and no further.
    assert torch.allclose(top[raised], others.amax(dim=1)[raised])
    assert bool((top >= wanted - 1e-12).all())


def test_other_classes_keep_their_ratios() -> None:
    z = torch.tensor([[5.0, 2.0, 1.0, 0.0]], dtype=torch.float64)
    before, after = torch.softmax(z, dim=1)[0], with_confidence(z, torch.tensor([0.6]))[0]
    assert abs(float(after[0]) - 0.6) < 1e-7
    assert torch.allclose(after[1:] / after[1], before[1:] / before[1])
