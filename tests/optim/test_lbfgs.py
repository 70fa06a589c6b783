"""L-BFGS: each row a problem of its own, on problems with known answers."""

from __future__ import annotations

import torch

from recon.optim.lbfgs import LBFGSSettings, lbfgs


def test_lbfgs_solves_ill_conditioned_rows_each_on_its_own():
    target = torch.randn(2, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scales = torch.logspace(0, 4, 20, dtype=torch.float64)

    def fun(theta):
        off = theta - target[: len(theta)]
        return 0.5 * (scales * off.square()).sum(-1), scales * off

    found = lbfgs(fun, torch.zeros(2, 20, dtype=torch.float64), LBFGSSettings(1e-9, history=20))
    assert (found.grad_norm <= 1e-9).all() and (found.theta - target).abs().max() < 1e-8


def rosenbrock(theta):
    """Σ 100 (b − a²)² + (1 − a)² over pairs of coordinates; minimum 0 at 1, gradient by hand."""
    a, b = theta[:, 0::2], theta[:, 1::2]
    grad = torch.empty_like(theta)
    grad[:, 0::2] = -400 * a * (b - a.square()) - 2 * (1 - a)
    grad[:, 1::2] = 200 * (b - a.square())
    return (100 * (b - a.square()).square() + (1 - a).square()).sum(1), grad


def test_lbfgs_follows_the_banana_valley_in_every_row():
    theta = torch.tensor([[-1.2, 1.0] * 3, [0.0, 0.0] * 3, [1.0, 1.0] * 3, [2.0, -1.0] * 3], dtype=torch.float64)
    seen, settings = [], LBFGSSettings(1e-8, max_iter=300)
    found = lbfgs(rosenbrock, theta, settings, callback=lambda _, energy, __: seen.append(energy))
    assert (found.theta - 1).abs().max() < 1e-7 and (found.grad_norm <= 1e-8).all() and found.iterations < 300
    assert (torch.stack(seen).diff(dim=0) <= 1e-12).all()  # Armijo: no row ever rises
    for row in range(len(theta)):
        single = lbfgs(rosenbrock, theta[row : row + 1], settings)
        assert (single.theta[0] - found.theta[row]).abs().max() < 1e-7


def test_lbfgs_pairs_approximate_the_inverse_hessian_of_a_quadratic():
    scales = torch.tensor([1.0, 3.0, 10.0, 30.0], dtype=torch.float64)

    def fun(theta):
        return 0.5 * (scales * theta.square()).sum(-1), scales * theta

    found = lbfgs(fun, torch.ones(1, 4, dtype=torch.float64), LBFGSSettings(1e-13, history=40))
    v = torch.tensor([[1.0, -2.0, 3.0, -4.0]], dtype=torch.float64)
    assert ((found.pairs.apply(v) - v / scales).norm() / (v / scales).norm()).item() < 0.1
