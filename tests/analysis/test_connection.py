"""A curve between two solutions on the exact solution set."""

from __future__ import annotations

import torch

from recon.analysis.connection import connection
from recon.analysis.landscape import bilevel_energy, segment, sweep_bilevel
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.training.inner import Objective, solve_affine


def test_connection_of_two_solutions():
    """The straight segment leaves the solution set; its projection does not, and keeps both ends."""
    generator = torch.Generator().manual_seed(0)
    truth, start = torch.rand(2, 6, 40, generator=generator, dtype=torch.float64)
    y = torch.tensor([0.0, 0, 0, 1, 1, 1], dtype=torch.float64)
    theta = solve_affine(Objective(affine(40), y, 1e-2), truth[None]).theta[0]
    released = Weights(affine(40), theta, y=y, weight_decay=1e-2)
    end = sweep_bilevel(released, start[None], 5000, HeavyBall(0.3, 0.9, tol=1e-12)).x_hat[0]
    found = connection(released, truth, end, 11)
    torch.testing.assert_close(found.straight, bilevel_energy(released, segment(truth, end, 11)))
    assert found.straight[5] > 1e-4 and found.straight[[0, -1]].max() < 1e-9
    assert found.curve.max() < 1e-15 and found.curve.shape == (11,)
    assert 0 < found.bend < (end - truth).norm(dim=1).mean() and 0.5 < found.jump < 2
