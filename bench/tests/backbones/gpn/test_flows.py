"""Radial flows: densities, inverse, determinant."""

import math

import numpy as np
import pytest
import torch

from simi_mailbox_bench.backbones import gpn as module
from simi_mailbox_bench.backbones.gpn import RadialFlows


def flows(num_flows: int, dim: int, num_layers: int, seed: int = 0) -> RadialFlows:
    """Flows far from their mild initial values, so that the tests see real distortion."""
    made = RadialFlows(num_flows, dim, num_layers, torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(1.5 * torch.randn(parameter.shape, generator=generator))
    return made.double()


def test_density_integrates_to_one_in_one_dimension() -> None:
    model = flows(4, dim=1, num_layers=6)
    grid = torch.linspace(-40, 40, 80_001, dtype=torch.float64).unsqueeze(1)
    with torch.no_grad():
        density = model.log_prob(grid).exp()
    total = torch.trapezoid(density, grid, dim=0)
    np.testing.assert_allclose(total.numpy(), np.ones(4), atol=1e-4)


def test_density_integrates_to_one_in_two_dimensions() -> None:
    model = flows(3, dim=2, num_layers=4)
    axis = torch.linspace(-16, 16, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    with torch.no_grad():
        density = model.log_prob(grid).exp().reshape(801, 801, 3)
    total = torch.trapezoid(torch.trapezoid(density, axis, dim=1), axis, dim=0)
    np.testing.assert_allclose(total.numpy(), np.ones(3), atol=2e-3)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_log_determinant_agrees_with_autograd(dim: int) -> None:
    model = flows(2, dim=dim, num_layers=5)
    points = torch.randn(7, dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    _, log_det = model(points)
    for flow in range(2):
        for node, point in enumerate(points):
            jacobian = torch.autograd.functional.jacobian(
                lambda z, flow=flow: model(z.unsqueeze(0))[0][flow, 0], point
            )
            sign, expected = torch.linalg.slogdet(jacobian)
            assert sign == 1
            assert log_det[flow, node].item() == pytest.approx(expected.item(), abs=1e-9)


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_inverse_undoes_forward(dim: int) -> None:
    model = flows(3, dim=dim, num_layers=8)
    points = 3 * torch.randn(
        50, dim, generator=torch.Generator().manual_seed(4), dtype=torch.float64
    )
    with torch.no_grad():
        images, _ = model(points)
        back = model.inverse(images)
    np.testing.assert_allclose(back.numpy(), points.expand(3, -1, -1).numpy(), atol=1e-8)


def test_inverse_at_the_centre_is_the_centre() -> None:
    model = flows(1, dim=2, num_layers=1)
    centre = model.centre[0, 0].detach()
    with torch.no_grad():
        image, _ = model(centre.unsqueeze(0))
        back = model.inverse(image)
    np.testing.assert_allclose(back[0, 0].numpy(), centre.numpy(), atol=1e-12)


def test_a_flow_with_gamma_equal_to_alpha_is_the_standard_normal() -> None:
    model = flows(2, dim=3, num_layers=4)
    with torch.no_grad():
        model.raw_gamma.copy_(model.raw_alpha)
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = -0.5 * (points.square().sum(1) + 3 * math.log(2 * math.pi))
    with torch.no_grad():
        log_prob = model.log_prob(points)
    np.testing.assert_allclose(log_prob.numpy(), expected.unsqueeze(1).expand(-1, 2).numpy())


def test_each_class_has_its_own_density() -> None:
    both = flows(2, dim=2, num_layers=3)
    points = torch.randn(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    single = flows(1, dim=2, num_layers=3)
    with torch.no_grad():
        for own, shared in zip(single.parameters(), both.parameters(), strict=True):
            own.copy_(shared[:, 1:2])
        np.testing.assert_allclose(
            single.log_prob(points)[:, 0].numpy(), both.log_prob(points)[:, 1].numpy()
        )


def test_gradients_agree_with_finite_differences() -> None:
    model = flows(2, dim=3, num_layers=3)
    points = torch.randn(4, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)

    def outputs(z: torch.Tensor, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named = dict(zip(dict(model.named_parameters()), parameters, strict=True))
        images, log_det = torch.func.functional_call(model, named, (z,))
        return images, log_det

    inputs = (points.requires_grad_(), *model.parameters())
    assert torch.autograd.gradcheck(outputs, inputs)


def test_gradient_at_a_centre_is_finite() -> None:
    model = flows(1, dim=2, num_layers=2)
    point = model.centre[0].detach().clone().requires_grad_()
    model.log_prob(point).sum().backward()
    assert bool(torch.isfinite(point.grad).all())
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())


def test_blocks_change_nothing() -> None:
    model = flows(3, dim=2, num_layers=3)
    points = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = model._log_prob(points)
    torch.testing.assert_close(model.log_prob(points[:300]), whole[:300])
    assert module._SMALLEST_BLOCK < 300  # so that 300 points are more than one block when forced
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_NUMBERS", 1)
        torch.testing.assert_close(model.log_prob(points), whole)


def test_same_seed_same_bits() -> None:
    first, second = (
        RadialFlows(2, 3, 4, torch.Generator().manual_seed(7)).state_dict() for _ in range(2)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_refuses_an_empty_flow() -> None:
    with pytest.raises(ValueError, match="num_layers must be at least 1, got 0"):
        RadialFlows(2, 3, 0, torch.Generator())
