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


def test_residual_is_the_gradient_of_the_objective(problem):
    _, x, y, theta, _, _ = problem
    expected = Objective(affine(D), y, DECAY).grad(theta.unsqueeze(0), x.unsqueeze(0))[0]
    torch.testing.assert_close(
        solution_set.residual(x, y, theta, DECAY), expected, rtol=0, atol=1e-12
    )


def test_jacobian_is_that_of_autograd(problem):
    _, x, y, theta, _, _ = problem
    expected = torch.autograd.functional.jacobian(
        lambda x: solution_set.residual(x, y, theta, DECAY), x
    ).flatten(1)
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
    torch.testing.assert_close(
        solution_set.normal_matrix(x, y, theta, free), expected, rtol=0, atol=1e-10
    )


def test_projection_is_feasible_exactly_in_the_box_and_nearest(problem):
    """KKT: x_init + J(x)ᵀu clipped is x, and no random feasible point is nearer."""
    x_train, x_other, y, theta, lower, upper = problem
    x_init = x_train + 0.05 * (x_other - x_train)
    found = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert found.converged
    assert solution_set.residual(found.x, y, theta, DECAY).norm() <= 1e-12
    assert (found.x >= lower).all() and (found.x <= upper).all()
    wanted = (x_init + solution_set.adjoint(found.x, y, theta, found.multipliers)).clamp(
        lower, upper
    )
    assert (found.x - wanted).abs().max() <= 1e-8
    distance = (found.x - x_init).norm()
    assert distance < (x_train - x_init).norm()  # the training set is in the solution set too
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        start = (
            found.x + 0.05 * torch.randn(N, D, generator=generator, dtype=torch.float64)
        ).clamp(lower, upper)
        assert (
            solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(start).x - x_init
        ).norm() > distance


def test_box_is_active_where_it_should_be(problem):
    _, x_init, y, theta, lower, upper = problem
    free = solution_set.SolutionSet(y, theta, DECAY, lower - 10, upper + 10).project(x_init)
    boxed = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert ((free.x < lower) | (free.x > upper)).any()
    assert ((boxed.x == lower) | (boxed.x == upper)).any() and boxed.converged


def test_either_bound_clips_alike(problem):
    """Images and weights of the other sign have the same logits: their projection is that of the
    mirrored box.
    """
    _, x_init, y, theta, lower, upper = problem
    mirrored, settings = (
        torch.cat([-theta[:-1], theta[-1:]]),
        solution_set.ProjectionSettings(max_iter=5),
    )
    far = torch.full_like(upper, 10)
    below = solution_set.SolutionSet(y, theta, DECAY, lower, far).project(x_init, settings)
    above = solution_set.SolutionSet(y, mirrored, DECAY, -far, -lower).project(-x_init, settings)
    assert (below.x == lower).any()
    torch.testing.assert_close(above.x, -below.x, rtol=0, atol=1e-8)


def test_retraining_gives_theta_star_also_by_scikit_learn(problem):
    _, x_init, y, theta, lower, upper = problem
    x = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init).x
    assert (retrain(x, y) - theta).norm() <= 1e-10 * theta.norm()
    assert (retrain(x_init, y) - theta).norm() > 0.1 * theta.norm()
    oracle = LogisticRegression(
        fit_intercept=False, C=1 / (N * DECAY), solver="newton-cholesky", tol=1e-12
    )
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
        moved = (
            solution_set.SolutionSet(y, theta, DECAY, lower - 10, upper + 10)
            .project(x_train + step * tangent)
            .x
        )
        ratios.append(float((moved - x_train - step * tangent).norm()) / step)
    assert ratios[1] < 0.2 * ratios[0] < 0.2  # the correction is of second order in the step


def test_rank_is_deficient_where_images_cannot_matter(problem):
    """θ* = 0 with labels fitted nowhere: r ≠ 0 gives the d weight equations full rank, the bias
    equation none.
    """
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
    found = solution_set.SolutionSet(y, theta, DECAY, lower, upper).project(x_init)
    assert len(calls) > 2 and found.converged


# ---------------------------------------------------------- normal equations, against dense algebra


