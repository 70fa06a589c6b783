"""The exact solution set of the affine net: derivatives, projection, dimension, and independent oracles."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from recon.analysis import solution_set
from recon.errors import ReconError
from recon.nets.mlp import affine
from recon.training.inner import Objective, solve_affine, with_ones

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


def test_residual_is_the_gradient_of_the_objective(problem):
    _, x, y, theta, _, _ = problem
    expected = Objective(affine(D), y, DECAY).grad(theta.unsqueeze(0), x.unsqueeze(0))[0]
    torch.testing.assert_close(solution_set.residual(x, y, theta, DECAY), expected, rtol=0, atol=1e-12)


def test_jacobian_is_that_of_autograd(problem):
    _, x, y, theta, _, _ = problem
    expected = torch.autograd.functional.jacobian(lambda x: solution_set.residual(x, y, theta, DECAY), x).flatten(1)
    dense = solution_set.jacobian_dense(x, y, theta)
    torch.testing.assert_close(dense, expected, rtol=0, atol=1e-12)
    change = torch.randn(N, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    product = solution_set.apply(x, y, theta, change)
    torch.testing.assert_close(product, expected @ change.flatten(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_normal_matrix_is_that_of_the_dense_jacobian(problem, share):
    _, x, y, theta, _, _ = problem
    free = torch.rand(N, D, generator=torch.Generator().manual_seed(2)) < share
    dense = solution_set.jacobian_dense(x, y, theta)
    expected = (dense * free.flatten()) @ dense.T
    torch.testing.assert_close(solution_set.normal_matrix(x, y, theta, free), expected, rtol=0, atol=1e-10)


def test_projection_is_feasible_exactly_in_the_box_and_nearest(problem):
    """KKT: x_init + J(x)ᵀu clipped is x, and no random feasible point is nearer."""
    x_train, x_other, y, theta, lower, upper = problem
    x_init = x_train + 0.05 * (x_other - x_train)
    found = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert found.converged and found.anchored
    assert solution_set.residual(found.x, y, theta, DECAY).norm() <= 1e-12
    assert (found.x >= lower).all() and (found.x <= upper).all()
    assert found.optimality <= 1e-8
    distance = (found.x - x_init).norm()
    assert distance < (x_train - x_init).norm()  # the training set is in the solution set too
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        start = (found.x + 0.05 * torch.randn(N, D, generator=generator, dtype=torch.float64)).clamp(lower, upper)
        assert (solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(start).x - x_init).norm() > distance


def test_box_is_active_where_it_should_be(problem):
    _, x_init, y, theta, lower, upper = problem
    free = solution_set.SolutionSet(y, theta, DECAY, lower - 10, upper + 10).project(x_init)
    boxed = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert ((free.x < lower) | (free.x > upper)).any()
    assert ((boxed.x == lower) | (boxed.x == upper)).any() and boxed.converged


def test_retraining_gives_theta_star_also_by_scikit_learn(problem):
    _, x_init, y, theta, lower, upper = problem
    x = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init).x
    assert (retrain(x, y) - theta).norm() <= 1e-10 * theta.norm()
    assert (retrain(x_init, y) - theta).norm() > 0.1 * theta.norm()
    oracle = LogisticRegression(fit_intercept=False, C=1 / (N * DECAY), solver="newton-cholesky", tol=1e-12)
    oracle.fit(with_ones(x).numpy(), y.numpy())
    assert (torch.from_numpy(oracle.coef_[0]) - theta).norm() <= 1e-8 * theta.norm()


def test_dimension_is_unknowns_minus_rank(problem):
    """Full rank d + 1; walking in any tangent direction and projecting back stays on the set."""
    x_train, _, y, theta, lower, upper = problem
    dense = solution_set.jacobian_dense(x_train, y, theta)
    rank = solution_set.jacobian_rank(x_train, y, theta)
    assert rank == D + 1 == int(torch.linalg.matrix_rank(dense))
    null_space = torch.linalg.svd(dense, full_matrices=True).Vh[rank:]
    assert len(null_space) == N * D - rank
    tangent = null_space[0].reshape(N, D)
    ratios = []
    for step in (1e-2, 1e-3):
        moved = solution_set.SolutionSet(y, theta, DECAY, lower - 10, upper + 10).project(x_train + step * tangent).x
        ratios.append(float((moved - x_train - step * tangent).norm()) / step)
    assert ratios[1] < 0.2 * ratios[0] < 0.2  # the correction is of second order in the step


def test_rank_is_deficient_where_images_cannot_matter(problem):
    """θ* = 0 with labels fitted nowhere: r ≠ 0 gives the d weight equations full rank, the bias equation none."""
    x, _, y, theta, _, _ = problem
    assert solution_set.jacobian_rank(x, y, torch.zeros_like(theta)) == D


def test_start_at_the_truth_is_returned_unchanged(problem):
    x_train, _, y, theta, lower, upper = problem
    found = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(
        x_train, solution_set.ProjectionSettings(1e-12)
    )
    assert torch.equal(found.x, x_train) and found.iterations == 0 and found.converged


def test_float32_is_refused(problem):
    _, x, y, theta, lower, upper = problem
    with pytest.raises(ReconError, match="float64"):
        solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x.float())


def test_a_step_that_clips_every_pixel_does_not_end_in_an_error(problem, monkeypatch):
    """A singular system at the first step: the projection goes on from where it is instead of raising."""
    solve, calls = solution_set.solve_normal, []

    def singular_once(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise ReconError("degenerate")
        return solve(*arguments)

    monkeypatch.setattr(solution_set, "solve_normal", singular_once)
    x_train, x_other, y, theta, lower, upper = problem
    x_init = x_train + 0.05 * (x_other - x_train)
    found = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert len(calls) > 2 and found.converged and not found.anchored
