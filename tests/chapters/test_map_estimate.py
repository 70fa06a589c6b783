"""The most probable image of an adversary who knows photographs, or single pixels, and is sent a
noisy gradient.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.covariance import LedoitWolf

from companion.chapters.leakage_defences.experiment import GaussianPrior, map_estimate
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


def drawn(count: int, dim: int) -> torch.Tensor:
    """Public images with a covariance of their own, (count, dim)."""
    own = torch.Generator().manual_seed(1)
    mix = torch.randn(dim, dim, generator=own, dtype=torch.float64) / math.sqrt(dim)
    return 0.1 + 0.2 * torch.randn(count, dim, generator=own, dtype=torch.float64) @ mix


def test_the_prior_is_mean_and_ledoit_wolfs_covariance():
    x = drawn(30, 12)
    prior, theirs = GaussianPrior.of(x.view(30, 3, 2, 2)), LedoitWolf().fit(x.numpy())
    assert np.allclose(prior.covariance, theirs.covariance_)
    assert np.allclose(prior.mean, theirs.location_)
    # fewer images than pixels
    assert torch.linalg.eigvalsh(GaussianPrior.of(drawn(3, 12)).covariance).min() > 0


@pytest.mark.parametrize("convs", [(), (Conv(3, 2),)])
def test_it_is_where_the_posterior_is_flat(convs):
    """The gradient of ‖g(x) − g‖²/σ² + (x − m)ᵀS⁻¹(x − m) vanishes, by an autograd Jacobian."""
    gradient, _ = noisy(ConvNet(convs, shape=(1, 4, 4), classes=3))
    prior = GaussianPrior.of(drawn(200, 16))
    guess = map_estimate(gradient, SIGMA, prior, steps=40)
    assert (guess.energy.diff() < 0).all()

    def residual(x):
        parts = gradient.network.gradients(gradient.theta, x.view(1, 1, 4, 4), gradient.labels)
        return torch.cat([(parts[name] - g).flatten() for name, g in gradient.gradients.items()])

    jacobian = torch.func.jacrev(residual)(guess.x)
    pull = torch.linalg.inv(prior.covariance) @ (guess.x - prior.mean)
    slope = jacobian.mT @ residual(guess.x) / SIGMA**2 + pull
    assert slope.abs().max() < 1e-3 * pull.abs().max()


def test_without_correlations_it_is_the_most_probable_image():
    gradient, _ = noisy(ConvNet((), shape=(1, 4, 4), classes=3))
    flat = GaussianPrior(torch.zeros(16).double(), torch.eye(16).double() / 12)
    with_flat = map_estimate(gradient, SIGMA, flat).x
    assert torch.allclose(with_flat, map_estimate(gradient, SIGMA, 1 / 12).x, atol=1e-7)


def test_much_noise_leaves_the_mean_and_little_the_image():
    prior = GaussianPrior.of(drawn(200, 16))
    network = ConvNet((), shape=(1, 4, 4), classes=3)
    gradient, x = noisy(network, 1e3)
    assert (map_estimate(gradient, 1e3, prior).x - prior.mean).abs().max() < 1e-2
    gradient, x = noisy(network, 1e-7)
    assert (map_estimate(gradient, 1e-7, prior).x - x).abs().max() < 1e-4
    for sigma, other in ((0.0, prior), (math.nan, prior), (0.1, 0.0)):
        with pytest.raises(ReconError, match="noise must be positive"):
            map_estimate(gradient, sigma, other)
