"""Walks between two training sets of one classifier, with and without bounds."""

from __future__ import annotations

import pytest
import torch

from recon.analysis.level_set import retraining_error, solution_set, walk
from recon.nets.mlp import affine
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

BOX = (0.0, 1.0)


@pytest.fixture(scope="module")
def problem():
    generator = torch.Generator().manual_seed(0)
    truth, other = torch.rand(2, 30, 50, generator=generator, dtype=torch.float64)
    y = torch.tensor([0.0] * 15 + [1.0] * 15, dtype=torch.float64)
    theta = solve_affine(Objective(affine(50), y, 1e-3), truth[None]).theta[0]
    return Weights(affine(50), theta, y=y, weight_decay=1e-3), truth, other


@pytest.mark.parametrize("box", [None, BOX])
def test_every_frame_of_a_walk_trains_the_same_classifier(problem, box):
    released, truth, other = problem
    end = solution_set(released, box).project(other).x
    found = walk(released, truth, end, 21, box, slice(0, 30))
    assert found.error.shape == found.straight.shape == (21,) and found.error.max() < 1e-10
    assert found.straight[10] > 1e-2 and found.straight[[0, -1]].max() < 1e-10
    assert found.solved and 0.75 * found.step < found.coarse < found.step < 1.3
    assert found.frames.shape == (21, 30, 50)
    torch.testing.assert_close(found.frames[0], truth, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.frames[-1], end, atol=1e-9, rtol=0)
    inside = found.frames.min() >= 0 and found.frames.max() <= 1
    assert inside == (box is not None)


def test_an_error_is_that_of_training_from_scratch(problem):
    released, truth, other = problem
    theta = solve_affine(Objective(affine(50), released.y, 1e-3), other[None]).theta[0]
    expected = float((theta - released.theta_star).norm() / released.theta_star.norm())
    assert retraining_error(released, other) == pytest.approx(expected) and expected > 0.1
    assert retraining_error(released, truth) < 1e-12
