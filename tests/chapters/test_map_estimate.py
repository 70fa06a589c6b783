"""The most probable image of an adversary who knows single pixels and is sent a noisy gradient."""

from __future__ import annotations

import math

import pytest
import torch

from companion.chapters.leakage_common import PRIOR
from companion.chapters.leakage_defences.experiment import map_estimate
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet
from recon.released import Gradient

SIGMA = 0.01


def noisy(network: ConvNet, sigma: float = SIGMA) -> tuple[Gradient, torch.Tensor]:
    """One image's gradient with noise, and the image."""
    own = torch.Generator().manual_seed(0)
    theta = network.init(own, torch.float64)
    x = torch.rand(1, *network.shape, generator=own).double() - 0.5
    clean = Gradient.each(network, theta, x, torch.tensor([1]))
    sent = {
        name: g + sigma * torch.randn(g.shape, generator=own, dtype=g.dtype)
        for name, g in clean.gradients.items()
    }
    return Gradient(network, theta, clean.labels, sent), x.flatten()


@pytest.mark.parametrize("convs", [(), (Conv(3, 2),)])
def test_it_is_where_the_posterior_is_flat(convs):
    """The gradient of ‖g(x) − g‖²/σ² + ‖x‖²/v vanishes, by an autograd Jacobian."""
    gradient, _ = noisy(ConvNet(convs, shape=(1, 4, 4), classes=3))
    guess = map_estimate(gradient, SIGMA, steps=40)
    assert (guess.energy.diff() < 0).all()

    def residual(x):
        parts = gradient.network.gradients(gradient.theta, x.view(1, 1, 4, 4), gradient.labels)
        return torch.cat([(parts[name] - g).flatten() for name, g in gradient.gradients.items()])

    jacobian = torch.func.jacrev(residual)(guess.x)
    pull = guess.x / PRIOR
    slope = jacobian.mT @ residual(guess.x) / SIGMA**2 + pull
    assert slope.abs().max() < 1e-3 * pull.abs().max()


def test_much_noise_leaves_grey_and_little_the_image():
    network = ConvNet((), shape=(1, 4, 4), classes=3)
    gradient, x = noisy(network, 1e3)
    assert map_estimate(gradient, 1e3).x.abs().max() < 1e-2
    gradient, x = noisy(network, 1e-7)
    assert (map_estimate(gradient, 1e-7).x - x).abs().max() < 1e-4
    for sigma in (0.0, math.nan):
        with pytest.raises(ReconError, match="noise must be positive"):
            map_estimate(gradient, sigma)
