"""The attack in the span of the images against the same formulas on all parameters; its state, and
its checkpoints.
"""

from __future__ import annotations

import pytest
import torch

from recon.attacks.bilevel import hypergradient, outer_energy
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.reconstruct import reconstruct
from recon.nets.mlp import one_hidden
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings, lbfgs
from recon.optim.subspace import Subspace, lifted, reduced
from recon.training.inner_problem import Objective
from recon.training.one_hidden_layer import HiddenObjective

N, D, WIDTH, DECAY = 6, 30, 8, 0.01
Y = (torch.arange(N) % 2).double()


def in_span(network, x, generator):
    """Random θ whose first layer lies in the span of x."""
    theta = 0.3 * torch.randn(network.n_params, generator=generator, dtype=torch.float64)
    space = Subspace.spanned_by(x)
    return lifted(network, reduced(network, theta, space)[1], space)


def toy(smoothing=None, seed=0):
    """(θ* in full and in its span, x, θ(x) in full), all random."""
    generator = torch.Generator().manual_seed(seed)
    network = one_hidden(WIDTH, D, smoothing)
    x_train, x = (torch.rand(N, D, generator=generator, dtype=torch.float64) for _ in range(2))
    star = in_span(network, x_train, generator)
    return star, SpanWeights.of(network, star, N), x, in_span(network, x, generator)


def attack_on(star, theta_0=None, **settings):
    return SpanAttack(star, Y, DECAY, theta_0 or star.project, **settings)


def test_the_span_is_read_off_the_weights():
    full, star, _, _ = toy()
    assert star.basis.shape == (N, D) and star.theta.shape == (WIDTH * (N + 2) + 1,)
    torch.testing.assert_close(
        lifted(star.network, star.theta, Subspace(star.basis)), full, rtol=0, atol=1e-12
    )
    torch.testing.assert_close(star.basis @ star.basis.mT, torch.eye(N, dtype=torch.float64))


def dense_gauss_newton(objective, x, theta, v):
    """[JᵀDJ/n + ω·I]⁻¹ v on all parameters, J by automatic differentiation."""
    jacobian = torch.autograd.functional.jacobian(lambda t: objective.logits(t[None], x)[0], theta)
    chance = torch.sigmoid(objective.logits(theta[None], x)[0])
    matrix = jacobian.mT @ (chance * (1 - chance)).diag() @ jacobian / N
    matrix += DECAY * torch.eye(len(theta), dtype=torch.float64)
    return torch.linalg.solve(matrix, v)


@pytest.mark.parametrize("smoothing", [None, 5.0], ids=["relu", "smooth"])
def test_energy_and_hypergradient_are_those_of_all_parameters(smoothing):
    full, star, x, theta = toy(smoothing)
    attack = attack_on(star)
    basis = attack.basis_of(x)
    small = reduced(star.network, theta, Subspace(basis))[1]
    energy, grad = attack.energy_and_grad(x, basis, small)
    torch.testing.assert_close(energy, outer_energy(full, theta))
    objective = Objective(star.network, Y, DECAY)
    p = dense_gauss_newton(objective, x[None], theta, 2 * (theta - full))
    expected = hypergradient(objective, x[None], theta[None], p[None])
    assert ((grad - expected[0]).norm() / expected.norm()).item() < 1e-9


