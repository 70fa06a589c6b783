"""L-BFGS: each row a problem of its own, on problems with known answers."""

from __future__ import annotations

import torch

from recon.optim.lbfgs import CurvaturePairs, LBFGSSettings, lbfgs


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


def test_pairs_are_the_matrix_of_bfgs():
    """H of the textbook, pair by pair as a dense matrix; a pair without positive curvature does not count."""
    s, y = torch.randn(2, 6, 2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.where((s * y).sum(-1, keepdim=True) < 0, -y, y)
    y[2, 0] = -y[2, 0]  # row 0 lacks the third pair
    pairs = CurvaturePairs()
    for k in range(6):
        pairs = pairs.append(s[k], y[k], history=4)
    assert len(pairs.pairs) == 4 and pairs.pairs[0][2][0] == 0
    v = torch.randn(2, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for row in range(2):
        used = [(s[k, row], y[k, row]) for k in range(2, 6) if s[k, row] @ y[k, row] > 0]
        last_s, last_y = used[-1]
        identity = torch.eye(5, dtype=torch.float64)
        matrix = (last_s @ last_y) / (last_y @ last_y) * identity
        for a, b in used:
            left = identity - torch.outer(a, b) / (a @ b)
            matrix = left @ matrix @ left.mT + torch.outer(a, a) / (a @ b)
        torch.testing.assert_close(pairs.apply(v)[row], matrix @ v[row])


def test_a_step_that_lowers_too_little_is_halved():
    """½ θ² from 0.50001: the step of length 1 lowers it by 1e-5, less than Armijo's 1e-4 of what the slope promises."""
    found = lbfgs(
        lambda theta: (0.5 * theta.square().sum(-1), theta.clone()),
        torch.tensor([[0.50001]], dtype=torch.float64),
        LBFGSSettings(1e-12, max_iter=1),
    )
    assert abs(found.theta.item() - 1e-5) < 1e-12


def test_a_row_that_cannot_fall_is_left_alone():
    """Its gradient points the wrong way: it stays where it was, and is not tried again."""
    start = torch.ones(1, 2, dtype=torch.float64)
    found = lbfgs(lambda theta: (theta.square().sum(-1), -theta), start, LBFGSSettings(1e-9, max_iter=9, halvings=5))
    assert found.iterations == 1 and torch.equal(found.theta, start) and found.energy.item() == 2.0
