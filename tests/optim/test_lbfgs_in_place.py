"""L-BFGS in place against the batched one, and on functions whose minimum is known."""

from __future__ import annotations

import pytest
import torch

from recon.optim.lbfgs import CurvaturePairs
from recon.optim.lbfgs_in_place import InPlaceSettings, Pairs, lbfgs_in_place


def quadratic(seed=0, size=12):
    generator = torch.Generator().manual_seed(seed)
    q = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    matrix = (q * torch.logspace(-1, 1, size, dtype=torch.float64)) @ q.mT
    target = torch.randn(size, generator=generator, dtype=torch.float64)
    return matrix, target, lambda t: (0.5 * (t - target) @ matrix @ (t - target), matrix @ (t - target))


def test_it_finds_the_minimum_and_leaves_its_start():
    _, target, function = quadratic()
    start = torch.zeros(12, dtype=torch.float64)
    found = lbfgs_in_place(function, start, InPlaceSettings(tol=1e-9, max_iter=200))
    assert found.grad_norm <= 1e-9 and not start.any()
    torch.testing.assert_close(found.theta, target, rtol=0, atol=1e-7)
    assert found.energy == pytest.approx(function(found.theta)[0].item(), abs=1e-15)


def test_its_matrix_is_that_of_the_batched_one():
    """The same pairs give the same product, also after the oldest has been forgotten."""
    matrix, _, _ = quadratic()
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(7, 12, generator=generator, dtype=torch.float64)
    mine, batched = Pairs.like(points[0], 4), CurvaturePairs()
    for before, after in zip(points, points[1:], strict=False):
        mine.remember(after, after @ matrix, before, before @ matrix)
        batched = batched.append((after - before)[None], ((after - before) @ matrix)[None], 4)
    v = torch.randn(12, generator=generator, dtype=torch.float64)
    assert len(mine.order) == 4
    torch.testing.assert_close(mine.apply(v), batched.apply(v[None])[0])


def test_a_pair_without_curvature_is_not_remembered():
    pairs = Pairs.like(torch.zeros(2, dtype=torch.float64), 3)
    one, zero = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    pairs.remember(one, -one, zero, zero)
    assert not pairs.order


def test_a_change_too_small_to_square_is_not_remembered():
    theta, grad = torch.zeros(3), torch.zeros(3)
    pairs = Pairs.like(theta, 2)
    pairs.remember(theta + 1e-10, grad + 1e-25, theta, grad)  # ⟨s, y⟩ = 3e-35 is a float32, ⟨y, y⟩ = 3e-50 is none
    assert pairs.order == [] and pairs.scale == 1.0


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_iterations_are_limited(limit):
    _, _, function = quadratic()
    found = lbfgs_in_place(function, torch.zeros(12, dtype=torch.float64), InPlaceSettings(tol=0.0, max_iter=limit))
    assert found.iterations == limit


def test_the_first_step_has_length_one_or_the_scale_that_is_given():
    _, _, function = quadratic()
    start = torch.zeros(12, dtype=torch.float64)
    grad = function(start)[1]
    few = InPlaceSettings(tol=0.0, max_iter=1)
    assert lbfgs_in_place(function, start, few).theta.norm().item() == pytest.approx(1.0)
    torch.testing.assert_close(lbfgs_in_place(function, start, few, scale=0.01).theta, -0.01 * grad)


def test_at_a_kink_it_stops():
    found = lbfgs_in_place(lambda t: (t.abs().sum(), t.sign()), torch.zeros(3, dtype=torch.float64), InPlaceSettings())
    assert found.iterations == 0  # the subgradient that is given there is zero
    found = lbfgs_in_place(
        lambda t: (t.abs().sum(), torch.where(t >= 0, 1.0, -1.0).to(t)),
        torch.zeros(3, dtype=torch.float64),
        InPlaceSettings(),
    )
    assert not found.theta.any() and found.iterations == 1


def test_a_nan_is_never_accepted():
    def function(t):
        return (torch.tensor(torch.nan) if t[0] > 0.5 else (t - 1).square().sum()), 2 * (t - 1)

    found = lbfgs_in_place(function, torch.zeros(1, dtype=torch.float64), InPlaceSettings(max_iter=30))
    assert found.energy < 1.0 and found.theta[0] <= 0.5
