"""A stream of one's own gives the numbers of the common one, and leaves that alone."""

import torch
from torch import nn

from simi_mailbox.calibrators.network import built, chosen, dropout, normal_like, seeded


def weights():
    first, second = nn.Linear(3, 4, dtype=torch.float64), nn.Linear(3, 4)
    nn.init.xavier_uniform_(second.weight)
    return [first.weight, first.bias, second.weight, second.bias, torch.randn(2, 3), torch.rand(5)]


def test_the_numbers_are_those_of_the_common_generator():
    x = torch.ones(50, 7)
    with torch.random.fork_rng():
        torch.manual_seed(9)
        expected = [*weights(), nn.functional.dropout(x, 0.3), torch.randn_like(x)]
    with seeded(9):
        found = [*built(weights), dropout(x, 0.3, training=True), normal_like(x)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_dropout_is_nothing_at_prediction_and_with_probability_zero():
    x = torch.ones(50)
    assert dropout(x, 0.3, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_the_share_is_chosen_place_by_place():
    with seeded(3):
        picked = chosen((1001, 301), 0.3)
        again = chosen((1001, 301), 0.3)
    deviation = (0.3 * 0.7 / 1001) ** 0.5
    assert picked.shape == (1001, 301)
    assert (picked != again).any()
    for mean in (picked.float().mean(dim=0), (picked & again).float().mean(dim=0) / 0.3):
        assert (mean - 0.3).abs().max() < 9 * deviation
    beside = (picked[:, 1:] & picked[:, :-1]).float().mean()
    assert abs(float(beside) - 0.09) < 0.003
    with seeded(3):
        assert not chosen((1000,), 0.0).any()
        assert chosen((1000,), 1.0).all()
