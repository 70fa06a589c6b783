"""The derivative of a ReLU minimiser on its kinks: the KKT system against finite differences and automatic Hessians."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.kinks import KinkAttack, Kinks, Piece, adjoint, follow, settle
from recon.nets.mlp import one_hidden
from recon.optim.lbfgs_in_place import InPlaceSettings, lbfgs_in_place
from recon.optim.subspace import Subspace, reduced
from recon.training.hidden import HiddenObjective

N, D, WIDTH, DECAY = 6, 14, 6, 1e-2
Y = (torch.arange(N) % 2).double()


def solved(network, x, seed):
    """θ(x) in the span of x, from a default start."""
    basis = Subspace.spanned_by(x).basis
    start = network.init(torch.Generator().manual_seed(seed), dtype=torch.float64)
    objective = HiddenObjective(network.with_inputs(N), x @ basis.mT, Y, DECAY)
    small = reduced(network, network.flatten(start), Subspace(basis))[1]
    found = lbfgs_in_place(objective.value_and_grad, small, InPlaceSettings(1e-12, 4000, 20))
    return objective, SpanWeights(network, found.theta, basis), found


@pytest.fixture(scope="module")
def point():
    """θ*, x, and a certified point on kinks."""
    network = one_hidden(WIDTH, D)
    generator = torch.Generator().manual_seed(0)
    x_train, x = (torch.rand(N, D, generator=generator, dtype=torch.float64) for _ in range(2))
    star = solved(network, x_train, 0)[1]
    for seed in range(1, 12):
        objective, weights, found = solved(network, x, seed)
        settled = settle(objective, found.theta)
        if settled.certified and settled.kinks.at.shape[1] > 1:
            return star, x, objective, weights, found, settled
    raise AssertionError("no start leads to a point that can be certified")


def test_a_certified_point_fulfils_its_conditions(point):
    _, _, objective, _, found, settled = point
    kinks, theta = settled.kinks, settled.theta
    z = kinks.jacobian(objective)
    grad = Piece.of(objective, theta, kinks.on).grad
    assert (grad + z.mT @ settled.mu).norm() < 1e-11 and (z @ theta).norm() < 1e-11
    assert objective.value_and_grad(theta)[0] <= found.energy + 1e-9
    w1, b1, w2, _ = objective.parts(theta)
    residual = objective.at(theta).residual / N
    share = settled.mu / (residual[kinks.at[0]] * w2[kinks.at[1]])
    assert share.min() >= -1e-6 and share.max() <= 1 + 1e-6
    pre = objective.coordinates @ w1.mT + b1
    assert pre[kinks.at[0], kinks.at[1]].abs().max() < 1e-11


def test_away_from_kinks_the_piece_is_the_objective():
    network = one_hidden(WIDTH, D)
    generator = torch.Generator().manual_seed(1)
    objective = HiddenObjective(network, torch.randn(N, D, generator=generator, dtype=torch.float64), Y, DECAY)
    theta = torch.randn(network.n_params, generator=generator, dtype=torch.float64)
    kinks = Kinks.near(objective, theta, 1e-6)
    assert kinks.at.shape == (2, 0)
    piece = Piece.of(objective, theta, kinks.on)
    torch.testing.assert_close(piece.grad, objective.value_and_grad(theta)[1])
    expected = torch.autograd.functional.hessian(lambda t: objective.value(t, objective.at(t).logits), theta)
    torch.testing.assert_close(piece.hessian, expected)


def test_the_adjoint_solves_its_system():
    """A positive definite Hessian and full-rank Z: the dense KKT system has one solution."""
    generator = torch.Generator().manual_seed(2)
    root, z = (torch.randn(rows, 8, generator=generator, dtype=torch.float64) for rows in (12, 3))
    v = torch.randn(8, generator=generator, dtype=torch.float64)
    piece = Piece(v, root.mT @ root, v, v, v)
    system = torch.cat([torch.cat([piece.hessian, z.mT], 1), torch.cat([z, torch.zeros(3, 3)], 1)])
    expected = torch.linalg.solve(system, torch.cat([v, torch.zeros(3, dtype=v.dtype)]))
    torch.testing.assert_close(torch.cat(adjoint(piece, z, v, 1.0)), expected, rtol=1e-9, atol=1e-9)


def test_the_hypergradient_is_that_of_the_outer_energy(point):
    star, x, objective, weights, found, settled = point
    attack = KinkAttack(star, Y, DECAY, star.onto)
    at_kinks = replace(found, theta=settled.theta)
    energy, grad = attack.energy_and_grad(x, weights.basis, at_kinks)
    here = SpanWeights(star.network, settled.theta, weights.basis)
    assert energy.item() == pytest.approx(here.distance(star))
    generator, slopes, expected = torch.Generator().manual_seed(3), [], []
    for _ in range(8):
        way = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        ends = []
        for sign in (1, -1):
            there = attack.basis_of(x + sign * 1e-6 * way)
            moved = attack.objective(x + sign * 1e-6 * way, there)
            theta = follow(moved, here.onto(there), settled.kinks, 4, settled.mu)[0]
            ends.append(SpanWeights(star.network, theta, there).distance(star))
        slopes.append((ends[0] - ends[1]) / 2e-6)
        expected.append((grad * way).sum().item())
    error = torch.dist(torch.tensor(slopes), torch.tensor(expected)) / torch.tensor(slopes).norm()
    assert error < 1e-4
    rough = SpanAttack(star, Y, DECAY, star.onto).energy_and_grad(x, weights.basis, at_kinks)[1]
    assert ((rough - grad).norm() / grad.norm()).item() > 1e-3  # Gauss–Newton is another thing
