"""Landscapes: starts, batches, chunks, the two energies and what they have in common."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from recon.analysis.landscape import (
    StationarityAttack,
    barrier,
    bilevel_energy,
    curvature,
    in_span,
    inner_minima,
    mixed_starts,
    segment,
    stationarity_energy,
    sweep_bilevel,
)
from recon.attacks.bilevel import BilevelAttack
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.nets.mlp import affine, three_layer
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine
from recon.training.kkt import certificate

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


def test_both_energies_vanish_at_the_truth_and_bilevel_solutions_are_decoreco_solutions(problem):
    """θ* = Σ c_i x̄_i with c_i = (y_i − σ_i)/(n ω) at every bilevel solution: DecoReco's energy is
    a relaxation.
    """
    released, truth, starts = problem
    network, theta, y = released.network, released.theta_star, released.y
    ends = sweep_bilevel(released, starts[[0, 4]], 5000, HeavyBall(0.3, 0.9, tol=1e-10))
    assert ends.converged.all()
    solutions = torch.cat([truth[None], ends.x_hat])
    assert bilevel_energy(released, solutions).max() < 1e-8
    assert stationarity_energy(network, theta, solutions, y).max() < 1e-8
    assert stationarity_energy(network, theta, starts[[0]], y) > 1e-3


@pytest.mark.parametrize(("network", "share"), [(affine(D), 0.7), (three_layer(10, D), 0.99)])
def test_stationarity_attack_fits_multipliers_and_descends(network, share):
    attack, x = attack_on(network, alpha=1e4)
    theta = attack.weights.theta_star
    params = network.unflatten(theta)
    norm2 = params["w1"].square().sum() + params["b1"].square().sum()
    best = stationarity_energy(network, theta, x, (attack.labels + 1) / 2) * norm2
    fitted = attack.fit(x, torch.zeros(2, N, dtype=torch.float64), 5000)
    state = attack.step({**attack.init(x), "multipliers": fitted})
    assert (fitted >= 0).all()
    torch.testing.assert_close(state["accepted"]["energy"], best, rtol=1e-3, atol=1e-6)
    assert reconstruct(attack, x, 300).energy.sum() < share * best.sum()


def test_multipliers_are_taken_back_with_a_rejected_step():
    attack, x = attack_on(affine(D), refits=2)
    first = attack.step(attack.init(x))
    proposal = torch.stack([first["x"][0], 100 * x[1]])
    after = attack.step({**first, "x": proposal})
    assert torch.equal(after["accepted"]["x"], torch.stack([proposal[0], x[1]]))
    refined = attack.fit(proposal, first["multipliers"], 2)[0]
    expected = torch.stack([refined, first["multipliers"][1]])
    torch.testing.assert_close(after["multipliers"], expected)
    assert not torch.equal(refined, first["multipliers"][0])


def test_gradient_of_the_fitted_energy_is_that_at_fixed_multipliers():
    """Envelope theorem: ∂/∂x min_λ R(x, λ) = ∂R/∂x at the minimiser, by central differences of the
    NNLS energy.
    """
    network = affine(D)
    attack, x = attack_on(network)
    theta, y = attack.weights.theta_star, (attack.labels + 1) / 2
    fitted = attack.fit(x, torch.zeros_like(x[..., 0]), 20_000)
    state = attack.step({**attack.init(x), "multipliers": fitted})
    change = 1e-5 * torch.sin(100 * x)
    up, down = (stationarity_energy(network, theta, x + s * change, y) for s in (1, -1))
    difference = (up - down) / 2 * theta.square().sum()
    expected = (state["accepted"]["grad"] * change).sum((1, 2))
    torch.testing.assert_close(difference, expected, rtol=1e-4, atol=1e-12)


def test_paths():
    a, b = torch.ones(2, 3), torch.full((2, 3), 5.0)
    assert segment(a, b, 5)[:, 0, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    energy = torch.tensor([[0.0, 3.0, 1.0, 2.0, 1.0], [0.0, 1.0, 2.0, 3.0, 4.0]])
    assert barrier(energy).tolist() == [2.0, 0.0]
    # not where it goes on falling, not on a plateau, not at its ends
    minima = [
        [3.0, 2.0, 1.0, 0.0],
        [3.0, 1.0, 1.0, 2.0],
        [3.0, 1.0, 2.0, 0.0],
        [3.0, 2.0, 1.0, 2.0],
    ]
    assert inner_minima(torch.tensor(minima)).tolist() == [0, 0, 1, 1]


def test_curvature_of_a_quadratic():
    """E = ½ k ‖x‖²: the mean second difference is k r²."""
    x = torch.ones(3, 4, dtype=torch.float64)
    mean = curvature(
        lambda p: 2.5 * p.flatten(1).square().sum(1), x, 0.3, 5, torch.Generator().manual_seed(0)
    )
    assert math.isclose(mean.item(), 5.0 * 0.09, rel_tol=1e-9)


def test_energies_are_relative_and_of_every_start_by_itself(problem):
    """Retrained, and fitted to the first layer."""
    released, _, starts = problem
    some, y = starts[[0, 7]], released.y
    theta_star = released.theta_star + 0.1
    energies = bilevel_energy(replace(released, theta_star=theta_star), some)
    network = three_layer(10, D)
    theta = network.flatten(network.init(torch.Generator().manual_seed(3), dtype=torch.float64))
    left = stationarity_energy(network, theta, some, y)
    for row, x in enumerate(some):
        retrained = solve_affine(Objective(affine(D), y, 1e-2), x[None]).theta[0]
        expected = ((retrained - theta_star).norm() / theta_star.norm()) ** 2
        assert energies[row].item() == pytest.approx(expected.item(), rel=1e-9)
        fitted = certificate(network, theta, x, y, layer_weights=(1.0, 0.0, 0.0))
        share = fitted.residual_by_layer[0] ** 2
        assert left[row].item() == pytest.approx(share.item(), rel=1e-6)


def attack_on(network, **settings):
    """DecoReco's energy on random images of random weights, and x (2, N, D)."""
    generator = torch.Generator().manual_seed(2)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    x = torch.randn(2, N, D, generator=generator, dtype=torch.float64)
    labels = half_and_half(N, dtype=torch.float64)
    return StationarityAttack(Weights(network, theta), labels, HeavyBall(0.01), **settings), x
