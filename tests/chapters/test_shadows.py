"""Many networks at once are the same as one after another by automatic differentiation."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.all_but_one import shadows
from companion.chapters.all_but_one.shadows import AllButOne, Recipe
from recon.errors import ReconError
from recon.nets.mlp import MLP, affine

N = 7


def world(smoothing: float | None = 1.0, steps: int = 12) -> tuple[AllButOne, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    network = MLP((9, 5, 4), smoothing=smoothing)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    x = torch.rand(N + 5, 9, generator=generator, dtype=torch.float64)
    labels = torch.arange(N + 5) % 4
    return AllButOne(network, theta, x[:N], labels[:N], Recipe(steps, 0.2, 0.8)), x[N:], labels[N:]


@pytest.mark.parametrize("smoothing", [1.0, None])
def test_every_network_is_the_one_by_autograd(smoothing):
    everybody, own, labels = world(smoothing)
    found = everybody.train(own, labels)
    for k in range(len(own)):
        theta, speed = everybody.theta_init.clone(), 0.0
        x, y = torch.cat([everybody.x, own[k : k + 1]]), torch.cat([everybody.labels, labels[k : k + 1]])
        for _ in range(12):
            theta.requires_grad_()
            out = everybody.network(everybody.network.unflatten(theta), x)
            speed = 0.8 * speed + torch.autograd.grad(torch.nn.functional.cross_entropy(out, y), theta)[0]
            theta = (theta - 0.2 * speed).detach()
        assert torch.allclose(found[k], theta, atol=1e-12)


def test_batches_do_not_matter(monkeypatch):
    everybody, own, labels = world()
    whole = everybody.train(own, labels)
    monkeypatch.setattr(shadows, "AT_ONCE", 2)
    assert torch.allclose(everybody.train(own, labels), whole, atol=1e-14)
    assert not torch.allclose(everybody.train(own, labels.roll(1)), whole)


def test_other_networks_are_refused():
    everybody, *_ = world()
    for network in (affine(9), MLP((9, 5, 1)), MLP((9, 5, 4), bias=(True, False))):
        with pytest.raises(ReconError, match="one hidden layer"):
            AllButOne(network, everybody.theta_init, everybody.x, everybody.labels)