def few_images(n=6, d=20, sizes=1.0, seed=4):
    """x, soft labels with σ(z) − y = `sizes` times numbers of order one, θ, free pixels, b: 2n < d
    + 1.
    """
    generator = torch.Generator().manual_seed(seed)
    x, free = (
        torch.randn(n, d, generator=generator, dtype=torch.float64),
        torch.rand(n, d, generator=generator) < 0.8,
    )
    theta = torch.randn(d + 1, generator=generator, dtype=torch.float64)
    r = sizes * (0.5 + torch.rand(n, generator=generator, dtype=torch.float64))
    b = torch.randn(d + 1, generator=generator, dtype=torch.float64)
    return x, torch.sigmoid(with_ones(x) @ theta) - r, theta, free, b


def dense_normal(x, y, theta, free):
    """J M Jᵀ with J by autograd."""
    jacobian = torch.autograd.functional.jacobian(
        lambda x: solution_set.residual(x, y, theta, DECAY), x
    ).flatten(1)
    return (jacobian * free.flatten()) @ jacobian.mT


@pytest.fixture
def by_cholesky(monkeypatch):
    """Every call of `_solve_spd`."""
    calls, solve = [], solution_set._solve_spd
    monkeypatch.setattr(solution_set, "_solve_spd", lambda *a: calls.append(1) or solve(*a))
    return calls


@pytest.mark.parametrize(
    ("n", "d", "dense"), [(6, 20, 0), (2, 5, 0), (9, 18, 0), (10, 19, 1), (12, 20, 1), (5, 9, 1)]
)
@pytest.mark.parametrize("sizes", [1.0, 1e-3])
def test_normal_equations_are_solved_by_either_way(n, d, dense, sizes, by_cholesky):
    """Woodbury's identity for 2n < d + 1, where J M Jᵀ itself is not formed; the bias has no
    unknowns of its own.
    """
    x, y, theta, _, b = few_images(n, d, sizes)
    everything = torch.ones(n, d, dtype=torch.bool)
    expected = torch.linalg.solve(dense_normal(x, y, theta, everything), b)
    for free in (None, everything):
        found = solution_set.solve_normal(x, y, theta, free, b)
        assert (found - expected).norm() < 1e-5 * expected.norm()
        rest = dense_normal(x, y, theta, everything) @ found - b
        assert rest.norm() < 1e-7 * b.norm()
    assert len(by_cholesky) == 2 * dense


def test_normal_equations_with_clipped_pixels(by_cholesky):
    x, y, theta, free, b = few_images()
    free[0] = True  # every pixel is free in some image
    matrix = dense_normal(x, y, theta, free)
    assert (matrix @ solution_set.solve_normal(x, y, theta, free, b) - b).norm() < 1e-8 * b.norm()
    assert not by_cholesky


@pytest.mark.parametrize("pixel", [0, 7, 19])
@pytest.mark.parametrize(("share", "dense"), [(0.0, True), (1e-4, True), (1e-2, False)])
def test_a_pixel_that_is_nearly_clipped_everywhere_goes_by_cholesky(
    pixel, share, dense, by_cholesky
):
    """Its diagonal entry r_0²/n² is then below 1e-6 of the mean one, and its reciprocal worth
    nothing.
    """
    x, y, theta, free, b = few_images()
    free[:], free[1:, pixel] = True, False
    r = torch.sigmoid(with_ones(x) @ theta) - y
    # r_0 shrinks to its share
    y = y + torch.tensor([1.0] + [0.0] * 5, dtype=y.dtype) * (1 - share) * r
    free[0, pixel] = share > 0
    b = dense_normal(x, y, theta, free) @ b  # so that it has a solution
    found = solution_set.solve_normal(x, y, theta, free, b)
    assert (dense_normal(x, y, theta, free) @ found - b).norm() < 1e-6 * b.norm()
    assert bool(by_cholesky) == dense


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_singular_system_gets_the_smallest_ridge_that_helps(scale):
    b = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for entry, ridge in ((2.0, 0.0), (0.0, 1e-14), (-1e-13, 1e-12), (-1e-11, 1e-10), (-2e-9, 1e-8)):
        diagonal = scale * torch.tensor([1.0, 1.0, entry], dtype=torch.float64)
        expected = b / (diagonal + ridge * diagonal.mean())
        torch.testing.assert_close(
            solution_set._solve_spd(diagonal.diag(), b), expected, rtol=1e-9, atol=0
        )
    with pytest.raises(ReconError, match="too few free pixels"):
        solution_set._solve_spd(
            scale * torch.tensor([1.0, 1.0, -1e-6], dtype=torch.float64).diag(), b
        )


