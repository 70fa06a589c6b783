"""Walks between two training sets of one classifier, with and without bounds, and the theorem's
constants.
"""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from scipy.special import lambertw

from recon.analysis.walk import (
    LIMIT,
    PEAK,
    Curve,
    apex,
    bent,
    constants,
    outwards,
    retraining_error,
    solution_set,
    sufficient,
    walk,
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
    found = walk(released, truth, ends[box], 21, box, slice(0, 30))
    assert found.error.shape == found.straight.shape == (21,) and found.error.max() < 1e-10
    assert found.straight[10] > 1e-2 and found.straight[[0, -1]].max() < 1e-10
    assert (
        found.solved and 0.95 * found.step < found.coarse <= found.step and 1 <= found.step < 1.06
    )
    assert found.frames.shape == (21, 30, 50)
    torch.testing.assert_close(found.frames[0], truth, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.frames[-1], ends[box], atol=1e-9, rtol=0)
    inside = found.frames.min() >= 0 and found.frames.max() <= 1
    assert inside == (box is not None)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_curve_needs_no_projection_and_does_not_jump(problem, backwards):
    """From the truth, from which the way leads to e(a), to images with outliers, from which it
    raises the largest.
    """
    released, truth, _, ends = problem
    start, end = (ends[None], truth) if backwards else (truth, ends[None])
    curve = Curve(released, start, end)
    for t, wanted in ((0, start), (1, end)):
        torch.testing.assert_close(curve.at(t), wanted, atol=1e-9, rtol=0)
    frames = [curve.at(t) for t in curve.even_times(201)]
    lengths = [float((b - a).norm()) for a, b in pairwise(frames)]
    assert max(retraining_error(released, x) for x in frames[::20]) < 1e-10
    assert max(lengths) < 1.01 * sum(lengths) / 200 < 1.1 * float((end - start).norm()) / 200
    close = float((curve.at(0.5 + 1e-7) - curve.at(0.5)).norm())
    assert close < 1e-5 * sum(lengths)


def test_from_every_training_set_one_of_two_directions_leads_out(problem):
    released, truth, _, ends = problem
    (_, c), theta, y = constants(released), released.theta_star, released.y
    for x, inwards in ((truth, 1.0), (ends[None], 0.0)):
        a = torch.sigmoid((1 - 2 * y) * (x @ theta[:-1] + theta[-1]))
        alpha, lift = outwards(a, y, c)
        way = lift - alpha * (a - apex(a, y, c))
        assert alpha == inwards and float(((2 * y - 1) * way).sum()) == pytest.approx(0, abs=1e-12)
        assert bent(a + 1e-6 * way).sum() < bent(a).sum()
        assert alpha or sorted(a[lift.bool()].tolist()) == sorted(
            a[y == label].max().item() for label in (0, 1)
        )
        assert alpha or (
            lift.sum() == 2 and bent(a - 1e-3 * (a - apex(a, y, c))).sum() > bent(a).sum()
        )


def test_an_error_is_that_of_training_from_scratch(problem):
    released, truth, other, _ = problem
    theta = solve_affine(Objective(affine(50), released.y, 1e-3), other[None]).theta[0]
    expected = float((theta - released.theta_star).norm() / released.theta_star.norm())
    assert retraining_error(released, other) == pytest.approx(expected) and expected > 0.1
    assert retraining_error(released, truth) < 1e-12


def test_h():
    a = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    assert bent(torch.tensor([0.0, 1.0])).tolist() == [0.0, -math.inf]
    assert math.isclose(float(bent(torch.tensor(0.25))), 0.25 * math.log(3), rel_tol=1e-6)
    step = 1e-4
    bending = (bent(a + step) + bent(a - step) - 2 * bent(a)) / step**2
    torch.testing.assert_close(bending, -1 / (a * (1 - a) ** 2), rtol=1e-3, atol=0)
    assert 2 * lambertw(1 / math.e).real == pytest.approx(LIMIT, abs=1e-15)
    assert float(2 * bent(torch.tensor(PEAK, dtype=torch.float64))) == pytest.approx(
        LIMIT, abs=1e-15
    )


def test_every_training_set_meets_the_three_equations_and_no_other_does(problem):
    released, truth, other, ends = problem
    level, balance = constants(released)
    theta, sign = released.theta_star, 2 * released.y - 1
    w = theta[:-1]
    for x, holds in ((truth, True), (ends[None], True), (other, False)):
        a = torch.sigmoid(-sign * (x @ w + theta[-1]))
        across = (sign * a) @ (x - torch.outer(x @ w / w.square().sum(), w))
        left = (
            float(bent(a).sum()) - level,
            float((sign * a).sum()) - balance,
            float(across.norm()),
        )
        assert [abs(each) < 1e-9 for each in left] == [holds] * 3


def test_sufficient_by_hand():
    y = torch.tensor([0.0, 0, 0, 1])
    assert sufficient(y, 0.0) == LIMIT
    assert sufficient(y, 0.2) == pytest.approx(LIMIT + 0.2 * math.log(4))
    # beyond the peak of h its value there counts
    assert sufficient(y, 0.9) == pytest.approx(1.5 * LIMIT)
    assert sufficient(y, -0.3) == pytest.approx(LIMIT + 3 * 0.1 * math.log(9))


def test_below_the_limit_the_set_may_fall_apart():
    """c = 0 and one image of label 1: where 2h(a_1) > C there is no point, and there are some on
    either side.
    """
    wanted = 0.9 * LIMIT
    generator = torch.Generator().manual_seed(0)
    heights = []
    for _ in range(300):
        share = torch.rand(40, generator=generator, dtype=torch.float64) ** 4 + 1e-6
        a = torch.cat([torch.ones(1, dtype=torch.float64), share / share.sum()])
        scales = torch.linspace(1e-3, 0.999, 4000, dtype=torch.float64)
        sums = bent(scales[:, None] * a).sum(1) - wanted
        heights += scales[1:][(sums[1:] * sums[:-1] <= 0)].tolist()
    first = torch.tensor(heights, dtype=torch.float64)
    assert (2 * bent(first)).max() < wanted + 1e-2  # subadditivity
    assert (first < 0.15).any() and (first > 0.3).any()
    # an image is its logit, c = 0, C = `wanted`
    theta = torch.tensor([1.0, 0.0], dtype=torch.float64)
    y = torch.tensor([1.0] + [0.0] * 40, dtype=torch.float64)
    released = Weights(affine(1), theta, y=y, weight_decay=wanted / 41)
    low, high = (
        torch.cat([height[None], height.expand(40) / 40]) for height in (first.min(), first.max())
    )
    sets = [((2 * y - 1) * torch.logit(1 - a))[:, None] for a in (low, high)]
    with pytest.raises(ReconError, match="too low"):
        [Curve(released, *sets).at(t) for t in torch.linspace(0, 1, 21).tolist()]
