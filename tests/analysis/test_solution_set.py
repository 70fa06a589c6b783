"""The exact solution set of the affine net: derivatives, projection, dimension, and independent
oracles.
"""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from recon.analysis import solution_set
from recon.errors import ReconError
from recon.nets.mlp import affine
from recon.training.inner_problem import Objective, solve_affine, with_ones

N, D, DECAY = 12, 20, 1e-2


@pytest.fixture
def problem():
    """x_train, x_other, y, θ* of x_train, lower, upper; pixels in [0, 1] before centring."""
    generator = torch.Generator().manual_seed(0)
    train, other = torch.rand(2, N, D, generator=generator, dtype=torch.float64)
    mean = train.mean(0)
    y = (torch.arange(N) >= N // 2).double()
    theta = retrain(train - mean, y)
    return train - mean, other - mean, y, theta, -mean, 1 - mean


def retrain(x, y):
    return solve_affine(Objective(affine(x.shape[1]), y, DECAY), x.unsqueeze(0)).theta[0]


def test_jacobian_is_that_of_autograd(problem):
    _, x, y, theta, _, _ = problem
    expected = by_autograd(x, y, theta)
    dense = solution_set.jacobian_dense(x, y, theta)
    torch.testing.assert_close(dense, expected, rtol=0, atol=1e-12)
    change = torch.randn(N, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    product = solution_set.apply(x, y, theta, change)
    torch.testing.assert_close(product, expected @ change.flatten(), rtol=0, atol=1e-12)


def test_projection_is_feasible_exactly_in_the_box_and_nearest(problem):
    """KKT: x_init + J(x)ᵀu clipped is x, and no random feasible point is nearer."""
    x_train, x_other, y, theta, lower, upper = problem
    x_init = x_train + 0.05 * (x_other - x_train)
    solutions = solution_set.SolutionSet(y, theta, DECAY, lower, upper)
    projection = solutions.project(x_init)
    assert projection.converged
    assert solution_set.residual(projection.x, y, theta, DECAY).norm() <= 1e-12
    wanted = x_init + solution_set.adjoint(projection.x, y, theta, projection.multipliers)
    torch.testing.assert_close(projection.x, wanted.clamp(lower, upper), rtol=0, atol=1e-8)
    distance = (projection.x - x_init).norm()
    assert distance < (x_train - x_init).norm()  # the training set is in the solution set too
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        start = projection.x + 0.05 * torch.randn(N, D, generator=generator, dtype=torch.float64)
        assert (solutions.project(start).x - x_init).norm() > distance


def test_box_is_active_where_it_should_be(problem):
    _, x_init, y, theta, lower, upper = problem
    free = solution_set.SolutionSet(y, theta, DECAY, lower - 10, upper + 10).project(x_init)
    boxed = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert ((free.x < lower) | (free.x > upper)).any()
    assert (boxed.x == lower).any() and (boxed.x == upper).any() and boxed.converged
    assert (boxed.x >= lower).all() and (boxed.x <= upper).all()


def test_retraining_gives_theta_star_also_by_scikit_learn(problem):
    _, x_init, y, theta, lower, upper = problem
    x = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init).x
    assert (retrain(x, y) - theta).norm() <= 1e-10 * theta.norm()
    oracle = LogisticRegression(
        fit_intercept=False, C=1 / (N * DECAY), solver="newton-cholesky", tol=1e-12
    )
    oracle.fit(with_ones(x).numpy(), y.numpy())
    assert (torch.from_numpy(oracle.coef_[0]) - theta).norm() <= 1e-8 * theta.norm()


def test_dimension_is_unknowns_minus_rank(problem):
    """Walking in any tangent direction and projecting back stays on the set."""
    x_train, _, y, theta, lower, upper = problem
    rank = solution_set.jacobian_rank(x_train, y, theta)
    assert rank == D + 1
    rows = torch.linalg.svd(by_autograd(x_train, y, theta), full_matrices=True).Vh
    tangent = rows[rank].reshape(N, D)
    solutions = solution_set.SolutionSet(y, theta, DECAY, lower - 10, upper + 10)
    ratios = []
    for step in (1e-2, 1e-3):
        start = x_train + step * tangent
        ratios.append(float((solutions.project(start).x - start).norm()) / step)
    assert ratios[1] < 0.2 * ratios[0] < 0.2  # the correction is of second order in the step
    # θ* = 0 with labels fitted nowhere: the bias equation has no rank
    assert solution_set.jacobian_rank(x_train, y, torch.zeros_like(theta)) == D


def test_start_at_the_truth_is_returned_unchanged(problem):
    x_train, _, y, theta, lower, upper = problem
    solutions = solution_set.SolutionSet(y, theta, DECAY, lower, upper)
    projection = solutions.project(x_train, 1e-12)
    assert (
        torch.equal(projection.x, x_train) and projection.iterations == 0 and projection.converged
    )
    with pytest.raises(ReconError, match="float64"):
        solutions.project(x_train.float())


def test_a_step_that_clips_every_pixel_does_not_end_in_an_error(problem, monkeypatch):
    """A singular system at the first step: the projection goes on from where it is instead of
    raising.
    """
    solve, calls = solution_set.solve_normal, []

    def singular_once(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise ReconError("degenerate")
        return solve(*arguments)

    monkeypatch.setattr(solution_set, "solve_normal", singular_once)
    x_train, x_other, y, theta, lower, upper = problem
    x_init = x_train + 0.05 * (x_other - x_train)
    projection = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert len(calls) > 2 and projection.converged


# ---------------------------------------------------------- normal equations, against dense algebra


def few_images(n=6, d=20, sizes=1.0):
    """x, soft labels with σ(z) − y = `sizes` times numbers of order one, θ, b: 2n < d + 1."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    theta, b = torch.randn(2, d + 1, generator=generator, dtype=torch.float64)
    r = sizes * (0.5 + torch.rand(n, generator=generator, dtype=torch.float64))
    return x, torch.sigmoid(with_ones(x) @ theta) - r, theta, b


def dense_normal(x, y, theta, free):
    """J M Jᵀ with J by autograd."""
    jacobian = by_autograd(x, y, theta)
    return (jacobian * free.flatten()) @ jacobian.mT


@pytest.mark.parametrize(("n", "d"), [(6, 20), (2, 5), (9, 18), (10, 19), (12, 20), (5, 9)])
@pytest.mark.parametrize("sizes", [1.0, 1e-3])
@pytest.mark.parametrize("clipped", [False, True])
def test_normal_equations_are_solved_by_either_way(n, d, sizes, clipped):
    """Woodbury's identity for 2n < d + 1, Cholesky else; the bias has no unknowns of its own."""
    x, y, theta, b = few_images(n, d, sizes)
    free = torch.ones(n, d, dtype=torch.bool)
    free[1:, ::3] = not clipped  # every pixel is free in some image
    matrix = dense_normal(x, y, theta, free)
    solution = solution_set.solve_normal(x, y, theta, free if clipped else None, b)
    assert (matrix @ solution - b).norm() < 1e-7 * b.norm()
    torch.testing.assert_close(
        solution_set.normal_matrix(x, y, theta, free), matrix, rtol=0, atol=1e-10
    )


def test_few_images_of_many_pixels_need_no_matrix_of_the_parameters(monkeypatch):
    """Its (d + 1)² entries are what Woodbury's identity is for."""
    x, y, theta, b = few_images(d=200)
    matrix = solution_set.normal_matrix(x, y, theta)
    monkeypatch.setattr(solution_set, "normal_matrix", lambda *_: pytest.fail("formed"))
    solution = solution_set.solve_normal(x, y, theta, None, b)
    assert (matrix @ solution - b).norm() < 1e-7 * b.norm()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_singular_system_gets_the_smallest_ridge_that_helps(scale):
    b = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for entry, ridge in ((2.0, 0.0), (0.0, 1e-14), (-1e-11, 1e-10), (-2e-9, 1e-8)):
        diagonal = scale * torch.tensor([1.0, 1.0, entry], dtype=torch.float64)
        solution = solution_set._solve_spd(diagonal.diag(), b)
        expected = b / (diagonal + ridge * diagonal.mean())
        torch.testing.assert_close(solution, expected, rtol=1e-9, atol=0)
    with pytest.raises(ReconError, match="too few free pixels"):
        solution_set._solve_spd(-torch.eye(3, dtype=torch.float64), b)


@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_rank_is_that_of_the_dense_jacobian(n):
    """Also where few images cannot matter for every equation."""
    x, y, theta, _ = few_images(n)
    rank = int(torch.linalg.matrix_rank(by_autograd(x, y, theta)))
    assert solution_set.jacobian_rank(x, y, theta) == rank == min(n * 20, 21)


def by_autograd(x, y, theta):
    """J by autograd, (d + 1, n·d)."""
    return torch.autograd.functional.jacobian(
        lambda x: solution_set.residual(x, y, theta, DECAY), x
    ).flatten(1)


@pytest.mark.parametrize("pixel", [0, 19])
@pytest.mark.parametrize("share", [0.0, 1e-4, 1e-2])
def test_a_pixel_that_is_nearly_clipped_everywhere(pixel, share):
    """Where its diagonal entry r_0²/n² is below 1e-6 of the mean one, its reciprocal is worth
    nothing.
    """
    x, y, theta, b = few_images()
    free = torch.ones_like(x, dtype=torch.bool)
    free[1:, pixel] = False
    free[0, pixel] = share > 0
    # r_0 shrinks to its share
    y[0] += (1 - share) * (torch.sigmoid(with_ones(x) @ theta) - y)[0]
    matrix = dense_normal(x, y, theta, free)
    b = matrix @ b  # so that it has a solution
    solution = solution_set.solve_normal(x, y, theta, free, b)
    assert (matrix @ solution - b).norm() < 1e-6 * b.norm()


@pytest.mark.parametrize("n", [4, 12])
def test_a_projection_without_bounds_is_a_step_along_the_rows_of_the_jacobian(n):
    """Of few images, by Woodbury's identity, and of many; it stops at its iterations."""
    generator = torch.Generator().manual_seed(0)
    train, noise = torch.rand(2, n, D, generator=generator, dtype=torch.float64) - 0.5
    y = (torch.arange(n) % 2).double()
    theta, start = retrain(train, y), train + 0.1 * noise
    free = torch.tensor(torch.inf, dtype=torch.float64)
    solutions = solution_set.SolutionSet(y, theta, DECAY, -free, free)
    projection = solutions.project(start)
    wanted = start + solution_set.adjoint(projection.x, y, theta, projection.multipliers)
    assert projection.converged and torch.allclose(projection.x, wanted, rtol=0, atol=1e-8)
    short = solutions.project(start, max_iter=1)
    assert short.iterations == 1 < projection.iterations < 20 and not short.converged
