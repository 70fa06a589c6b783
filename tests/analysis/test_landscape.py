"""Landscapes: starts, batches, chunks, and the energy."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from recon.analysis.landscape import (
    bilevel_energy,
    in_span,
    mixed_starts,
    sweep_bilevel,
)
from recon.attacks.bilevel import BilevelAttack
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.nets.mlp import affine, three_layer
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

N, D = 6, 40
DESCENT = HeavyBall(0.3, 0.5, tol=1e-12)


@pytest.fixture(scope="module")
def problem():
    """(released affine net, truth, starts of eq. (10) (25, N, D)), float64."""
    generator = torch.Generator().manual_seed(0)
    truth, partition, noise = torch.rand(3, N, D, generator=generator, dtype=torch.float64)
    y = torch.tensor([0.0, 0, 0, 1, 1, 1], dtype=torch.float64)
    theta = solve_affine(Objective(affine(D), y, 1e-2), truth[None]).theta[0]
    grid = torch.linspace(0, 1, 5)
    starts = mixed_starts(truth, partition, noise, grid, grid).flatten(0, 1)
    return Weights(affine(D), theta, y=y, weight_decay=1e-2), truth, starts


def test_starts_of_equation_10():
    truth, partition, noise = torch.rand(3, 2, 5)
    grid = torch.tensor([0.0, 0.25, 1.0])
    starts = mixed_starts(truth, partition, noise, grid, grid)
    for i, j in product(range(3), range(3)):
        a, b = grid[i], grid[j]
        expected = b * (a * truth + (1 - a) * partition) + (1 - b) * noise
        torch.testing.assert_close(starts[i, j], expected)
    with pytest.raises(ReconError, match="one shape"):
        mixed_starts(truth, partition, noise[:1], grid, grid)


def test_centre_of_the_batch_is_the_single_run_in_all_pixels(problem):
    """25 starts at once, each in its own n + 1 coordinates, against the attack of chapter 3 on one
    start.
    """
    released, _, starts = problem
    batch = sweep_bilevel(released, starts, 200, DESCENT)
    attack = BilevelAttack(released, DESCENT)
    single = reconstruct(attack, starts[12:13], 200, DESCENT.tol)
    assert (batch.x_hat[12] - single.x_hat[0]).abs().max() < 1e-6
    assert (batch.x_hat[12] - starts[12]).abs().max() > 1e-3  # it did move


def test_given_thetas_change_nothing(problem):
    """Rows that are done stay where they were."""
    released, _, starts = problem
    descent = replace(DESCENT, tol=3e-2)
    whole = sweep_bilevel(released, starts, 60, descent)
    assert 0 < whole.converged.sum() < 25
    per_start = replace(released, theta_star=released.theta_star.expand(25, -1))
    parts = sweep_bilevel(per_start, starts, 60, descent)
    torch.testing.assert_close(vars(parts), vars(whole), atol=1e-9, rtol=1e-6)


def test_coordinates_refuse_what_is_not_exact(problem):
    released, _, starts = problem
    with pytest.raises(ReconError, match="pixel box"):
        sweep_bilevel(released, starts, 5, HeavyBall(box=(0.0, 1.0)))
    deep = three_layer(4, D)
    with pytest.raises(ReconError, match="only the affine"):
        in_span(Weights(deep, torch.zeros(deep.n_params)), Subspace(torch.eye(D)))


def test_energies_are_relative_and_of_every_start_by_itself(problem):
    """Retrained, and 0 at the truth and where the attack ends."""
    released, truth, starts = problem
    theta_star = released.theta_star + 0.1
    energies = bilevel_energy(replace(released, theta_star=theta_star), starts[[0, 7]])
    for energy, x in zip(energies, starts[[0, 7]], strict=True):
        retrained = solve_affine(Objective(affine(D), released.y, 1e-2), x[None]).theta[0]
        expected = ((retrained - theta_star).norm() / theta_star.norm()) ** 2
        assert energy.item() == pytest.approx(expected.item(), rel=1e-9)
    ends = sweep_bilevel(released, starts[[0, 4]], 5000, HeavyBall(0.3, 0.9, tol=1e-10))
    assert bilevel_energy(released, torch.cat([truth[None], ends.x_hat])).max() < 1e-8
