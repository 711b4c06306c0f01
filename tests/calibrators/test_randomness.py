"""Shares of places that are drawn fast are the shares that were asked for."""

from simi_mailbox.calibrators.network import chosen, seeded


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
