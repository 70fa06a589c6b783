"""L-BFGS on problems with known answers."""

from __future__ import annotations

import pytest
import torch

from recon.optim.lbfgs import LBFGSSettings, Pairs, Point, lbfgs


def test_lbfgs_solves_an_ill_conditioned_problem():
    target = torch.randn(20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scales = torch.logspace(0, 4, 20, dtype=torch.float64)

    def fun(theta):
        return 0.5 * (scales * (theta - target).square()).sum(), scales * (theta - target)

    found = lbfgs(fun, torch.zeros(20, dtype=torch.float64), LBFGSSettings(1e-9, history=20))
    assert found.grad_norm <= 1e-9 and (found.theta - target).abs().max() < 1e-8


def rosenbrock(theta):
    """Σ 100 (b − a²)² + (1 − a)² over pairs of coordinates; minimum 0 at 1, gradient by hand."""
    a, b = theta[0::2], theta[1::2]
    grad = torch.empty_like(theta)
    grad[0::2] = -400 * a * (b - a.square()) - 2 * (1 - a)
    grad[1::2] = 200 * (b - a.square())
    return (100 * (b - a.square()).square() + (1 - a).square()).sum(), grad


@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 0.0), (1.0, 1.0), (2.0, -1.0)])
def test_lbfgs_follows_the_banana_valley(start):
    theta = torch.tensor(start * 3, dtype=torch.float64)
    found = lbfgs(rosenbrock, theta, LBFGSSettings(1e-8, max_iter=300))
    assert (
        (found.theta - 1).abs().max() < 1e-7 and found.grad_norm <= 1e-8 and found.iterations < 300
    )
    ends = [lbfgs(rosenbrock, theta, LBFGSSettings(1e-8, max_iter=k)).energy for k in range(20)]
    assert (torch.stack(ends).diff() <= 1e-12).all()  # Armijo: it never rises


