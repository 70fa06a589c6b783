"""A batch's mean gradient as one system: derivatives and solutions."""

from __future__ import annotations

import pytest
import torch
from small_networks import ONE, SMALL, STRIDED, a_batch, some_gradient

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import gauss_newton, jacobian_columns
from recon.errors import ReconError


@pytest.mark.parametrize("network", [ONE, SMALL, STRIDED])
def test_the_images_solve_it_and_jtj_is_that_of_the_jacobian(network):
    system, x, mean = a_batch(network, labels=[0, 1, 1])
    assert (system(x.flatten()) - system.target).abs().max() < 1e-14
    assert torch.equal(system.target, torch.cat([g.flatten() for g in mean.gradients.values()]))
    away = 0.5 * x.flatten()
    jacobian = jacobian_columns(system, away).mT
    torch.testing.assert_close(system.gram(away), jacobian.mT @ jacobian, rtol=1e-9, atol=1e-13)
    residual = torch.randn(
        len(system.target), generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
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
    with pytest.raises(ReconError, match="one mean gradient at a time, not 2"):
        BatchSystem.of(some_gradient(ONE)[0], system.labels)
