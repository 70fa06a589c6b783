"""Every attack on the GPU finds what it finds on the CPU; skipped where there is no GPU.

R-GAP is not here: SciPy solves its systems, on the CPU.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import pytest
import torch
from small_networks import SMALL, some_gradient
from torch.nn.functional import normalize

from companion.chapters.leakage_common import SEED
from recon.attacks.bilevel import BilevelAttack
from recon.attacks.decoreco import DecoReco, half_and_half
from recon.attacks.gradient_matching import cosine_tv, dlg, hybrid, seeded_start
from recon.attacks.haim_recipe import PublishedSettings, recover_as_published
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings, recover
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.nets.mlp import affine, three_layer
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


def placed(value, device):
    """The same on a device: a tensor, or a dataclass or dictionary of what holds tensors."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {name: placed(inner, device) for name, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        moved = {
            name: placed(inner, device)
            for name, inner in held.items()
            if isinstance(inner, torch.Tensor | dict)
        }
        return replace(value, **moved)
    return value


def alike(attack, released):
    """`attack`(released) gives a tensor, on the device of what it got, and the same on both."""
    there = attack(placed(released, "cuda"))
    assert there.is_cuda and torch.isfinite(there).all()
    torch.testing.assert_close(there.cpu(), attack(released), rtol=1e-3, atol=1e-3)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def weights():
    """A net of three layers that has learned nothing: what is compared is arithmetic."""
    network = three_layer(12, 20)
    return Weights(network, network.flatten(network.init(seeded(2), dtype=torch.float64)))


def test_separation():
    sources = torch.distributions.Laplace(0.0, 1.0).icdf(
        torch.rand(6, 1000, generator=seeded(1)) * 0.998 + 0.001
    )
    first = FirstLayer(torch.randn(30, 6, generator=seeded(2)) @ sources)
    # to the end, whatever the signs of the SVD
    settings = SeparationSettings(restarts=2, iterations=300, tol=1e-6)

    def attack(layer):
        sources = normalize(separate(layer, (1000,), settings, seeded()).sources, dim=1)
        return sources * sources.sum(1, keepdim=True).sign()

    alike(attack, first)


def test_decoreco(weights):
    start = 0.1 * torch.randn(2, 4, 20, generator=seeded(), dtype=torch.float64)

    def attack(released):
        theta = released.theta_star
        unit = torch.full((2, 4), 0.1).to(theta)
        chosen = DecoReco(released, half_and_half(4, theta.device, theta.dtype), unit, 30)
        return reconstruct(chosen, start.to(theta), 30).x_hat

    alike(attack, weights)


@pytest.mark.parametrize("project", [True, False])
def test_recover(weights, project):
    settings = RecoverSettings(m=4, restarts=3, steps=20, scale_steps=4, project=project)
    alike(lambda released: recover(released, settings, seeded()).x_hat, weights)


def test_the_reference_recipe(weights):
    settings = PublishedSettings(m=4, steps=20, init_scale=0.1)
    alike(lambda released: recover_as_published(released, settings, seeded()).x_hat, weights)


def test_bilevel_on_the_affine_net():
    x = torch.rand(2, 6, 30, generator=seeded(), dtype=torch.float64)
    y = (torch.arange(6) % 2).double()
    theta = solve_affine(Objective(affine(30), y, 1e-2), x[:1]).theta[0]

    def attack(released):
        chosen = BilevelAttack(released, HeavyBall(0.3, 0.9))
        return reconstruct(chosen, x[1:].to(released.theta_star), 50).x_hat

    alike(attack, Weights(affine(30), theta, y=y, weight_decay=1e-2))


def test_gradient_matching():
    gradient, _ = some_gradient(SMALL)
    alike(lambda released: cosine_tv(released, seeded_start(released, SEED), 30).x_hat, gradient)


def test_hybrid():
    gradient, _ = some_gradient(SMALL)
    alike(lambda released: hybrid(released, share=0.002), gradient)


def test_dlg():
    gradient, _ = some_gradient(SMALL, 1)
    alike(lambda released: dlg(released, seeded_start(released, SEED), 3)[0], gradient)
