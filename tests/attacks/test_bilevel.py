"""The hypergradient against three oracles, the inverse Hessian against dense algebra, the attack on
toys.
"""

from __future__ import annotations

import pytest
import torch

from recon.attacks.bilevel import BilevelAttack, hypergradient, inverse_hessian, outer_energy
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.nets.mlp import MLP, affine
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings
from recon.released import Weights
from recon.training.inner_problem import InnerSolution, Objective, solve_affine, solve_lbfgs

N, D, WD = 6, 9, 0.05


def toy(network=None, seed=0, starts=2):
    """(objective, x, θ(x) with its logits, θ*), float64."""
    generator = torch.Generator().manual_seed(seed)
    network = network or affine(D)
    y = (torch.arange(N) % 2).double()
    objective = Objective(network, y, WD)
    x = torch.randn(starts, N, D, generator=generator, dtype=torch.float64)
    theta_star = torch.randn(network.n_params, generator=generator, dtype=torch.float64)
    theta_0 = network.flatten(network.init(generator, dtype=torch.float64)).expand(starts, -1)
    if network.depth == 1:
        return objective, x, solve_affine(objective, x, tol=1e-13), theta_star
    theta = solve_lbfgs(objective, x, theta_0, LBFGSSettings(1e-11, 4000, history=20))
    return objective, x, InnerSolution(theta, objective.logits(theta, x)), theta_star


def released(network, theta_star, y):
    return Weights(network, theta_star, y=y, weight_decay=WD)


def smooth_net():
    return MLP((D, 4, 1), smoothing=3.0)


def central_difference(objective, x, theta_star, inner, step=1e-5):
    """dl/dx by moving each pixel of each image there and back and solving the inner problem
    anew.
    """
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
        hessian = torch.autograd.functional.hessian(lambda t: objective.value(t, x).sum(), theta)[
            0, :, 0
        ]
        theta = theta - torch.linalg.solve(hessian, objective.grad(theta, x)[0])[None]
    return theta


def dense(objective, x, theta, v):
    """[∇²E]⁻¹ v with the Hessian by automatic differentiation, row by row."""
    rows = []
    for row, images, right in zip(theta, x, v, strict=True):
        hessian = torch.autograd.functional.hessian(
            lambda t, images=images: objective.value(t[None], images[None])[0], row
        )
        rows.append(torch.linalg.solve(hessian, right))
    return torch.stack(rows)


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("inverse", [inverse_hessian, dense])
def test_affine_hypergradient_equals_central_difference(inverse):
    objective, x, solution, theta_star = toy()
    p = inverse(objective, x, solution.theta, 2 * (solution.theta - theta_star))
    gradient = hypergradient(objective, x, solution.theta, p)
    reference = central_difference(
        objective, x, theta_star, lambda m: solve_affine(objective, m, tol=1e-13)
    )
    assert relative(gradient, reference) < 1e-6


def test_hypergradient_equals_autograd_through_the_closed_form():
    """For the squared loss θ(x) is ridge regression: differentiate the formula itself and compare
    (1e-8).
    """

    class Ridge(Objective):
        def value(self, theta, x):
            loss = (self.logits(theta, x) - self.y).square().mean(-1)
            return 0.5 * (loss + WD * theta.square().sum(-1))

    objective, x, _, theta_star = toy()
    ridge = Ridge(objective.network, objective.y, WD)

    def closed_form(images):
        xb = torch.cat([images, torch.ones_like(images[..., :1])], -1)
        system = xb.mT @ xb / N + WD * torch.eye(D + 1, dtype=images.dtype)
        return torch.linalg.solve(system, xb.mT @ objective.y.unsqueeze(-1) / N).squeeze(-1)

    images = x.clone().requires_grad_()
    outer_energy(theta_star, closed_form(images)).sum().backward()
    theta = closed_form(x)
    gradient = hypergradient(ridge, x, theta, dense(ridge, x, theta, 2 * (theta - theta_star)))
    assert ridge.grad(theta, x).norm(dim=-1).max() < 1e-12
    assert relative(gradient, images.grad) < 1e-8


def test_hypergradient_equals_unrolled_differentiation():
    objective, x, solution, theta_star = toy()
    p = inverse_hessian(objective, x, solution.theta, 2 * (solution.theta - theta_star))
    implicit = hypergradient(objective, x, solution.theta, p)
    images, theta = x.clone().requires_grad_(), torch.zeros_like(solution.theta).requires_grad_()
    for _ in range(3000):  # gradient descent
        theta = theta - 0.25 * objective.grad(theta, images, create_graph=True)
    unrolled = torch.autograd.grad(outer_energy(theta_star, theta).sum(), images)[0]
    assert relative(theta, solution.theta) < 1e-8
    assert relative(unrolled, implicit) < 1e-6