@pytest.mark.parametrize(
    "begun", [False, True], ids=["from anywhere", "from a start that is known"]
)
def test_the_hypergradient_of_a_smooth_net_is_that_of_the_outer_energy(monkeypatch, begun):
    """With p from the exact Hessian, dl/dx by central differences of solved inner problems: cosine
    1.
    """
    _, star, x, theta = toy(smoothing=3.0)
    start = (
        star.network.init(torch.Generator().manual_seed(2), dtype=torch.float64) if begun else None
    )
    attack = attack_on(star, start=start)

    def exact(objective, _):
        hessian = torch.autograd.functional.hessian(
            lambda t: objective.value(t, objective.at(t).logits), theta
        )
        return lambda v: torch.linalg.solve(hessian, v)

    def solved(images, start, basis):
        objective = attack.objective(images, basis)
        small = lbfgs(objective.value_and_grad, start, LBFGSSettings(1e-8, 3000, 30)).theta
        for _ in range(4):
            hessian = torch.autograd.functional.hessian(
                lambda t: objective.value(t, objective.at(t).logits), small
            )
            small = small - torch.linalg.solve(hessian, objective.value_and_grad(small)[1])
        return small

    basis = attack.basis_of(x)
    theta = solved(x, reduced(star.network, theta, Subspace(basis))[1], basis)
    monkeypatch.setattr(HiddenObjective, "gauss_newton", exact)
    _, grad = attack.energy_and_grad(x, basis, theta)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        way = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        ends = []
        for sign in (1, -1):
            moved = x + sign * 1e-4 * way
            there = attack.basis_of(moved)
            start = SpanWeights(star.network, theta, basis).project(there)
            ends.append(
                SpanWeights(star.network, solved(moved, start, there), there).distance(star)
            )
        slope = (ends[0] - ends[1]) / 2e-4
        assert (grad * way).sum().item() == pytest.approx(slope, rel=1e-4)


def test_without_a_box_the_images_stay_in_the_span_of_their_start_and_of_the_training_images():
    _, star, x, _ = toy()
    attack = attack_on(star, descent=HeavyBall(1.0, 0.5))
    found = reconstruct(attack, x[None], 15)
    assert (found.x_hat[0] - x).norm() > 1e-3
    span = Subspace.spanned_by(x, star.basis)
    assert (
        span.outside(found.x_hat[0]).norm()
        < 1e-9 * found.x_hat.norm()
        < span.outside(torch.ones(1, D, dtype=x.dtype)).norm()
    )


def test_a_rejected_step_keeps_the_images_and_looks_again():
    _, star, x, _ = toy()
    few = LBFGSSettings(max_iter=3)
    attack = attack_on(star, first=few, next=few, descent=HeavyBall(1e6))
    state = attack.step(attack.init(x[None]))
    before = state["accepted"]
    after = attack.step(state)["accepted"]
    assert torch.equal(after["x"], before["x"]) and after["energy"] != before["energy"]
    basis = after["basis"][0]
    expected = SpanWeights(star.network, after["theta"][0], basis).distance(star)
    assert after["energy"].item() == pytest.approx(expected)


def test_a_stalled_run_does_nothing_more():
    _, star, x, _ = toy()
    attack = attack_on(star)
    state = attack.step(attack.init(x[None]))
    still = {**state, "x": state["accepted"]["x"].clone()}
    assert attack.step(still) is still


def test_the_truth_stays_where_it_is_and_energies_fall():
    generator = torch.Generator().manual_seed(2)
    network = one_hidden(WIDTH, D)
    x_train, noise = torch.rand(2, N, D, generator=generator, dtype=torch.float64)
    space = Subspace.spanned_by(x_train)
    theta_0 = network.flatten(network.init(generator, dtype=torch.float64))
    objective = HiddenObjective(network.with_inputs(N), space.reduce(x_train), Y, DECAY)
    start = reduced(network, theta_0, space)[1]
    theta = lbfgs(objective.value_and_grad, start, LBFGSSettings(1e-9, 5000)).theta
    attack = attack_on(SpanWeights(network, theta, space.basis), descent=HeavyBall(1.0, 0.5))
    truth = reconstruct(attack, x_train[None], 5, tol=1e-8)
    assert truth.energy.item() <= 1e-8 and torch.equal(truth.x_hat[0], x_train)
    descent = reconstruct(attack, noise[None], 60)
    # 0.4 to 0.57, by processor: where kinks leave it
    assert descent.energy.item() < 0.7 * descent.history[0].item()
