"""Descent on DecoReco's energy from given images, in coordinates and in all pixels."""

from __future__ import annotations

import torch

from recon.analysis.landscape import StationarityAttack
from recon.analysis.pixel_descent import descend_in_pixels
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.nets.mlp import three_layer
from recon.optim.descent import HeavyBall
from recon.released import Weights


def test_descent_in_the_span_of_weights_and_starts_is_the_one_in_all_pixels():
    network = three_layer(5, 30)
    generator = torch.Generator().manual_seed(1)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    x = torch.randn(2, 4, 30, generator=generator, dtype=torch.float64)
    descent = HeavyBall(0.01, 0.9)
    attack = StationarityAttack(Weights(network, theta), half_and_half(4, dtype=torch.float64), descent)
    plain = reconstruct(attack, x, 25).x_hat
    assert (plain - x).abs().max() > 1e-3  # it moved
    found = descend_in_pixels(Weights(network, theta), x, list(x), 25, descent)
    torch.testing.assert_close(found, plain, atol=1e-8, rtol=0)
