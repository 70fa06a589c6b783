"""Local steps of a client, and the size of an image that is known up to a factor."""

from __future__ import annotations

import pytest
import torch
from small_networks import ONE, a_batch

from companion.chapters.leakage_batches.experiment import LocalSteps, scaled_by_bias
from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import gauss_newton
from recon.errors import ReconError


def test_local_steps_are_gradient_descent_and_one_is_the_mean_gradient():
    system, x, _ = a_batch()
    one = LocalSteps.of(system, 1, 0.3, x.flatten())
    torch.testing.assert_close(one.target, system.target)
    several = LocalSteps.of(system, 4, 0.3, x.flatten())
    leaves = {name: value.clone().requires_grad_() for name, value in system.theta.items()}
    optimiser = torch.optim.SGD(leaves.values(), lr=0.3)
    for _ in range(4):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(ONE(leaves, x), system.labels).backward()
        optimiser.step()
    sent = torch.cat([(value - leaves[name].detach()).flatten() for name, value in system.theta.items()])
    torch.testing.assert_close(several.target, sent / (4 * 0.3))
    assert (several.target - one.target).norm() > 0.01 * one.target.norm()


def test_images_are_found_through_local_steps():
    system, x, _ = a_batch(n=2)
    client = LocalSteps.of(system, 3, 0.3, x.flatten())
    found = gauss_newton(client, steps=60)
    assert found.energy[-1] < 1e-20
    assert torch.cdist(system.images(found.x).flatten(1), x.flatten(1)).min(0).values.max() < 1e-6
    as_one = gauss_newton(BatchSystem(ONE, system.theta, system.labels, client.target), steps=60)
    assert torch.cdist(system.images(as_one.x).flatten(1), x.flatten(1)).min(0).values.max() > 1e-3


def test_the_bias_gives_size_and_sign():
    generator = torch.Generator().manual_seed(0)
    x, a = torch.randn(3, 20, generator=generator), torch.randn(7, 3, generator=generator)
    scales = torch.tensor([[0.3], [-2.0], [5.0]])
    torch.testing.assert_close(scaled_by_bias(scales * x, a @ x, a.sum(1)), x)


def test_no_step_is_no_local_step():
    system, x, _ = a_batch()
    with pytest.raises(ReconError, match="at least one step of positive size, not 0 of 0.1"):
        LocalSteps.of(system, 0, 0.1, x.flatten())
