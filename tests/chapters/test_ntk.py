"""The attack on θ* − θ⁰ by tangents: an autograd oracle, an exact solution, a start that is known in part."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad

from companion.chapters.seed.ntk import TangentMatching, beta, random_candidates
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.released import Weights

F64 = torch.float64
BETA = 30.0


def tangents(network: MLP, theta: torch.Tensor, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Σ c_i ∇_θ Φ(x_i; θ) by autograd, with the softplus that the attack has."""
    smooth = MLP(network.widths, smoothing=BETA)
    return sum(
        weight * grad(lambda t, one=one: smooth(smooth.unflatten(t), one[None])[0])(theta)
        for weight, one in zip(c, x, strict=True)
    )


@pytest.fixture
def case():
    """A network 6-8-5-1, three images and signed coefficients, in float64."""
    own = torch.Generator().manual_seed(3)
    network = MLP((6, 8, 5, 1))
    theta = network.flatten(network.init(own, dtype=F64))
    x, c = torch.randn(3, 6, generator=own, dtype=F64) / 3, torch.tensor([0.7, -0.4, 0.2], dtype=F64)
    return network, theta, x, c


def test_the_energy_is_the_squared_rest_by_autograd(case):
    network, theta, x, c = case
    start = theta - torch.randn(theta.shape, generator=torch.Generator().manual_seed(4), dtype=F64)
    attack = TangentMatching(Weights(network, theta, start), c[None], 10, box_weight=0.0)
    wanted = (theta - start - tangents(network, theta, x, c)).square().sum()
    assert torch.allclose(attack.energy(x[None], c[None], BETA)[0], wanted, rtol=1e-12)
    assert not torch.allclose(attack.energy(x[None], -c[None], BETA)[0], wanted, rtol=1e-3)


def test_it_is_zero_at_images_that_explain_the_update(case):
    network, theta, x, c = case
    start = theta - tangents(network, theta, x, c)
    attack = TangentMatching(Weights(network, theta, start), c[None], 10)
    assert attack.energy(x[None], c[None], BETA)[0] < 1e-24
    assert attack.energy(x[None] * 1.1, c[None], BETA)[0] > 1e-5


def test_the_box_is_between_minus_one_and_one(case):
    network, theta, x, c = case
    start = theta - tangents(network, theta, x, c)
    attack = TangentMatching(Weights(network, theta, start), torch.zeros(1, 3, dtype=F64), 10, box_weight=0.5)
    outside = torch.tensor([[[3.0, 0, 0, 0, 0, -2.0], [0.0] * 6, [0.0] * 6]], dtype=F64)
    bare = TangentMatching(attack.weights, attack.multipliers_init, 10, box_weight=0.0)
    none = torch.zeros(1, 3, dtype=F64)
    assert (attack.energy(outside, none, BETA) - bare.energy(outside, none, BETA)).item() == pytest.approx(
        0.5 * (4 + 1) / 6
    )


def test_one_image_comes_back(case):
    network, theta, x, _ = case
    wide = MLP((6, 60, 1))
    theta = wide.flatten(wide.init(torch.Generator().manual_seed(1), dtype=F64))
    smooth = MLP(wide.widths, smoothing=200.0)
    sent = 0.8 * grad(lambda t: smooth(smooth.unflatten(t), x[:1])[0])(theta)
    start, c = random_candidates(1, 6, torch.Generator().manual_seed(0))
    found = reconstruct(TangentMatching(Weights(wide, theta, theta - sent), c.double(), 1500), start.double(), 1500)
    ncc = torch.corrcoef(torch.stack([found.x_hat[0, 0], x[0]]))[0, 1].abs()
    assert ncc > 0.999 and found.energy[0] < 1e-3 * sent.square().sum()
    assert found.accepted["multipliers"].shape == (1, 1)


def test_the_slope_grows_and_the_start_is_that_of_the_authors_code():
    assert [beta(k, 80_000) for k in (0, 20_000, 80_000)] == [11.0, 20.0, 200.0]
    x, c = random_candidates(4000, 5, torch.Generator().manual_seed(0))
    assert x.std().item() == pytest.approx(0.2, rel=0.02)
    assert c.min() > -0.5 and c.max() < 0.5 and c.std().item() == pytest.approx(12**-0.5, rel=0.03)


def test_what_does_not_fit_is_refused(case):
    network, theta, x, c = case
    with pytest.raises(ReconError, match="start"):
        TangentMatching(Weights(network, theta), c[None], 10)
    with pytest.raises(ReconError, match="multipliers_init"):
        TangentMatching(Weights(network, theta, theta), c, 10)
    with pytest.raises(ReconError, match="one θ"):
        TangentMatching(Weights(network, theta.expand(2, -1), theta.expand(2, -1)), c[None], 10)
    with pytest.raises(ReconError, match="does not fit"):
        TangentMatching(Weights(network, theta, theta), c[None], 10).init(x[None, :2])
