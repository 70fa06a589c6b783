"""Walks between two training sets of one classifier, with and without bounds, and the theorem's
constants.
"""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import brentq
from scipy.special import lambertw

from recon.analysis.walk import (
    LIMIT,
    PEAK,
    Curve,
    apex,
    constants,
    outward_direction,
    solution_set,
    sufficient,
    walk,
    weighted_logit,
)
from recon.errors import ReconError
from recon.nets.mlp import affine
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

BOX = (0.0, 1.0)


@pytest.fixture(scope="module")
def problem():
    """Released weights, the truth, and the training sets nearest to other images without bounds and
    in the box.
    """
    generator = torch.Generator().manual_seed(0)
    truth, other = torch.rand(2, 30, 50, generator=generator, dtype=torch.float64)
    y = torch.tensor([0.0] * 12 + [1.0] * 18, dtype=torch.float64)
    theta = solve_affine(Objective(affine(50), y, 1e-3), truth[None]).theta[0]
    released = Weights(affine(50), theta, y=y, weight_decay=1e-3)
    return (
        released,
        truth,
        other,
        {box: solution_set(released, box).project(other).x for box in (None, BOX)},
    )


@pytest.mark.parametrize("box", [None, BOX])
def test_every_frame_of_a_walk_trains_the_same_classifier(problem, box):
    released, truth, _, ends = problem
    result = walk(released, truth, ends[box], 21, box, slice(0, 30))
    assert result.frames.shape == (21, 30, 50) and result.solved
    retrained = [retrain(released, x) for x in result.frames]
    assert max(retrained) < 1e-10 and result.error.max() < 1e-10
    middle = retrain(released, torch.lerp(truth, ends[box], 0.5))
    assert result.straight[10].item() == pytest.approx(middle) and middle > 1e-2
    assert 0.95 * result.step < result.coarse <= result.step and 1 <= result.step < 1.06
    torch.testing.assert_close(result.frames[[0, -1]], torch.stack([truth, ends[box]]))
    inside = result.frames.min() >= 0 and result.frames.max() <= 1
    assert inside == (box is not None)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_curve_needs_no_projection_and_does_not_jump(problem, backwards):
    """From the truth, from which the way leads to e(a), to images with outliers, from which it
    raises the largest.
    """
    released, truth, _, ends = problem
    start, end = (ends[None], truth) if backwards else (truth, ends[None])
    curve = Curve(released, start, end)
    frames = torch.stack([curve.at(t) for t in curve.even_times(101)])
    torch.testing.assert_close(frames[[0, -1]], torch.stack([start, end]), atol=1e-9, rtol=0)
    lengths = frames.diff(dim=0).flatten(1).norm(dim=1)
    assert max(retrain(released, x) for x in frames[::20]) < 1e-10
    assert lengths.max() < 1.01 * lengths.mean() < 1.1 * (end - start).norm() / 100
    assert (curve.at(0.5 + 1e-7) - curve.at(0.5)).norm() < 1e-5 * lengths.sum()


def test_from_every_training_set_one_of_two_directions_leads_out(problem):
    released, truth, _, ends = problem
    (_, c), theta, y = constants(released), released.theta_star, released.y
    for x, inwards in ((truth, 1.0), (ends[None], 0.0)):
        a = torch.sigmoid((1 - 2 * y) * (x @ theta[:-1] + theta[-1]))
        alpha, lift = outward_direction(a, y, c)
        way = lift - alpha * (a - apex(a, y, c))
        assert alpha == inwards and lift.sum() == (0 if inwards else 2)
        assert float(((2 * y - 1) * way).sum()) == pytest.approx(0, abs=1e-12)
        assert weighted_logit(a + 1e-6 * way).sum() < weighted_logit(a).sum()


def test_h():
    a = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    assert weighted_logit(torch.tensor([0.0, 1.0])).tolist() == [0.0, -math.inf]
    torch.testing.assert_close(weighted_logit(a), a * torch.log((1 - a) / a))
    peak = lambertw(1 / math.e).real
    assert pytest.approx(2 * peak, abs=1e-15) == LIMIT
    assert pytest.approx(peak / (1 + peak), abs=1e-14) == PEAK


def test_every_training_set_meets_the_three_equations_and_no_other_does(problem):
    released, truth, other, ends = problem
    level, balance = constants(released)
    w, bias, sign = released.theta_star[:-1], released.theta_star[-1], 2 * released.y - 1
    for x, holds in ((truth, True), (ends[None], True), (other, False)):
        a = torch.sigmoid(-sign * (x @ w + bias))
        across = (sign * a) @ (x - torch.outer(x @ w / w.square().sum(), w))
        left = (weighted_logit(a).sum() - level, (sign * a).sum() - balance, across.norm())
        assert [abs(float(value)) < 1e-9 for value in left] == [holds] * 3


def test_sufficient_by_hand():
    y = torch.tensor([0.0, 0, 0, 1])
    assert sufficient(y, 0.0) == LIMIT
    assert sufficient(y, 0.2) == pytest.approx(LIMIT + 0.2 * math.log(4))
    # beyond the peak of h its value there counts
    assert sufficient(y, 0.9) == pytest.approx(1.5 * LIMIT)
    assert sufficient(y, -0.3) == pytest.approx(LIMIT + 3 * 0.1 * math.log(9))


def test_below_the_limit_the_set_may_fall_apart():
    """c = 0 and one image of label 1: where 2h(a_1) > C there is no point, and there are some on
    either side, here with forty equal others.
    """
    level, n = 0.9 * LIMIT, 40
    parts = torch.tensor([1.0] + [1 / n] * n, dtype=torch.float64)
    y = (parts == 1).double()
    theta = torch.tensor([1.0, 0.0], dtype=torch.float64)  # an image is its logit
    released = Weights(affine(1), theta, y=y, weight_decay=level / (n + 1))

    def above(a):
        return float(weighted_logit(a * parts).sum()) - level

    heights = [brentq(above, 1e-6, PEAK / 4), brentq(above, 0.5, 0.999)]
    sets = [((2 * y - 1) * torch.logit(1 - a * parts))[:, None] for a in heights]
    curve = Curve(released, *sets)
    with pytest.raises(ReconError, match="too low"):
        [curve.at(t) for t in torch.linspace(0, 1, 21).tolist()]


def retrain(released, x):
    """‖θ(x) − θ*‖ / ‖θ*‖, trained from scratch."""
    objective = Objective(affine(50), released.y, 1e-3)
    theta = solve_affine(objective, x[None]).theta[0]
    return float((theta - released.theta_star).norm() / released.theta_star.norm())