@pytest.mark.parametrize(
    ("norms", "taken"),
    [
        ([0.69], 0),
        ([0.71, 0.84], 1),
        ([0.71, 0.86, 0.92], 2),
        ([0.71, 0.86, 0.93, 0.962], 3),
        ([0.99] * 5 + [0.9905], 5),
        ([2.0] * 7 + [0.9976], 7),
        ([2.0] * 7 + [0.9978], None),
    ],
)
def test_a_step_is_halved_until_it_lowers_the_norm_by_three_tenths_of_it(problem, norms, taken):
    """Armijo: ‖F‖ ≤ (1 − 0.3 · step) ‖F_k‖ of the first such step 1, ½, … 1/128."""
    x, other, y, theta, lower, upper = problem
    left = iter(norms)

    class Told(solution_set.SolutionSet):
        def _at(self, x, u):
            return solution_set._State(x, u, torch.zeros_like(u), next(left))

    state = solution_set._State(x, torch.zeros_like(theta), torch.zeros_like(theta), 1.0)
    u = torch.ones_like(theta)
    wide = Told(y, theta, DECAY, lower - 10, upper + 10)
    found = wide._line_search(state, u, 1e-9, other)
    if taken is None:
        assert found is None
        return
    assert torch.equal(found.u, 0.5**taken * u) and next(left, None) is None
    expected = other + 0.5**taken * solution_set.adjoint(x, y, theta, u)
    torch.testing.assert_close(found.x, expected, rtol=1e-12, atol=1e-12)


def test_a_step_that_stays_accurate_enough_is_taken_whole(problem):
    x, _, y, theta, lower, upper = problem
    state = solution_set._State(x, torch.zeros_like(theta), torch.zeros_like(theta), 1e-20)
    found = solution_set.SolutionSet(y, theta, DECAY, lower, upper)._line_search(
        state, 0 * theta, 1e-6, x
    )
    assert found is not None and 1e-20 < found.norm <= 1e-6 and torch.equal(found.u, 0 * theta)


@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_rank_is_that_of_the_dense_jacobian(n):
    """Also where few images cannot matter for every equation."""
    x, y, theta, _, _ = few_images(n)
    jacobian = torch.autograd.functional.jacobian(
        lambda x: solution_set.residual(x, y, theta, DECAY), x
    ).flatten(1)
    assert (
        solution_set.jacobian_rank(x, y, theta)
        == int(torch.linalg.matrix_rank(jacobian))
        == min(n * 20, 21)
    )


def test_an_adjoint_is_the_jacobians_transpose():
    x, y, theta, _, b = few_images()
    jacobian = torch.autograd.functional.jacobian(
        lambda x: solution_set.residual(x, y, theta, DECAY), x
    ).flatten(1)
    torch.testing.assert_close(
        solution_set.adjoint(x, y, theta, b).flatten(), jacobian.mT @ b, rtol=1e-10, atol=1e-12
    )
    assert (solution_set.ProjectionSettings().tol, solution_set.ProjectionSettings().max_iter) == (
        1e-14,
        40,
    )


@pytest.mark.parametrize("n", [4, 12])
def test_a_projection_converges_and_stops_at_its_iterations(n):
    """Of few images, by Woodbury's identity, and of many."""
    generator = torch.Generator().manual_seed(0)
    train = torch.rand(n, D, generator=generator, dtype=torch.float64) - 0.5
    y = (torch.arange(n) % 2).double()
    theta = retrain(train, y)
    start = train + 0.03 * torch.randn(n, D, generator=generator, dtype=torch.float64)
    wide = solution_set.SolutionSet(
        y, theta, DECAY, -5 * torch.ones(D).double(), 5 * torch.ones(D).double()
    )
    found = wide.project(start)
    assert found.converged and found.iterations > 1
    wanted = start + solution_set.adjoint(found.x, y, theta, found.multipliers)
    torch.testing.assert_close(found.x, wanted, rtol=0, atol=1e-8)
    short = wide.project(start, solution_set.ProjectionSettings(max_iter=1))
    assert (
        short.iterations == 1 and not short.converged and short.residual_norm > found.residual_norm
    )
    assert wide.project(start, solution_set.ProjectionSettings(max_iter=0)).iterations == 0
