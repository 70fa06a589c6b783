"""A batch's mean gradient as one system: derivatives, solutions, local steps and labels."""

from __future__ import annotations

import pytest
import torch
from small_networks import SMALL, STRIDED, some_images, theta_of

from recon.attacks.batches import BatchSystem, LocalSteps, Part, label_counts, scaled_by_bias
from recon.attacks.gauss_newton import by_columns, gauss_newton
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet
from recon.released import Gradient

ONE = ConvNet((Conv(3, 6),), shape=(2, 6, 6), classes=5)


def a_batch(network=ONE, n=3, labels=None, seed=0):
    x = some_images(network, n, seed)
    labels = torch.arange(n) % network.classes if labels is None else torch.tensor(labels)
    mean = Gradient.averaged(network, theta_of(network), x, labels)
    return BatchSystem.of(mean, labels), x, mean


@pytest.mark.parametrize("network", [ONE, SMALL, STRIDED])
def test_the_images_solve_it_and_jtj_is_that_of_the_jacobian(network):
    system, x, mean = a_batch(network, labels=[0, 1, 1])
    assert (system(x.flatten()) - system.target).abs().max() < 1e-14
    assert torch.equal(system.target, torch.cat([g.flatten() for g in mean.gradients.values()]))
    away = 0.5 * x.flatten()
    jacobian = by_columns(system, away).mT
    torch.testing.assert_close(system.gram(away), jacobian.mT @ jacobian, rtol=1e-9, atol=1e-13)
    residual = torch.randn(len(system.target), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(system.linear(away).pull(residual), jacobian.mT @ residual)


@pytest.mark.parametrize("labels", [[0, 1, 2], [1, 1, 3]])
def test_a_batch_is_found_from_faint_noise(labels):
    """Images of one label may change places."""
    system, x, _ = a_batch(labels=labels)
    found = gauss_newton(system, steps=60)
    assert found.energy[-1] < 1e-20
    distances = torch.cdist(system.images(found.x).flatten(1), x.flatten(1))
    assert distances.min(0).values.max() < 1e-6
    nearest = distances.argmin(1)
    assert sorted(nearest.tolist()) == [0, 1, 2]
    assert [labels[k] for k in nearest.tolist()] == labels


def test_starts_differ_by_seed_and_are_faint():
    system, _, mean = a_batch()
    other = BatchSystem.of(mean, system.labels, seed=1)
    assert torch.equal(system.start, system.start) and not torch.equal(system.start, other.start)
    assert system.start.std().item() == pytest.approx(0.1, rel=0.2)


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


def test_half_of_the_entries_may_be_enough_and_too_few_are_not():
    system, x, _ = a_batch(n=1)
    size = system.target.abs()
    for share, enough in ((0.5, True), (0.05, False)):
        kept = size >= size.quantile(1 - share)
        part = Part(system, kept)
        assert part.target.shape == part(x.flatten()).shape == (int(kept.sum()),)
        assert torch.equal(part.target, system.target[kept])
        found = gauss_newton(part, steps=60)
        assert ((found.x - x.flatten()).abs().max() < 1e-6) == enough


def test_labels_are_counted_from_the_bias():
    labels = [0, 0, 0, 2, 3, 3]
    _, _, mean = a_batch(n=6, labels=labels)
    assert label_counts(mean, 6).tolist() == [3, 0, 1, 2, 0]
    assert label_counts(mean, 7).sum() == 7


def test_the_bias_gives_size_and_sign():
    generator = torch.Generator().manual_seed(0)
    x, a = torch.randn(3, 20, generator=generator), torch.randn(7, 3, generator=generator)
    scales = torch.tensor([[0.3], [-2.0], [5.0]])
    torch.testing.assert_close(scaled_by_bias(scales * x, a @ x, a.sum(1)), x)


def test_bad_input_has_one_sentence():
    system, x, mean = a_batch()
    with pytest.raises(ReconError, match="one mean gradient at a time, not 3"):
        BatchSystem.of(Gradient.each(ONE, theta_of(ONE), x, system.labels), system.labels)
    with pytest.raises(ReconError, match="whole numbers from 0 to 4"):
        BatchSystem.of(mean, torch.tensor([5]))
    with pytest.raises(ReconError, match="at least one step of positive size, not 0 of 0.1"):
        LocalSteps.of(system, 0, 0.1, x.flatten())
