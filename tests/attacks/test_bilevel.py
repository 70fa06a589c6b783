"""The hypergradient against three oracles, the inverse Hessians against dense algebra, the attack on toys."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from recon.attacks import bilevel
from recon.attacks.bilevel import (
    AffineInner,
    BilevelAttack,
    ConjugateGradient,
    GaussNewton,
    LBFGSInner,
    QuasiNewton,
    Woodbury,
    conjugate_gradient,
    hypergradient,
    outer_energy,
    unrolled_hypergradient,
)
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.nets.mlp import MLP, affine
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings
from recon.released import Weights
from recon.training.inner import INNER, InnerSolution, Objective, solve_affine, solve_lbfgs

N, D, WD = 6, 9, 0.05


def toy(network=None, seed=0, starts=2):
    """(objective, x, θ(x), θ*), float64."""
    generator = torch.Generator().manual_seed(seed)
    network = network or affine(D)
    y = (torch.arange(N) % 2).double()
    objective = Objective(network, y, WD)
    x = torch.randn(starts, N, D, generator=generator, dtype=torch.float64)
    theta_star = torch.randn(network.n_params, generator=generator, dtype=torch.float64)
    theta_0 = network.flatten(network.init(generator, dtype=torch.float64)).expand(starts, -1)
    if network.depth == 1:
        return objective, x, solve_affine(objective, x, tol=1e-13), theta_star
    return objective, x, solve_lbfgs(objective, x, theta_0, LBFGSSettings(1e-11, 4000, history=20)), theta_star


def released(network, theta_star, y):
    return Weights(network, theta_star, y=y, weight_decay=WD)


def smooth_net():
    return MLP((D, 4, 1), smoothing=3.0)


def central_difference(objective, x, theta_star, inner, step=1e-5):
    """dl/dx by moving each pixel of each image there and back and solving the inner problem anew."""
    gradient = torch.zeros_like(x)
    for i in range(x.shape[1]):
        for k in range(x.shape[2]):
            values = []
            for sign in (1, -1):
                moved = x.clone()
                moved[:, i, k] += sign * step
                values.append(outer_energy(theta_star, inner(moved).theta))
            gradient[:, i, k] = (values[0] - values[1]) / (2 * step)
    return gradient


def newton(objective, x, theta, steps=6):
    """θ(x) to machine precision for one row, by dense Newton steps from a nearby θ."""
    for _ in range(steps):
        hessian = torch.autograd.functional.hessian(lambda t: objective.value(t, x).sum(), theta)[0, :, 0]
        theta = theta - torch.linalg.solve(hessian, objective.grad(theta, x)[0])[None]
    return InnerSolution(theta, objective.grad(theta, x).norm(dim=-1), steps)


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("inverse", [Woodbury(), GaussNewton(), ConjugateGradient(1e-13, 200)])
def test_affine_hypergradient_equals_central_difference(inverse):
    objective, x, solution, theta_star = toy()
    gradient, product = hypergradient(objective, x, solution, 2 * (solution.theta - theta_star), inverse)
    reference = central_difference(objective, x, theta_star, lambda m: solve_affine(objective, m, tol=1e-13))
    assert relative(gradient, reference) < 1e-6
    assert product.residual.max() < 1e-10


def test_hypergradient_equals_autograd_through_the_closed_form():
    """For the squared loss θ(x) is ridge regression: differentiate the formula itself and compare (1e-8)."""

    class Ridge(Objective):
        def loss(self, theta, x):
            return 0.5 * (self.logits(theta, x) - self.y).square().mean(-1)

    objective, x, _, theta_star = toy()
    ridge = Ridge(objective.network, objective.y, WD)

    def closed_form(images):
        xb = torch.cat([images, torch.ones_like(images[..., :1])], -1)
        system = xb.mT @ xb / N + WD * torch.eye(D + 1, dtype=images.dtype)
        return torch.linalg.solve(system, xb.mT @ objective.y.unsqueeze(-1) / N).squeeze(-1)

    images = x.clone().requires_grad_()
    outer_energy(theta_star, closed_form(images)).sum().backward()
    theta = closed_form(x)
    solution = InnerSolution(theta, ridge.grad(theta, x).norm(dim=-1), 0)
    gradient, _ = hypergradient(ridge, x, solution, 2 * (theta - theta_star), ConjugateGradient(1e-14, 100))
    assert solution.grad_norm.max() < 1e-12
    assert relative(gradient, images.grad) < 1e-8


def test_hypergradient_equals_unrolled_differentiation():
    objective, x, solution, theta_star = toy()
    implicit, _ = hypergradient(objective, x, solution, 2 * (solution.theta - theta_star), Woodbury())
    unrolled, theta = unrolled_hypergradient(objective, x, torch.zeros_like(solution.theta), theta_star, 3000, 0.25)
    assert relative(theta, solution.theta) < 1e-8
    assert relative(unrolled, implicit) < 1e-6


def test_one_hidden_hypergradient_equals_central_difference():
    network = smooth_net()
    objective, x, solution, theta_star = toy(network, starts=1)
    assert solution.grad_norm.max() < 1e-9
    v = 2 * (solution.theta - theta_star)
    gradient, product = hypergradient(objective, x, solution, v, ConjugateGradient(1e-13, 500))
    assert product.residual.max() < 1e-8
    directions = torch.randn(5, *x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)

    def slope(direction, step):
        ends = [newton(objective, x + sign * step * direction, solution.theta).theta for sign in (1, -1)]
        return (outer_energy(theta_star, ends[0]) - outer_energy(theta_star, ends[1])) / (2 * step)

    for direction in directions:
        expected = (4 * slope(direction, 2e-4) - slope(direction, 4e-4)) / 3  # Richardson: the error of h² is gone
        assert ((gradient * direction).sum() / expected - 1).abs().item() < 1e-6


def test_row_space_split_changes_nothing():
    """The inverse product in the span of the images equals the one with the full Hessian (n < d here)."""
    objective, x, solution, theta_star = toy(smooth_net(), starts=1)
    assert solution.space is not None and solution.space.coordinates.shape[-1] == N < D
    v = 2 * (solution.theta - theta_star)
    small = ConjugateGradient(1e-13, 500)(objective, x, solution, v)
    hessian = torch.autograd.functional.hessian(lambda t: objective.value(t, x).sum(), solution.theta)[0, :, 0]
    assert relative(small.p[0], torch.linalg.solve(hessian, v[0])) < 1e-8


def test_gauss_newton_is_woodbury_for_the_affine_net():
    objective, x, solution, theta_star = toy()
    v = 2 * (solution.theta - theta_star)
    assert relative(GaussNewton()(objective, x, solution, v).p, Woodbury()(objective, x, solution, v).p) < 1e-12


def test_quasi_newton_improves_on_the_identity_and_states_its_residual():
    network = affine(D)
    objective, x, _, theta_star = toy(network)
    start = torch.zeros(2, network.n_params, dtype=x.dtype)
    solution = solve_lbfgs(objective, x, start, replace(INNER, tol=1e-10, history=50))
    v = 2 * (solution.theta - theta_star)
    product = QuasiNewton()(objective, x, solution, v)
    exact = Woodbury()(objective, x, solution, v).p
    assert relative(product.p, exact) < relative(v, exact)
    honest = (objective.hvp(solution.theta, x, product.p) - v).norm(dim=-1) / v.norm(dim=-1)
    assert torch.allclose(product.residual, honest, rtol=1e-6)


def test_cg_on_the_identity_takes_one_step_and_reports_its_residual():
    v = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    product = conjugate_gradient(lambda p: p, v)
    assert product.iterations == 1
    assert torch.equal(product.residual, torch.zeros(3, dtype=torch.float64))


def test_cg_is_honest_when_cut_short():
    diagonal = torch.logspace(0, 6, 50, dtype=torch.float64)
    v = torch.ones(1, 50, dtype=torch.float64)
    product = conjugate_gradient(lambda p: diagonal * p, v, max_iter=5)
    assert product.iterations == 5
    assert product.residual.item() == pytest.approx((diagonal * product.p - v).norm().item() / v.norm().item())
    assert product.residual.item() > 1e-3


def test_cg_stops_at_negative_curvature_with_a_finite_answer():
    diagonal = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
    product = conjugate_gradient(lambda p: diagonal * p, torch.ones(1, 3, dtype=torch.float64))
    assert torch.isfinite(product.p).all() and product.residual.item() > 1e-3


def test_truth_is_a_fixed_point_and_one_sample_is_recovered_exactly():
    """n = 1, known direction: from a start on the ray of the image, the attack returns the image itself."""
    network, y = affine(D), torch.ones(1, dtype=torch.float64)
    objective = Objective(network, y, WD)
    x_train = torch.rand(1, 1, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.5
    theta_star = solve_affine(objective, x_train, tol=1e-13).theta[0]
    attack = BilevelAttack(released(network, theta_star, y), AffineInner(1e-13), Woodbury(), HeavyBall(tol=1e-22))
    found = reconstruct(attack, torch.cat([x_train, 0.5 * x_train]), 2000, tol=1e-22)
    assert torch.equal(found.x_hat[0], x_train[0])
    assert (found.x_hat[1] - x_train[0]).abs().max() < 1e-8


@pytest.mark.parametrize("network", [affine(D), smooth_net()], ids=["affine", "one-hidden"])
def test_attack_lowers_its_energy_is_finite_and_repeatable(network):
    objective, x, solution, theta_star = toy(network)
    theta_star = 0.3 * theta_star
    affine_net = network.depth == 1
    inner = AffineInner() if affine_net else LBFGSInner(solution.theta, first=50, next=10)
    attack = BilevelAttack(
        released(network, theta_star, objective.y), inner, Woodbury() if affine_net else GaussNewton()
    )
    first, again = (reconstruct(attack, x, 40) for _ in range(2))
    assert torch.isfinite(first.x_hat).all()
    assert (first.energy < 0.5 * first.history[0]).all()
    assert torch.equal(first.x_hat, again.x_hat)


def test_batched_starts_equal_single_runs():
    objective, x, _, theta_star = toy(starts=3)
    attack = BilevelAttack(released(objective.network, theta_star, objective.y), AffineInner(), Woodbury())
    batch = reconstruct(attack, x, 30)
    for row in range(3):
        single = reconstruct(attack, x[row : row + 1], 30)
        assert torch.allclose(batch.x_hat[row], single.x_hat[0], atol=1e-9)


def test_bad_input_is_one_sentence():
    network = affine(D)
    y = torch.ones(2, dtype=torch.float64)
    with pytest.raises(ReconError, match="not finite"):
        released(network, torch.full((D + 1,), torch.nan), y)
    with pytest.raises(ReconError, match="θ\\* has shape"):
        released(network, torch.zeros(3), y)
    with pytest.raises(ReconError, match="needs the labels"):
        BilevelAttack(Weights(network, torch.zeros(D + 1)), AffineInner(), Woodbury()).init(torch.zeros(1, 2, D))
    with pytest.raises(ReconError, match="labels"):
        Objective(network, torch.tensor([2.0]), WD)
    with pytest.raises(ReconError, match="positive weight decay"):
        solve_affine(Objective(network, y, 0.0), torch.zeros(1, 2, D, dtype=torch.float64))
    with pytest.raises(ReconError, match="affine network only"):
        objective, x, solution, _ = toy(smooth_net())
        Woodbury()(objective, x, solution, solution.theta)


def test_a_step_knows_the_gradient_of_the_outer_energy():
    """‖θ* − θ(x)‖² and its derivative by central differences, factor and sign included."""
    objective, x, solution, theta_star = toy()
    attack = BilevelAttack(released(objective.network, theta_star, objective.y), AffineInner(1e-13), Woodbury())
    accepted = attack.step(attack.init(x))["accepted"]
    torch.testing.assert_close(accepted["energy"], (solution.theta - theta_star).norm(dim=-1) ** 2)
    reference = central_difference(objective, x, theta_star, lambda m: solve_affine(objective, m, tol=1e-13))
    assert relative(accepted["grad"], reference) < 1e-6


def test_a_rejected_step_takes_the_inner_problem_back_too():
    class Marked(AffineInner):
        def init(self, objective, x):
            return {**super().init(objective, x), "mark": x[:, 0, 0]}

        def solve(self, objective, x, carried):
            solution, logits = super().solve(objective, x, carried)
            return solution, {**logits, "mark": x[:, 0, 0]}

    objective, x, _, theta_star = toy(starts=3)
    weights = released(objective.network, 0.3 * theta_star, objective.y)
    attack = BilevelAttack(weights, Marked(), Woodbury(), HeavyBall(20.0))
    state, rejected = attack.init(x), 0
    for _ in range(15):
        proposal = state["x"]
        state = attack.step(state)
        assert torch.equal(state["inner"]["mark"], state["accepted"]["x"][:, 0, 0])
        rejected += int((state["accepted"]["x"] != proposal).any())
    assert 0 < rejected < 15


def test_the_inner_problem_gets_its_first_and_then_its_next_iterations():
    objective, x, _, _ = toy(smooth_net(), starts=1)
    start = torch.ones(1, objective.network.n_params, dtype=x.dtype)
    inner = LBFGSInner(start, first=6, next=2, tol=0.0)
    carried = inner.init(objective, x)
    torch.testing.assert_close(carried["theta"], solve_lbfgs(objective, x, start, LBFGSSettings(0.0, 6, 20)).theta)
    solution, after = inner.solve(objective, x, carried)
    assert solution.iterations == 2 and torch.equal(after["theta"], solution.theta)


# --------------------------------------------------------------------------------- conjugate gradients, by the textbook


def textbook(matrix, v, steps):
    """Hestenes & Stiefel (1952) for one right-hand side: the iterates p_0 … p_steps and the norms of v − A p_k."""
    p, r = torch.zeros_like(v), v.clone()
    d, iterates, norms = r.clone(), [p], [r.norm().item()]
    for _ in range(steps):
        alpha = (r @ r) / (d @ matrix @ d)
        p, new = p + alpha * d, r - alpha * matrix @ d
        d, r = new + (new @ new) / (r @ r) * d, new
        iterates.append(p)
        norms.append(r.norm().item())
    return iterates, norms


def systems(rows=3, size=12):
    """A positive definite matrix with a spread spectrum, and right-hand sides of very different sizes."""
    generator = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    matrix = (q * torch.logspace(0, 1, size, dtype=torch.float64)) @ q.mT
    v = torch.randn(rows, size, generator=generator, dtype=torch.float64)
    return (matrix + matrix.mT) / 2, v * torch.tensor([[1e-4], [1.0], [1e4]], dtype=torch.float64)[:rows]


@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize("row", range(3))
def test_cg_stops_at_the_first_iterate_within_its_tolerance(tol, row):
    matrix, v = systems()
    iterates, norms = textbook(matrix, v[row], 14)
    expected = next(k for k, norm in enumerate(norms) if norm <= tol * norms[0])
    found = conjugate_gradient(lambda p: p @ matrix, v[row : row + 1], tol)
    assert found.iterations == expected > 0
    torch.testing.assert_close(found.p[0], iterates[expected], rtol=1e-6, atol=1e-9 * norms[0])
    left = ((found.p[0] @ matrix - v[row]).norm() / v[row].norm()).item()
    assert found.residual.item() == pytest.approx(left, rel=1e-9) and left <= tol * (1 + 1e-6)


@pytest.mark.parametrize("tol", [0.3, 1e-5])
def test_rows_of_cg_stop_on_their_own(tol):
    """A row that is done stays where it was while others go on."""
    matrix, v = systems()
    v[1] = torch.linalg.eigh(matrix).eigenvectors[:, 3]  # solved in one step
    together = conjugate_gradient(lambda p: p @ matrix, v, tol)
    alone = [conjugate_gradient(lambda p: p @ matrix, v[row : row + 1], tol) for row in range(3)]
    torch.testing.assert_close(together.p, torch.cat([each.p for each in alone]), rtol=1e-9, atol=1e-12)
    assert together.iterations == max(each.iterations for each in alone) > alone[1].iterations == 1


@pytest.mark.parametrize("max_iter", [0, 1, 4, 300])
def test_cg_stops_at_its_last_iteration(max_iter):
    diagonal = torch.logspace(0, 9, 400, dtype=torch.float64)
    found = conjugate_gradient(lambda p: diagonal * p, torch.ones(1, 400, dtype=torch.float64), 1e-14, max_iter)
    assert found.iterations == max_iter and found.residual.item() > 1e-10
    assert bool(found.p.any()) == (max_iter > 0)


def test_cg_of_nothing_is_nothing():
    found = conjugate_gradient(lambda p: 2 * p, torch.zeros(2, 3, dtype=torch.float64))
    assert found.iterations == 0 and not found.p.any() and found.residual.tolist() == [0.0, 0.0]


def test_a_row_of_negative_curvature_keeps_what_it_had():
    """Truncated: the iterate before the bad direction, the other row being solved."""
    diagonal = torch.tensor([[1.0, 1.0, 1.0, -4.0], [1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    v = torch.tensor([[1.0, 1.0, 1.0, 0.5], [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    found = conjugate_gradient(lambda p: diagonal * p, v)
    iterates, _ = textbook(diagonal[0].diag(), v[0], 1)
    torch.testing.assert_close(found.p[0], iterates[1])
    torch.testing.assert_close(found.p[1], v[1] / diagonal[1])


def test_the_iterations_and_the_tolerance_of_a_conjugate_gradient_are_its_own():
    objective, x, solution, theta_star = toy(smooth_net(), starts=1)
    v = 2 * (solution.theta - theta_star)
    exact = ConjugateGradient(1e-13, 500)(objective, x, solution, v)
    short, rough = (ConjugateGradient(*each)(objective, x, solution, v) for each in ((1e-13, 3), (0.1, 500)))
    assert short.iterations == 3 < exact.iterations and exact.residual < 1e-10
    assert rough.iterations < exact.iterations and 1e-10 < rough.residual.item() <= 0.1
    assert (ConjugateGradient().tol, ConjugateGradient().max_iter) == (1e-10, 200)


@pytest.mark.parametrize("curvature", [1.0, 1e-3])
def test_woodbury_is_the_dense_inverse(curvature):
    generator = torch.Generator().manual_seed(0)
    jacobian = torch.randn(2, 4, 7, generator=generator, dtype=torch.float64)
    weights = curvature * torch.rand(2, 4, generator=generator, dtype=torch.float64)
    v = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    for row in range(2):
        matrix = jacobian[row].mT @ weights[row].diag() @ jacobian[row] / 4 + 0.03 * torch.eye(7, dtype=torch.float64)
        found = bilevel._woodbury(jacobian, weights, 0.03, v)[row]
        torch.testing.assert_close(found, torch.linalg.solve(matrix, v[row]), rtol=1e-10, atol=1e-12)


def test_settings_of_the_inner_problem_in_the_book(monkeypatch):
    """What the stored results were computed with; warm starts give up on kinks after eight halvings."""
    used, (objective, x, solution, _) = [], toy()
    monkeypatch.setattr(bilevel, "solve_lbfgs", lambda *each: used.append(each[3]) or solution)
    warm = LBFGSInner(solution.theta)
    warm.solve(objective, x, warm.init(objective, x))
    assert used == [replace(INNER, tol=1e-5, max_iter=500), replace(INNER, tol=1e-5, max_iter=10, halvings=8)]
    inner = LBFGSInner(torch.zeros(1, 3))
    assert (inner.first, inner.next, inner.tol, AffineInner().tol) == (500, 10, 1e-5, 1e-10)
