"""Inner problems that are stopped early: what is left of θ⁰."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.bilevel_affine.inexact import descent_steps, inexact_solves
from recon.errors import ReconError
from recon.nets.mlp import affine, one_hidden
from recon.optim.subspace import Subspace
from recon.training.inner_problem import Objective, solve_affine

N, D, DECAY = 6, 20, 0.05


def toy():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(N, D, generator=generator, dtype=torch.float64)
    objective = Objective(affine(D), (torch.arange(N) % 2).double(), DECAY)
    theta_0 = torch.rand(D + 1, generator=generator, dtype=torch.float64)
    return objective, x, theta_0, solve_affine(objective, x[None], tol=1e-13).theta[0]


def test_the_more_accurate_the_nearer_and_within_the_bound():
    """E is strongly convex: ‖θ − θ*‖ ≤ ‖∇E‖/ω."""
    objective, x, theta_0, star = toy()
    found = inexact_solves(objective, x, theta_0, star, (1e-1, 1e-3, 1e-6, 1e-10))
    distances = [each.distance for each in found]
    assert distances == sorted(distances, reverse=True) and distances[-1] < 1e-15 < distances[0]
    for each in found:
        assert each.grad_norm <= each.tol and each.distance <= (each.grad_norm / DECAY) ** 2 * (1 + 1e-6)


def test_it_is_the_problem_with_all_inputs():
    objective, x, theta_0, star = toy()
    start = inexact_solves(objective, x, theta_0, star, (1e9,))[0]
    assert start.iterations == 0 and start.distance == pytest.approx((theta_0 - star).square().sum().item())
    assert start.grad_norm == pytest.approx(objective.grad(theta_0[None], x[None]).norm().item())


def test_steps_of_gradient_descent_by_doing_them():
    objective, x, theta_0, _ = toy()
    largest = torch.linalg.eigvalsh(x @ x.mT + 1)[-1].item() / (4 * N) + DECAY
    theta = theta_0[None]
    for _ in range(40):
        theta = theta - objective.grad(theta, x[None]) / largest
    left = Subspace.spanned_by(x).outside(theta[:, :-1]).square().sum().item()
    assert descent_steps(objective, x, theta_0, left) == pytest.approx(40)
    assert descent_steps(objective, x, theta_0, 1e6) == 0.0


def test_the_affine_network_only():
    objective = Objective(one_hidden(3, D), torch.ones(1), DECAY)
    with pytest.raises(ReconError, match="affine"):
        inexact_solves(objective, torch.zeros(1, D), torch.zeros(1), torch.zeros(1), (1.0,))
