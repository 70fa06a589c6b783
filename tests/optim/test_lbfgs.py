"""L-BFGS on problems with known answers."""

from __future__ import annotations

import pytest
import torch

from recon.optim.lbfgs import LBFGSSettings, Pairs, Point, lbfgs

F64 = torch.float64


def rosenbrock(theta):
    """Σ 100 (b − a²)² + (1 − a)² over pairs of coordinates; minimum 0 at 1, gradient by hand."""
    a, b = theta[0::2], theta[1::2]
    grad = torch.empty_like(theta)
    grad[0::2] = -400 * a * (b - a.square()) - 2 * (1 - a)
    grad[1::2] = 200 * (b - a.square())
    return (100 * (b - a.square()).square() + (1 - a).square()).sum(), grad


def quadratic(size=20):
    """½ Σ s (t − target)² with s from 1 to 10⁴."""
    target = torch.randn(size, generator=torch.Generator().manual_seed(1), dtype=F64)
    scales = torch.logspace(0, 4, size, dtype=F64)

    def function(theta):
        return 0.5 * (scales * (theta - target).square()).sum(), scales * (theta - target)

    return function, target


@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 0.0), (1.0, 1.0), (2.0, -1.0)])
def test_lbfgs_follows_the_banana_valley(start):
    theta = torch.tensor(start * 3, dtype=F64)
    result = lbfgs(rosenbrock, theta, LBFGSSettings(1e-8, max_iter=300))
    assert (result.theta - 1).abs().max() < 1e-7
    assert result.grad_norm <= 1e-8 and result.iterations < 300
    few = [lbfgs(rosenbrock, theta, LBFGSSettings(-1.0, max_iter=k)) for k in range(4)]
    assert start == (1.0, 1.0) or [end.iterations for end in few] == [0, 1, 2, 3]
    assert (torch.stack([end.energy for end in few]).diff() <= 1e-12).all()  # it never rises


def test_it_solves_an_ill_conditioned_problem_and_leaves_its_start():
    function, target = quadratic()
    start = torch.zeros(20, dtype=F64)
    result = lbfgs(function, start, LBFGSSettings(1e-9, history=20))
    assert result.grad_norm <= 1e-9 and not start.any()
    torch.testing.assert_close(result.theta, target, rtol=0, atol=1e-8)
    assert result.energy.item() == pytest.approx(function(result.theta)[0].item(), abs=1e-15)


def remember(s, y, history):
    zero = torch.zeros_like(s[0])
    room = s.new_zeros(history, len(s[0]))
    pairs = Pairs(room, room.clone(), torch.ones((), dtype=s.dtype))
    for a, b in zip(s, y, strict=True):
        pairs.append(Point(zero, torch.zeros(()), zero), Point(a, torch.zeros(()), b))
    return pairs


@pytest.mark.parametrize("flipped", [None, 2])
def test_pairs_are_the_matrix_of_bfgs(flipped):
    """H of the textbook, pair by pair as a dense matrix, the oldest forgotten; a pair without
    positive curvature does not count.
    """
    s, y = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0), dtype=F64)
    y = torch.where((s * y).sum(-1, keepdim=True) < 0, -y, y)
    if flipped is not None:
        y[flipped] = -y[flipped]
    pairs = remember(s, y, history=4)
    used = [(a, b) for a, b in zip(s, y, strict=True) if a @ b > 0][-4:]
    last_s, last_y = used[-1]
    identity = torch.eye(5, dtype=F64)
    matrix = (last_s @ last_y) / (last_y @ last_y) * identity
    for a, b in used:
        left = identity - torch.outer(a, b) / (a @ b)
        matrix = left @ matrix @ left.mT + torch.outer(a, a) / (a @ b)
    v = torch.randn(5, generator=torch.Generator().manual_seed(1), dtype=F64)
    torch.testing.assert_close(pairs.apply(v), matrix @ v)


def test_a_change_too_small_to_square_is_not_remembered():
    pairs = remember(torch.full((1, 3), 1e-10), torch.full((1, 3), 1e-25), 2)
    # ⟨s, y⟩ = 3e-35 is a float32, ⟨y, y⟩ = 3e-50 is none
    assert pairs.order == [] and pairs.scale == 1.0


def test_the_first_step_has_length_one_or_the_scale_that_is_given():
    function, _ = quadratic()
    start, once = torch.zeros(20, dtype=F64), LBFGSSettings(tol=0.0, max_iter=1)
    grad = function(start)[1]
    assert lbfgs(lambda t: (t.sum(), torch.ones_like(t)), start, once).theta.norm() == (
        pytest.approx(1.0)
    )
    scaled = lbfgs(function, start, once, scale=torch.tensor(1e-5, dtype=F64))
    torch.testing.assert_close(scaled.theta, -1e-5 * grad)
    s, y = scaled.theta, function(scaled.theta)[1] - grad
    torch.testing.assert_close(scaled.scale, s @ y / (y @ y))


def test_a_nan_is_never_accepted():
    def function(t):
        return torch.where(t[0] > 0.5, torch.nan, (t - 1).square().sum()), 2 * (t - 1)

    result = lbfgs(function, torch.zeros(1, dtype=F64), LBFGSSettings(max_iter=30))
    assert result.energy < 1.0 and result.theta[0] <= 0.5


def test_after_a_failed_line_search_it_forgets_its_pairs_and_goes_on():
    """With two trials a line search fails now and then in the banana valley; without its pairs it
    gets further.
    """
    start, scale = torch.tensor([-1.2, 1.0], dtype=F64), torch.tensor(1e-3, dtype=F64)
    result = lbfgs(rosenbrock, start, LBFGSSettings(1e-8, max_iter=300, halvings=2), scale)
    assert result.grad_norm <= 1e-8 and result.iterations < 100
    assert (result.theta - 1).abs().max() < 1e-7


def test_a_step_that_lowers_too_little_is_halved():
    """½ θ² from 0.50001: the step of length 1 lowers it by 1e-5, less than Armijo's 1e-4 of what
    the slope promises.
    """
    start = torch.tensor([0.50001], dtype=F64)
    result = lbfgs(lambda t: (0.5 * t.square().sum(), t.clone()), start, LBFGSSettings(0.0, 1))
    assert abs(result.theta.item() - 1e-5) < 1e-12


def test_where_nothing_falls_it_stays():
    """Its gradient points the wrong way: it stays where it was, and is not tried again."""
    start = torch.ones(2, dtype=F64)
    result = lbfgs(lambda t: (t.square().sum(), -t), start, LBFGSSettings(1e-9, 9, halvings=5))
    assert result.iterations == 1 and torch.equal(result.theta, start)
    assert result.energy.item() == 2.0