def test_one_hidden_hypergradient_equals_central_difference():
    network = smooth_net()
    objective, x, solution, theta_star = toy(network, starts=1)
    assert objective.grad(solution.theta, x).norm() < 1e-9
    v = 2 * (solution.theta - theta_star)
    gradient = hypergradient(objective, x, solution.theta, dense(objective, x, solution.theta, v))
    directions = torch.randn(5, *x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)

    def slope(direction, step):
        ends = [newton(objective, x + sign * step * direction, solution.theta) for sign in (1, -1)]
        return (outer_energy(theta_star, ends[0]) - outer_energy(theta_star, ends[1])) / (2 * step)

    for direction in directions:
        # Richardson: the error of h² is gone
        expected = (4 * slope(direction, 2e-4) - slope(direction, 4e-4)) / 3
        assert ((gradient * direction).sum() / expected - 1).abs().item() < 1e-6


def test_truth_is_a_fixed_point_and_one_sample_is_recovered_exactly():
    """n = 1, known direction: from a start on the ray of the image, the attack returns the image
    itself.
    """
    network, y = affine(D), torch.ones(1, dtype=torch.float64)
    objective = Objective(network, y, WD)
    x_train = (
        torch.rand(1, 1, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.5
    )
    theta_star = solve_affine(objective, x_train, tol=1e-13).theta[0]
    attack = BilevelAttack(released(network, theta_star, y), HeavyBall(tol=1e-22), 1e-13)
    found = reconstruct(attack, torch.cat([x_train, 0.5 * x_train]), 2000, tol=1e-22)
    assert torch.equal(found.x_hat[0], x_train[0])
    assert (found.x_hat[1] - x_train[0]).abs().max() < 1e-8


def test_attack_lowers_its_energy_is_finite_and_repeatable():
    objective, x, _, theta_star = toy()
    attack = BilevelAttack(released(objective.network, 0.3 * theta_star, objective.y))
    first, again = (reconstruct(attack, x, 40) for _ in range(2))
    assert torch.isfinite(first.x_hat).all()
    assert (first.energy < 0.5 * first.history[0]).all()
    assert torch.equal(first.x_hat, again.x_hat)


def test_batched_starts_equal_single_runs():
    objective, x, _, theta_star = toy(starts=3)
    attack = BilevelAttack(released(objective.network, theta_star, objective.y))
    batch = reconstruct(attack, x, 30)
    for row in range(3):
        single = reconstruct(attack, x[row : row + 1], 30)
        assert torch.allclose(batch.x_hat[row], single.x_hat[0], atol=1e-9)


def test_a_step_knows_the_gradient_of_the_outer_energy():
    """‖θ* − θ(x)‖² and its derivative by central differences, factor and sign included."""
    objective, x, solution, theta_star = toy()
    attack = BilevelAttack(released(objective.network, theta_star, objective.y), inner_tol=1e-13)
    accepted = attack.step(attack.init(x))["accepted"]
    torch.testing.assert_close(accepted["energy"], (solution.theta - theta_star).norm(dim=-1) ** 2)
    reference = central_difference(
        objective, x, theta_star, lambda m: solve_affine(objective, m, tol=1e-13)
    )
    assert relative(accepted["grad"], reference) < 1e-6


def test_a_rejected_step_takes_the_inner_problem_back_too():
    objective, x, _, theta_star = toy(starts=3)
    attack = BilevelAttack(
        released(objective.network, 0.3 * theta_star, objective.y), HeavyBall(20.0)
    )
    state, rejected = attack.init(x), 0
    for _ in range(15):
        proposal = state["x"]
        state = attack.step(state)
        there = solve_affine(objective, state["accepted"]["x"]).logits
        torch.testing.assert_close(state["inner"]["logits"], there, rtol=0, atol=1e-8)
        rejected += int((state["accepted"]["x"] != proposal).any())
    assert 0 < rejected < 15


def test_woodburys_formula_is_the_dense_inverse():
    objective, x, solution, _ = toy()
    for scale in (1.0, 30.0):  # of saturated logits: a curvature of nearly nothing
        theta, v = scale * solution.theta, solution.theta.flip(-1)
        found = inverse_hessian(objective, x, theta, v)
        torch.testing.assert_close(found, dense(objective, x, theta, v), rtol=1e-9, atol=1e-12)


def test_the_accuracy_of_the_inner_problem_in_the_book():
    """What the stored results were computed with."""
    assert BilevelAttack.inner_tol == 1e-10


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (Weights(affine(D), torch.zeros(D + 1)), "needs the labels"),
        (
            Weights(
                smooth_net(), torch.zeros(smooth_net().n_params), y=torch.ones(2), weight_decay=WD
            ),
            "needs the affine network",
        ),
        (Weights(affine(D), torch.zeros(D + 1), y=torch.ones(2)), "positive weight decay"),
    ],
)
def test_bad_input_is_one_sentence(weights, sentence):
    with pytest.raises(ReconError, match=sentence):
        reconstruct(BilevelAttack(weights), torch.zeros(1, 2, D), 1)
