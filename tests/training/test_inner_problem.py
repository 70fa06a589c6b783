"""The inner solvers against each other and scikit-learn; descent to the KKT regime without
underflow.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from recon.errors import ReconError
from recon.nets.mlp import MLP, affine
from recon.optim.lbfgs import LBFGSSettings
from recon.optim.subspace import Subspace
from recon.training.inner_problem import INNER, Objective, solve_affine, solve_lbfgs
from recon.training.kkt import KKTSettings, train_to_kkt


def problem(n=12, d=20):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, n, d, generator=generator, dtype=torch.float64)
    return x, (torch.arange(n) % 2).double()


def test_affine_newton_lbfgs_and_scikit_learn_agree():
    x, y = problem()
    objective = Objective(affine(20), y, 0.03)
    newton = solve_affine(objective, x)
    quasi = solve_lbfgs(objective, x, torch.ones(1, 21, dtype=x.dtype), replace(INNER, tol=1e-10))
    assert objective.grad(newton.theta, x).norm() < 1e-10 and (newton.theta - quasi).norm() < 1e-6
    oracle = LogisticRegression(
        C=1 / (len(y) * 0.03), fit_intercept=False, tol=1e-12, max_iter=10000
    )
    oracle.fit(torch.cat([x[0], torch.ones(len(y), 1)], 1).numpy(), y.numpy())
    assert torch.allclose(newton.theta[0], torch.from_numpy(oracle.coef_[0]), atol=1e-5)


def test_minimiser_lies_in_the_row_space():
    x, y = problem(n=6)
    network = MLP((20, 3, 1), smoothing=5.0)
    objective = Objective(network, y, 0.05)
    start = 0.3 * torch.ones(1, network.n_params, dtype=x.dtype)
    theta = solve_lbfgs(objective, x, start, replace(INNER, tol=1e-9, max_iter=3000))
    # stationary in the full space, found in the small one
    assert objective.grad(theta, x).norm() < 1e-8


def test_descent_to_kkt_finds_the_maximum_margin_direction():
    """Linearly separable toy: the direction of θ tends to the hard-margin SVM's, here (1, 0) by
    symmetry.
    """
    x = torch.tensor([[1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    y = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    theta = torch.tensor([0.1, 0.5], dtype=torch.float64)
    trained = train_to_kkt(MLP((2, 1), bias=(False,)), x, y, theta, KKTSettings(400))
    direction = trained.theta_star / trained.theta_star.norm()
    assert direction[0].item() == pytest.approx(1.0, abs=1e-3)
    assert trained.log_loss < -50 and (trained.history.diff() <= 0).all()


def test_the_objective_is_the_mean_loss_and_half_the_decay():
    """Its gradient by autograd; two trainings at once."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(2, 5, 4, generator=generator, dtype=torch.float64)
    y = torch.tensor([1.0, 0, 1, 1, 0], dtype=torch.float64)
    network = MLP((4, 3, 1), smoothing=2.0)
    theta = torch.randn(2, network.n_params, generator=generator, dtype=torch.float64)
    objective = Objective(network, y, 0.3)
    value, grad = objective.value_and_grad(theta, x)
    for row in range(2):

        def by_hand(t, row=row):
            phi = network(network.unflatten(t), x[row])
            return (1 + ((1 - 2 * y) * phi).exp()).log().sum() / 5 + 0.15 * (t @ t)

        expected = torch.autograd.functional.jacobian(by_hand, theta[row])
        torch.testing.assert_close(value[row], by_hand(theta[row]))
        torch.testing.assert_close(grad[row], expected)
        torch.testing.assert_close(objective.grad(theta, x)[row], expected)


def test_newton_stops_by_its_own_step_and_a_warm_start_saves_iterations():
    x, y = problem()
    objective = Objective(affine(20), y, 0.03)
    cold = solve_affine(objective, x)
    warm, one = (
        solve_affine(objective, x, cold.logits, max_iter=1),
        solve_affine(objective, x, max_iter=1),
    )
    torch.testing.assert_close(warm.logits, cold.logits)
    assert (one.logits - cold.logits).abs().max() > 1e-3
    assert torch.equal(solve_affine(objective, x, tol=1e9).logits, one.logits)
    torch.testing.assert_close(cold.logits, objective.logits(cold.theta, x))


def test_outside_the_images_the_start_is_gone_with_decay_and_stays_without():
    x, y = problem(n=6)
    network, settings = MLP((20, 3, 1), smoothing=5.0), LBFGSSettings(1e-6, 7)
    theta = 0.3 * torch.ones(1, network.n_params, dtype=x.dtype)
    space = Subspace.spanned_by(x)

    def outside(flat):
        return space.outside(network.unflatten(flat)["w1"])

    decayed, plain = (
        solve_lbfgs(Objective(network, y, decay), x, theta, settings) for decay in (0.05, 0.0)
    )
    assert outside(decayed).abs().max() < 1e-12
    assert not torch.allclose(plain, theta)
    torch.testing.assert_close(outside(plain), outside(theta))


@pytest.mark.parametrize(
    ("network", "labels", "decay"),
    [
        (affine(3), (0.5, 1.0), 0.1),
        (affine(3), (-1.0, 1.0), 0.1),
        (affine(3), (0.0, 1.0), -0.1),
        (affine(3), (0.0, 1.0), 0.0),
        (MLP((3, 2, 1)), (0.0, 1.0), 0.1),
    ],
)
def test_what_newtons_method_refuses(network, labels, decay):
    with pytest.raises(ReconError):
        solve_affine(Objective(network, torch.tensor(labels), decay), torch.zeros(1, 2, 3))
