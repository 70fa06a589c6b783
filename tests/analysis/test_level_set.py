"""All training sets of one affine classifier in their own coordinates: equations, parts of the theorem, the curve."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.special import lambertw

from recon.analysis.level_set import (
    LIMIT,
    Detour,
    ExplicitCurve,
    across,
    apex,
    assembled,
    balance,
    bent,
    far_side,
    level,
    outward,
    steps,
    sufficient,
    taken_apart,
)
from recon.analysis.solution_set import SolutionSet, residual
from recon.errors import ReconError
from recon.nets.mlp import affine
from recon.training.inner_problem import Objective, solve_affine

N, D, DECAY = 20, 60, 1e-2
Y = torch.tensor([0.0] * 8 + [1.0] * 12, dtype=torch.float64)
UNBOUNDED = torch.tensor([torch.inf], dtype=torch.float64)


@pytest.fixture(scope="module")
def problem():
    """(θ*, three training sets of it: the truth, and those nearest to two sets of noise)."""
    generator = torch.Generator().manual_seed(0)
    truth, other, noise = torch.randn(3, N, D, generator=generator, dtype=torch.float64)
    theta = solve_affine(Objective(affine(D), Y, DECAY), truth[None]).theta[0]
    found = SolutionSet(Y, theta, DECAY, -UNBOUNDED, UNBOUNDED)
    return theta, [truth, found.project(other).x, found.project(0.3 * noise).x]


def constants(theta):
    return balance(theta, DECAY, N), level(theta, DECAY, N)


def on_the_set(a, y, c, wanted, tol=1e-12):
    sign = 2 * y - 1
    return abs(float((sign * a).sum()) - c) < tol and abs(float(bent(a).sum()) - wanted) < tol


def test_h():
    a = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    assert bent(torch.tensor([0.0, 1.0])).tolist() == [0.0, -math.inf]
    assert math.isclose(float(bent(torch.tensor(0.25))), 0.25 * math.log(3), rel_tol=1e-6)
    step = 1e-4
    bending = (bent(a + step) + bent(a - step) - 2 * bent(a)) / step**2
    torch.testing.assert_close(bending, -1 / (a * (1 - a) ** 2), rtol=1e-3, atol=0)
    assert 2 * lambertw(1 / math.e).real == pytest.approx(LIMIT, abs=1e-15)
    assert float(2 * bent(torch.linspace(0, 1, 100_001, dtype=torch.float64)).max()) == pytest.approx(LIMIT, abs=1e-8)


def test_every_training_set_meets_the_three_equations_and_no_other_does(problem):
    theta, sets = problem
    c, wanted = constants(theta)
    for x in sets:
        a, u = taken_apart(x, Y, theta)
        assert on_the_set(a, Y, c, wanted, 1e-10)
        torch.testing.assert_close(u @ theta[:-1], torch.zeros(N, dtype=torch.float64), atol=1e-10, rtol=0)
        torch.testing.assert_close(across(u, a, Y), u, atol=1e-10, rtol=0)
        torch.testing.assert_close(assembled(a, u, Y, theta), x, atol=1e-10, rtol=0)
    a = outward(taken_apart(sets[0], Y, theta)[0], Y, c, wanted)
    u = torch.randn(N, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    u = u - torch.outer(u @ theta[:-1], theta[:-1]) / theta[:-1].square().sum()
    for found, holds in ((across(u, a, Y), True), (u, False)):
        assert (residual(assembled(a, found, Y, theta), Y, theta, DECAY).norm() < 1e-12) == holds
    shrunk = 0.99 * a
    assert residual(assembled(shrunk, across(u, shrunk, Y), Y, theta), Y, theta, DECAY).norm() > 1e-4


def test_rays_keep_the_balance_and_meet_the_level_once_outwards(problem):
    theta, sets = problem
    c, wanted = constants(theta)
    a, _ = taken_apart(sets[0], Y, theta)
    base = apex(a, Y, c)
    assert float(((2 * Y - 1) * base).sum()) == pytest.approx(c, abs=1e-12) and (base >= 0).all()
    assert not far_side(a, Y, c)  # confident training images
    far = outward(a, Y, c, wanted)
    assert far_side(far, Y, c) and on_the_set(far, Y, c, wanted) and (far > a).all()
    torch.testing.assert_close(outward(far, Y, c, wanted), far, atol=1e-12, rtol=0)
    torch.testing.assert_close(outward(0.5 * (a + far), Y, c, wanted), far, atol=1e-9, rtol=0)
    for beyond in (base + 0.9 * (a - base), far + 0.01 * (far - base)):
        with pytest.raises(ReconError, match="outwards"):
            outward(beyond, Y, c, wanted)


def test_a_detour_stays_on_the_level_set_and_reaches_the_far_side(problem):
    theta, sets = problem
    c, wanted = constants(theta)
    assert wanted > sufficient(Y, c) > LIMIT
    a, _ = taken_apart(sets[0], Y, theta)
    found = Detour(a, Y, c, wanted)
    points = [found.at(t) for t in torch.linspace(0, 1, 201).tolist()]
    assert torch.equal(points[0], a) and far_side(points[-1], Y, c) and not far_side(points[100], Y, c)
    assert all(on_the_set(point, Y, c, wanted) and point.min() > 0 and point.max() < 1 for point in points)
    torch.testing.assert_close(points[1], a, atol=0.05, rtol=0)
    assert max(steps(points)) < 0.1
    rest = Detour(points[-1], Y, c, wanted)
    assert rest.last == 0.0 and torch.equal(rest.at(0.7), points[-1])


def test_sufficient_by_hand():
    y = torch.tensor([0.0, 0, 0, 1])
    assert sufficient(y, 0.0) == LIMIT
    assert sufficient(y, 0.2) == pytest.approx(LIMIT + 0.2 * math.log(4))
    assert sufficient(y, 0.9) == pytest.approx(1.5 * LIMIT)  # beyond the peak of h its value there counts
    assert sufficient(y, -0.3) == pytest.approx(LIMIT + 3 * 0.1 * math.log(9))


def test_below_the_limit_the_set_may_fall_apart():
    """c = 0 and one image of label 1: where 2h(a_1) > C there is no point, and there are some on either side."""
    y = torch.tensor([1.0] + [0.0] * 40, dtype=torch.float64)
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
    near = torch.cat([torch.ones(1, dtype=torch.float64), torch.full((40,), 1 / 40, dtype=torch.float64)])
    scale = next(s for s in torch.linspace(1e-4, 1, 100_000, dtype=torch.float64) if bent(s * near).sum() >= wanted)
    with pytest.raises(ReconError, match="too low"):
        Detour(scale * near, y, 0.0, float(bent(scale * near).sum())).at(1)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (1, 2), (0, 2), (1, 0)])
def test_every_point_of_the_explicit_curve_trains_the_same_classifier(problem, first, last):
    theta, sets = problem
    curve = ExplicitCurve(sets[first], sets[last], Y, theta, DECAY)
    assert torch.equal(curve.at(0), sets[first]) and torch.equal(curve.at(1), sets[last])
    times = curve.even_times(41)
    frames = [curve.at(t) for t in times]
    assert times[0] == 0 and times[-1] == 1 and len(times) == 41
    assert max(float(residual(x, Y, theta, DECAY).norm()) for x in frames) < 1e-12
    lengths = list(steps(frames))
    assert max(lengths) < 1.2 * sum(lengths) / 40  # without a jump
    straight = [residual(torch.lerp(sets[first], sets[last], t), Y, theta, DECAY).norm() for t in (0.25, 0.5, 0.75)]
    assert min(straight) > 1e-3
    close = float((curve.at(times[20] + 1e-7) - curve.at(times[20])).norm())
    assert close < 1e-3 * sum(lengths)


@pytest.mark.parametrize(("allowed", "raised"), [(0.5, 1), (2.5, 2), (6.5, 4), (100.0, 8)])
def test_as_many_images_are_raised_as_half_the_level_allows(allowed, raised):
    """One, and one more for each 2 max h above what suffices; at most all of the smaller label."""
    wanted = sufficient(Y, 0.0) + allowed * LIMIT
    assert Detour(torch.zeros(N, dtype=torch.float64), Y, 0.0, wanted)._raised == raised
