"""Units over edges in blocks: values and gradients are those of the plain formula."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.calibrators.parts import edge_units as module
from simi_mailbox.calibrators.parts.edge_units import edge_units


@given(
    nodes=st.integers(1, 6),
    edges=st.integers(0, 30),
    width=st.integers(1, 5),
    block=st.sampled_from([1, 7, 2**16]),
    dropped=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_values_and_gradients_in_blocks_are_those_of_the_formula(
    nodes: int, edges: int, width: int, block: int, dropped: bool, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    ends = tuple(torch.randint(nodes, (2, edges), generator=random))
    shapes = (nodes, width), (nodes, width), (width,)
    inputs = [torch.randn(s, generator=random, dtype=torch.float64) for s in shapes]
    kept = torch.rand((edges, width), generator=random) < 0.5 if dropped else None
    above = torch.randn(edges, generator=random, dtype=torch.float64)

    def values(a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        units = (a[ends[0]] + b[ends[1]]).relu()
        return (units if kept is None else units * kept) @ weight

    ours, theirs = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        found = edge_units((ends[0], ends[1]), ours[0], ours[1], ours[2], kept)
        found.backward(above)
    expected = values(*theirs)
    expected.backward(above)
    torch.testing.assert_close(found, expected)
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, reference.grad)
