"""Training along the gradient flow to the reference's final loss: the same curve as many small steps of descent."""

from __future__ import annotations

import math

import torch

from recon.nets.mlp import MLP
from recon.training.kkt import KKTSettings, train_to_kkt
from recon.training.reference import FINAL_LOSS, FlowSettings


def test_it_ends_at_the_references_loss_and_follows_plain_descent():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 8, generator=generator, dtype=torch.float64), torch.arange(6).double() % 2
    network = MLP((8, 16, 16, 1))
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    goal = math.log(0.05)
    flow = train_to_kkt(network, x, y, theta, FlowSettings(goal=goal))
    fast = train_to_kkt(network, x, y, theta, KKTSettings(5000, goal=goal))
    plain = train_to_kkt(network, x, y, theta, KKTSettings(100_000, goal=goal, method="gradient-descent"))
    assert flow.converged and plain.converged and len(flow.history) < len(plain.history) / 3

    def away(trained):
        return ((trained.theta_star - plain.theta_star).norm() / (plain.theta_star - theta).norm()).item()

    assert away(flow) < 0.05 and away(flow) < away(fast) / 3


def test_the_goal_is_the_references():
    assert FINAL_LOSS == 4e-6 and FlowSettings().goal == math.log(4e-6)
    optimiser = FlowSettings(relative_step=0.01).optimiser
    assert (optimiser.momentum, optimiser.max_relative_step, optimiser.tol) == (0.0, 0.01, FlowSettings().goal)
