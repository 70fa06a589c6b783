"""Descent on DecoReco's energy from given images, in coordinates and in all pixels."""

from __future__ import annotations

import torch

from companion.chapters.landscape.pixel_descent import descend_in_pixels, further_fall
from recon.analysis.landscape import StationarityAttack
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings, tuned_attack
from recon.attacks.stationarity import stationarity
from recon.nets.mlp import three_layer
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.training.kkt import KKTSettings, certificate, train_to_kkt


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


def test_a_search_has_ended_when_little_of_the_first_layer_can_still_be_removed():
    """Against R at the best multipliers by SciPy's NNLS; large at noise, small after a long search, also in a span."""
    network, generator = three_layer(20, 30), torch.Generator().manual_seed(1)
    truth, noise = torch.randn(2, 4, 30, generator=generator, dtype=torch.float64)
    labels = half_and_half(4, dtype=torch.float64)
    theta = network.flatten(network.init(generator, "small", dtype=torch.float64))
    theta = train_to_kkt(network, truth, (labels + 1) / 2, theta, KKTSettings(300)).theta_star
    weights, settings = Weights(network, theta), RecoverSettings(m=4, layer_weights=(1.0, 1.0, 1.0))
    at_noise = further_fall(weights, noise[None], settings, 60)
    assert at_noise.shape == (1,) and at_noise.item() > 0.2
    fitted = certificate(network, theta, noise, (labels + 1) / 2, alpha=100.0, layer_weights=(1.0, 1.0, 1.0))
    attack = tuned_attack(weights, labels, fitted.multipliers.clamp_min(1e-9)[None], 60, settings)
    before = stationarity(weights, noise[None], fitted.multipliers[None] * labels)
    after = reconstruct(attack, noise[None], 60).energy
    torch.testing.assert_close(at_noise, (before.energy - after) / before.by_layer[:, 0], rtol=1e-2, atol=0)
    attack = tuned_attack(weights, labels, torch.full((1, 4), 0.1, dtype=torch.float64), 4000, settings)
    ended = reconstruct(attack, noise[None], 4000).x_hat
    assert further_fall(weights, ended, settings, 60).item() < 0.2 * at_noise.item()
    everything = Subspace(torch.eye(30, dtype=torch.float64))
    torch.testing.assert_close(further_fall(weights, noise[None], settings, 60, everything), at_noise)
    space = Subspace.spanned_by(weights.params["w1"][:3])
    assert 0 < further_fall(weights, space.lift(space.reduce(noise))[None], settings, 60, space).item() < 1.5
