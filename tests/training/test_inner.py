"""The inner solvers against each other and scikit-learn; descent to the KKT regime without underflow."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from recon.nets.mlp import MLP, affine
from recon.training.inner import Objective, RowSpace, solve_affine, solve_lbfgs
from recon.training.kkt import log_logistic_loss, train_to_kkt


def problem(n=12, d=20):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, n, d, generator=generator, dtype=torch.float64)
    return x, (torch.arange(n) % 2).double()


def test_affine_newton_lbfgs_and_scikit_learn_agree():
    x, y = problem()
    objective = Objective(affine(20), y, 0.03)
    newton = solve_affine(objective, x)
    quasi = solve_lbfgs(objective, x, torch.ones(1, 21, dtype=x.dtype), tol=1e-10)
    assert newton.grad_norm.item() < 1e-10 and (newton.theta - quasi.theta).norm() < 1e-6
    oracle = LogisticRegression(C=1 / (len(y) * 0.03), fit_intercept=False, tol=1e-12, max_iter=10000)
    oracle.fit(torch.cat([x[0], torch.ones(len(y), 1)], 1).numpy(), y.numpy())
    assert torch.allclose(newton.theta[0], torch.from_numpy(oracle.coef_[0]), atol=1e-5)


def test_row_space_keeps_the_energy():
    x, y = problem()
    network = MLP((20, 7, 1))
    objective = Objective(network, y, 0.03)
    space = RowSpace.of(objective, x)
    small = torch.randn(1, space.objective.network.n_params, generator=torch.Generator().manual_seed(1)).double()
    assert torch.allclose(space.reduce(space.lift(small)), small)
    assert torch.allclose(objective.value(space.lift(small), x), space.objective.value(small, space.coordinates))


def test_minimiser_lies_in_the_row_space():
    x, y = problem(n=6)
    network = MLP((20, 3, 1), smoothing=5.0)
    objective = Objective(network, y, 0.05)
    theta = solve_lbfgs(objective, x, 0.3 * torch.ones(1, network.n_params, dtype=x.dtype), tol=1e-9, max_iter=3000)
    assert objective.grad(theta.theta, x).norm() < 1e-8  # stationary in the full space, found in the small one


def test_log_loss_does_not_underflow():
    margins = torch.tensor([1e3, 2e3], dtype=torch.float32, requires_grad=True)
    value = log_logistic_loss(margins)
    value.backward()
    assert value.item() == pytest.approx(-1e3 - math.log(2)) and margins.grad[0].item() == pytest.approx(-1.0)
    moderate = torch.tensor([-1.0, 3.0, 25.0], dtype=torch.float64)
    assert log_logistic_loss(moderate).item() == pytest.approx(
        torch.nn.functional.softplus(-moderate).mean().log().item()
    )


def test_descent_to_kkt_finds_the_maximum_margin_direction():
    """Linearly separable toy: the direction of θ tends to the hard-margin SVM's, here (1, 0) by symmetry."""
    x = torch.tensor([[1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    y = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    network = MLP((2, 1), bias=(False,))
    trained = train_to_kkt(network, x, y, torch.tensor([0.1, 0.5], dtype=torch.float64), steps=400)
    direction = trained.theta_star / trained.theta_star.norm()
    assert direction[0].item() == pytest.approx(1.0, abs=1e-3)
    assert trained.log_loss < -50 and (trained.history.diff() <= 0).all()


def test_training_stops_at_its_goal():
    x, y = problem()
    network = affine(20)
    trained = train_to_kkt(network, x[0], y, torch.zeros(21, dtype=x.dtype), steps=500, goal=-3.0)
    assert trained.converged and trained.log_loss <= -3.0 and len(trained.history) < 500
