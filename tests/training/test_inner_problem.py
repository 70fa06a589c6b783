"""The inner solvers against each other and scikit-learn; descent to the KKT regime without
underflow.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from recon.errors import ReconError
from recon.nets.mlp import MLP, affine
from recon.optim.lbfgs import LBFGSSettings
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.training.inner_problem import INNER, Objective, solve_affine, solve_lbfgs, with_ones
from recon.training.kkt import KKTSettings, log_logistic_loss, train_to_kkt


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


def test_log_loss_does_not_underflow():
    margins = torch.tensor([1e3, 2e3], dtype=torch.float32, requires_grad=True)
    value = log_logistic_loss(margins)
    value.backward()
    assert value.item() == pytest.approx(-1e3 - math.log(2)) and margins.grad[
        0
    ].item() == pytest.approx(-1.0)
    moderate = torch.tensor([-1.0, 3.0, 25.0], dtype=torch.float64)
    assert log_logistic_loss(moderate).item() == pytest.approx(
        torch.nn.functional.softplus(-moderate).mean().log().item()
    )


def test_descent_to_kkt_finds_the_maximum_margin_direction():
    """Linearly separable toy: the direction of θ tends to the hard-margin SVM's, here (1, 0) by
    symmetry.
    """
    x = torch.tensor([[1.0, 2.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    y = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    network = MLP((2, 1), bias=(False,))
    trained = train_to_kkt(
        network, x, y, torch.tensor([0.1, 0.5], dtype=torch.float64), KKTSettings(400)
    )
    direction = trained.theta_star / trained.theta_star.norm()
    assert direction[0].item() == pytest.approx(1.0, abs=1e-3)
    assert trained.log_loss < -50 and (trained.history.diff() <= 0).all()


def test_training_stops_at_its_goal():
    x, y = problem()
    network = affine(20)
    trained = train_to_kkt(network, x[0], y, torch.zeros(21, dtype=x.dtype), KKTSettings(500, -3.0))
    assert trained.log_loss <= -3.0 and len(trained.history) < 500


def test_the_objective_is_the_mean_loss_and_half_the_decay():
    """By hand, and its gradient and Hessian by PyTorch's own autograd functions; two trainings at
    once.
    """
    x, y = (
        torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64),
        torch.tensor([1.0, 0, 1, 1, 0], dtype=torch.float64),
    )
    network = MLP((4, 3, 1), smoothing=2.0)
    theta = torch.randn(
        2, network.n_params, generator=torch.Generator().manual_seed(4), dtype=torch.float64
    )
    objective = Objective(network, y, 0.3)
    value, grad = objective.value_and_grad(theta, x)
    for row in range(2):

        def by_hand(t, row=row):
            phi = network(network.unflatten(t), x[row])
            return (1 + ((1 - 2 * y) * phi).exp()).log().sum() / 5 + 0.15 * (t @ t)

        assert value[row].item() == pytest.approx(by_hand(theta[row]).item(), rel=1e-12)
        assert objective.value(theta, x)[row].item() == pytest.approx(value[row].item(), rel=1e-14)
        expected = torch.autograd.functional.jacobian(by_hand, theta[row])
        torch.testing.assert_close(grad[row], expected)
        torch.testing.assert_close(objective.grad(theta, x)[row], expected)


def test_newton_stops_by_its_own_step_and_a_warm_start_saves_iterations():
    x, y = problem()
    objective = Objective(affine(20), y, 0.03)
    cold = solve_affine(objective, x)
    warm = solve_affine(objective, x, cold.logits)
    assert warm.iterations == 1 < cold.iterations < 20
    torch.testing.assert_close(cold.logits, objective.logits(cold.theta, x))
    rough = solve_affine(objective, x, max_iter=2)
    far, near = (objective.grad(each.theta, x).norm() for each in (rough, cold))
    assert rough.iterations == 2 and far > near


def test_the_objective_of_released_weights():
    network, y = affine(3), torch.tensor([0.0, 1.0])
    objective = Objective.of(Weights(network, torch.zeros(4), y=y, weight_decay=0.25))
    assert objective == Objective(network, y, 0.25)
    with pytest.raises(ReconError, match="labels of the training images"):
        Objective.of(Weights(network, torch.zeros(4)))


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
    many = solve_lbfgs(Objective(network, y.repeat(4), 0.05), x.repeat(1, 4, 1), theta, settings)
    # more images than inputs: in all coordinates, and not there yet
    assert outside(many).abs().max() > 1e-3


@pytest.mark.parametrize("y", [[0.0, 2.0], [0.5, 1.0], [-1.0, 1.0]])
def test_labels_of_an_objective(y):
    with pytest.raises(ReconError, match="labels must be 0 or 1"):
        Objective(affine(3), torch.tensor(y), 0.1)


def test_bad_objectives_are_one_sentence():
    y = torch.tensor([0.0, 1.0])
    x = torch.zeros(1, 2, 3)
    assert Objective(affine(3), y, 0.0).weight_decay == 0  # allowed, but for Newton's method
    for make, sentence in (
        (lambda: Objective(affine(3), y, -0.1), "must not be negative"),
        (lambda: solve_affine(Objective(affine(3), y, 0.0), x), "positive weight decay"),
        (lambda: solve_affine(Objective(MLP((3, 2, 1)), y, 0.1), x), "affine network"),
    ):
        with pytest.raises(ReconError, match=sentence):
            make()


def test_newton_in_the_logits_by_a_dense_newton_in_theta():
    """Iterate by iterate the two differ, their minimiser does not; the tolerance is of the logits'
    step.
    """
    x, y = problem(n=5, d=4)
    objective, theta = Objective(affine(4), y, 0.2), torch.zeros(1, 5, dtype=x.dtype)
    for _ in range(20):
        hessian = torch.autograd.functional.hessian(lambda t: objective.value(t, x).sum(), theta)[
            0, :, 0
        ]
        theta = theta - torch.linalg.solve(hessian, objective.grad(theta, x)[0])[None]
    torch.testing.assert_close(solve_affine(objective, x).theta, theta, rtol=1e-9, atol=1e-12)
    iterations = [solve_affine(objective, x, tol=tol).iterations for tol in (1e9, 1e-1, 1e-12)]
    assert iterations[0] == 1 < iterations[1] < iterations[2] < 10
    torch.testing.assert_close(with_ones(x)[..., :-1], x)
    assert with_ones(x).shape == (1, 5, 5) and (with_ones(x)[..., -1] == 1).all()


def test_gradients_leave_their_arguments_alone_and_flow_only_on_demand():
    x, y = problem(n=5, d=4)
    objective, theta = Objective(affine(4), y, 0.2), torch.ones(1, 5, dtype=x.dtype)
    grad = objective.grad(theta, x)
    value, again = objective.value_and_grad(theta, x)
    assert not (grad.requires_grad or value.requires_grad or again.requires_grad)
    images = x.clone().requires_grad_()
    flowing = objective.grad(theta.clone(), images, create_graph=True)
    mixed = torch.autograd.grad(flowing[0, 0], images)[0]
    step = torch.zeros_like(x)
    step[0, 2, 1] = 1e-6
    slope = (objective.grad(theta, x + step) - objective.grad(theta, x - step))[0, 0] / 2e-6
    assert mixed[0, 2, 1].item() == pytest.approx(slope.item(), rel=1e-6)


def test_the_inner_solver_of_the_book():
    assert LBFGSSettings(tol=1e-5, history=20) == INNER
