"""Landscapes: starts, batches, chunks, the two energies and what they have in common."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from scipy.optimize import nnls

from recon.analysis.landscape import (
    StationarityAttack,
    barrier,
    bilevel_energy,
    curvature,
    in_chunks,
    in_span,
    inner_minima,
    mixed_starts,
    segment,
    stationarity_energy,
    sweep_bilevel,
)
from recon.attacks.bilevel import BilevelAttack
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import Reconstruction, reconstruct
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
    assert starts.shape == (3, 3, 2, 5)
    torch.testing.assert_close(starts[2, 2], truth)
    torch.testing.assert_close(starts[0, 2], partition)
    torch.testing.assert_close(starts[1, 0], noise)
    torch.testing.assert_close(
        starts[1, 1], 0.25 * (0.25 * truth + 0.75 * partition) + 0.75 * noise
    )
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


def test_chunks_and_given_thetas_change_nothing(problem):
    released, _, starts = problem
    whole = sweep_bilevel(released, starts, 60, DESCENT)
    theta = released.theta_star.expand(25, -1)
    per_start = replace(released, theta_star=theta)
    parts = sweep_bilevel(per_start, starts, 60, DESCENT, limit_bytes=100_000)
    torch.testing.assert_close(parts.x_hat, whole.x_hat, atol=1e-9, rtol=0)
    torch.testing.assert_close(parts.history, whole.history, atol=1e-9, rtol=1e-6)
    assert parts.steps == whole.steps and parts.converged.shape == (25,)


def test_coordinates_refuse_what_is_not_exact(problem):
    released, _, starts = problem
    with pytest.raises(ReconError, match="pixel box"):
        sweep_bilevel(released, starts, 5, HeavyBall(box=(0.0, 1.0)))
    deep = three_layer(4, D)
    with pytest.raises(ReconError, match="only the affine"):
        in_span(
            Weights(deep, torch.zeros(deep.n_params), y=released.y, weight_decay=1e-2),
            Subspace(torch.eye(D)),
        )


def test_both_energies_vanish_at_the_truth_and_bilevel_solutions_are_decoreco_solutions(problem):
    """θ* = Σ c_i x̄_i with c_i = (y_i − σ_i)/(n ω) at every bilevel solution: DecoReco's energy is
    a relaxation.
    """
    released, truth, starts = problem
    ends = sweep_bilevel(released, starts[[0, 4]], 5000, HeavyBall(0.3, 0.9, tol=1e-10))
    assert ends.converged.all()
    solutions = torch.cat([truth[None], ends.x_hat])
    assert bilevel_energy(released, solutions).max() < 1e-8
    assert (
        stationarity_energy(released.network, released.theta_star, solutions, released.y).max()
        < 1e-8
    )
    assert (
        stationarity_energy(released.network, released.theta_star, starts[[0]], released.y).min()
        > 1e-3
    )


def test_energies_are_relative_and_by_layer(problem):
    """Each start by itself: retrained, and fitted by SciPy's NNLS on gradients that autograd
    gives.
    """
    released, truth, starts = problem
    theta_star = released.theta_star + 0.1
    some = starts[[0, 7, 24]]
    found = bilevel_energy(replace(released, theta_star=theta_star), some)
    for row, x in enumerate(some):
        theta = solve_affine(Objective(affine(D), released.y, 1e-2), x[None]).theta[0]
        expected = (theta - theta_star).norm() ** 2 / theta_star.norm() ** 2
        assert found[row].item() == pytest.approx(expected.item(), rel=1e-9)
    network = three_layer(10, D)
    theta = network.flatten(network.init(torch.Generator().manual_seed(3), dtype=torch.float64))
    found = stationarity_energy(network, theta, some, released.y)
    for row, x in enumerate(some):
        params = {
            name: value.clone().requires_grad_() for name, value in network.unflatten(theta).items()
        }
        phi = (2 * released.y - 1) * network(params, x)
        first = [params["w1"], params["b1"]]
        columns = [torch.autograd.grad(one, first, retain_graph=True) for one in phi]
        matrix = torch.stack(
            [torch.cat([g.flatten() for g in column]) for column in columns], dim=1
        )
        target = torch.cat([p.detach().flatten() for p in first])
        left = nnls(matrix.numpy(), target.numpy())[1] ** 2
        assert found[row].item() == pytest.approx(left / target.norm().item() ** 2, rel=1e-6)


def test_chunks_hold_what_fits_and_at_least_one_row():
    sizes = []

    def run(rows):
        count = len(range(*rows.indices(7)))
        sizes.append(count)
        energy = torch.arange(7.0)[rows]
        steps = 3 if rows.start == 0 else 2
        history = torch.arange(float(steps))[:, None] + energy
        x_hat = energy[:, None, None].expand(-1, 2, 3)
        return Reconstruction(x_hat, energy, history, steps, energy < 3, {"grad": x_hat + 1})

    for limit, expected in ((30, [3, 3, 1]), (29, [2, 2, 2, 1]), (5, [1] * 7), (1000, [7])):
        sizes.clear()
        found = in_chunks(run, 7, 10, limit)
        assert sizes == expected and found.energy.tolist() == list(range(7)) and found.steps == 3
        assert found.x_hat.shape == (7, 2, 3) and torch.equal(
            found.accepted["grad"], found.x_hat + 1
        )
        assert found.converged.tolist() == [True] * 3 + [False] * 4
        assert found.history[1].tolist() == [1.0 + k for k in range(7)]
    # done rows stay where they were
    assert in_chunks(run, 7, 10, 30).history[2].tolist() == [2, 3, 4, 4, 5, 6, 7]


@pytest.mark.parametrize(("network", "share"), [(affine(D), 0.7), (three_layer(10, D), 0.99)])
def test_stationarity_attack_fits_multipliers_and_descends(network, share):
    generator = torch.Generator().manual_seed(1)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    x = torch.randn(1, N, D, generator=generator, dtype=torch.float64)
    attack = StationarityAttack(
        Weights(network, theta), half_and_half(N, dtype=torch.float64), HeavyBall(0.01), alpha=1e4
    )
    fitted = attack.fit(x, torch.zeros(1, N, dtype=torch.float64), 5000)
    y = (attack.labels + 1) / 2
    theta_1 = sum(
        value.square().sum()
        for name, value in network.unflatten(theta).items()
        if name.endswith("1")
    )
    best = stationarity_energy(network, theta, x, y)[0] * theta_1
    state = attack.step({**attack.init(x), "multipliers": fitted})
    assert (fitted >= 0).all()
    torch.testing.assert_close(state["accepted"]["energy"][0], best, rtol=1e-3, atol=1e-6)
    found = reconstruct(attack, x, 300)
    assert found.energy < share * best


def test_multipliers_are_taken_back_with_a_rejected_step():
    network = affine(D)
    generator = torch.Generator().manual_seed(2)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    x = torch.randn(2, N, D, generator=generator, dtype=torch.float64)
    attack = StationarityAttack(
        Weights(network, theta), half_and_half(N, dtype=torch.float64), HeavyBall(0.01), refits=2
    )
    first = attack.step(attack.init(x))
    proposal = torch.stack([first["x"][0], 100 * x[1]])
    after = attack.step({**first, "x": proposal})
    assert torch.equal(after["accepted"]["x"], torch.stack([proposal[0], x[1]]))
    assert torch.equal(after["multipliers"][1], first["multipliers"][1])
    torch.testing.assert_close(
        after["multipliers"][0], attack.fit(proposal, first["multipliers"], 2)[0]
    )
    assert not torch.equal(after["multipliers"][0], first["multipliers"][0])


def test_gradient_of_the_fitted_energy_is_that_at_fixed_multipliers():
    """Envelope theorem: ∂/∂x min_λ R(x, λ) = ∂R/∂x at the minimiser, by central differences of the
    NNLS energy.
    """
    network = affine(D)
    generator = torch.Generator().manual_seed(2)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    x = torch.randn(1, N, D, generator=generator, dtype=torch.float64)
    attack = StationarityAttack(
        Weights(network, theta), half_and_half(N, dtype=torch.float64), HeavyBall(0.01)
    )
    state = attack.step(
        {**attack.init(x), "multipliers": attack.fit(x, torch.zeros_like(x[..., 0]), 20_000)}
    )
    change = 1e-5 * torch.randn(x.shape, generator=generator, dtype=torch.float64)
    y = (attack.labels + 1) / 2
    up, down = (
        stationarity_energy(network, theta, x + s * change, y) * theta.square().sum()
        for s in (1, -1)
    )
    torch.testing.assert_close(
        (up - down)[0] / 2, (state["accepted"]["grad"] * change).sum(), rtol=1e-4, atol=1e-12
    )


def test_paths():
    a, b = torch.zeros(2, 3), torch.ones(2, 3)
    assert segment(a, b, 5)[2].unique().tolist() == [0.5]
    energy = torch.tensor([[0.0, 3.0, 1.0, 2.0, 1.0], [0.0, 1.0, 2.0, 3.0, 4.0]])
    assert barrier(energy).tolist() == [2.0, 0.0]
    assert inner_minima(energy).tolist() == [1, 0]


def test_curvature_of_a_quadratic():
    """E = ½ k ‖x‖²: the mean second difference is k r²."""
    x = torch.ones(3, 4, dtype=torch.float64)
    found = curvature(
        lambda p: 2.5 * p.flatten(1).square().sum(1), x, 0.3, 5, torch.Generator().manual_seed(0)
    )
    assert math.isclose(found.item(), 5.0 * 0.09, rel_tol=1e-9)


def test_minima_are_where_a_path_turns_up():
    """Not where it goes on falling, not on a plateau, not at its ends."""
    for energy, count in (
        ([3.0, 2.0, 1.0, 0.0], 0),
        ([3.0, 2.0, 1.0, 2.0, 3.0], 1),
        ([3.0, 1.0, 1.0, 2.0], 0),
        ([3.0, 1.0, 2.0, 0.0, 1.0, 0.5], 2),
        ([0.0, 1.0, 2.0], 0),
        ([1.0, 1.0, 1.0], 0),
    ):
        assert inner_minima(torch.tensor(energy)).item() == count