def quadratic(seed=0, size=12):
    """½ (t − target)ᵀ A (t − target) with eigenvalues from 0.1 to 10."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    matrix = (q * torch.logspace(-1, 1, size, dtype=torch.float64)) @ q.mT
    target = torch.randn(size, generator=generator, dtype=torch.float64)
    return (
        matrix,
        target,
        lambda t: (0.5 * (t - target) @ matrix @ (t - target), matrix @ (t - target)),
    )


def zeros(*shape):
    return torch.zeros(*shape, dtype=torch.float64)


def test_it_finds_the_minimum_and_leaves_its_start():
    _, target, function = quadratic()
    start = zeros(12)
    found = lbfgs(function, start, LBFGSSettings(tol=1e-9, max_iter=200))
    assert found.grad_norm <= 1e-9 and not start.any()
    torch.testing.assert_close(found.theta, target, rtol=0, atol=1e-7)
    assert found.energy.item() == pytest.approx(function(found.theta)[0].item(), abs=1e-15)


def remembered(s, y, history):
    pairs = Pairs(
        s.new_zeros(history, len(s[0])),
        s.new_zeros(history, len(s[0])),
        torch.ones((), dtype=s.dtype),
    )
    before = Point(torch.zeros_like(s[0]), torch.zeros(()), torch.zeros_like(s[0]))
    for a, b in zip(s, y, strict=True):
        pairs.append(before, Point(a, before.energy, b))
    return pairs


@pytest.mark.parametrize("flipped", [None, 2])
def test_pairs_are_the_matrix_of_bfgs(flipped):
    """H of the textbook, pair by pair as a dense matrix, the oldest forgotten; a pair without
    positive curvature does not count.
    """
    s, y = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.where((s * y).sum(-1, keepdim=True) < 0, -y, y)
    if flipped is not None:
        y[flipped] = -y[flipped]
    pairs = remembered(s, y, history=4)
    assert len(pairs.order) == 4
    v = torch.randn(5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    used = [(a, b) for a, b in zip(s, y, strict=True) if a @ b > 0][-4:]
    last_s, last_y = used[-1]
    identity = torch.eye(5, dtype=torch.float64)
    matrix = (last_s @ last_y) / (last_y @ last_y) * identity
    for a, b in used:
        left = identity - torch.outer(a, b) / (a @ b)
        matrix = left @ matrix @ left.mT + torch.outer(a, a) / (a @ b)
    torch.testing.assert_close(pairs.apply(v), matrix @ v)
    pairs.order.clear()
    torch.testing.assert_close(pairs.apply(v), pairs.scale * v)


def test_a_pair_without_curvature_is_not_remembered():
    assert not remembered(torch.ones(1, 2), -torch.ones(1, 2), 3).order


def test_a_change_too_small_to_square_is_not_remembered():
    pairs = remembered(torch.full((1, 3), 1e-10), torch.full((1, 3), 1e-25), 2)
    # ⟨s, y⟩ = 3e-35 is a float32, ⟨y, y⟩ = 3e-50 is none
    assert pairs.order == [] and pairs.scale == 1.0


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_iterations_are_limited(limit):
    _, _, function = quadratic()
    assert lbfgs(function, zeros(12), LBFGSSettings(tol=0.0, max_iter=limit)).iterations == limit


def test_the_first_step_has_length_one_or_the_scale_that_is_given():
    _, _, function = quadratic()
    few, grad = LBFGSSettings(tol=0.0, max_iter=1), function(zeros(12))[1]
    assert lbfgs(function, zeros(12), few).theta.norm().item() == pytest.approx(1.0)
    given = lbfgs(function, zeros(12), few, scale=torch.tensor(0.01, dtype=torch.float64))
    torch.testing.assert_close(given.theta, -0.01 * grad)
    s, y = given.theta, function(given.theta)[1] - grad
    torch.testing.assert_close(given.scale, s @ y / (y @ y))


def test_at_a_kink_it_stops():
    found = lbfgs(lambda t: (t.abs().sum(), t.sign()), zeros(3))
    assert found.iterations == 0  # the subgradient that is given there is zero
    found = lbfgs(lambda t: (t.abs().sum(), torch.where(t >= 0, 1.0, -1.0).to(t)), zeros(3))
    assert not found.theta.any() and found.iterations == 1


def test_a_nan_is_never_accepted():
    def function(t):
        return torch.where(t[0] > 0.5, torch.nan, (t - 1).square().sum()), 2 * (t - 1)

    found = lbfgs(function, zeros(1), LBFGSSettings(max_iter=30))
    assert found.energy < 1.0 and found.theta[0] <= 0.5


def test_after_a_failed_line_search_it_forgets_its_pairs_and_goes_on():
    """With two trials a line search fails now and then in the banana valley; without its pairs it
    gets further.
    """
    start, first = torch.tensor([-1.2, 1.0], dtype=torch.float64), torch.tensor(1e-3).double()
    found = lbfgs(rosenbrock, start, LBFGSSettings(1e-8, max_iter=300, halvings=2), first)
    assert (
        found.grad_norm <= 1e-8 and (found.theta - 1).abs().max() < 1e-7 and found.iterations < 100
    )


def test_a_step_that_lowers_too_little_is_halved():
    """½ θ² from 0.50001: the step of length 1 lowers it by 1e-5, less than Armijo's 1e-4 of what
    the slope promises.
    """
    found = lbfgs(
        lambda theta: (0.5 * theta.square().sum(), theta.clone()),
        torch.tensor([0.50001], dtype=torch.float64),
        LBFGSSettings(1e-12, max_iter=1),
    )
    assert abs(found.theta.item() - 1e-5) < 1e-12


def test_where_nothing_falls_it_stays():
    """Its gradient points the wrong way: it stays where it was, and is not tried again."""
    start = torch.ones(2, dtype=torch.float64)
    found = lbfgs(
        lambda theta: (theta.square().sum(), -theta),
        start,
        LBFGSSettings(1e-9, max_iter=9, halvings=5),
    )
    assert found.iterations == 1 and torch.equal(found.theta, start) and found.energy.item() == 2.0
