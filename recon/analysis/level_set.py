"""All training sets of one affine classifier, in coordinates in which the set is seen whole; explicit curves on it.

θ* = (w, b), w ≠ 0, signs s_i = 2y_i − 1, logits z_i = x_i·w + b, margins m_i = s_i z_i.  Each image is given by

    a_i = σ(−m_i) in (0, 1)     and     u_i = x_i − ((z_i − b)/‖w‖²) w,  its part orthogonal to w,

and z_i = s_i log((1 − a_i)/a_i) leads back.  F(X) = 0 of `recon.analysis.solution_set`, that is
Σ_i s_i a_i x̄_i = nωθ*, reads in its bias, along θ* and across w

    Σ_i s_i a_i = nωb = c,     Σ_i h(a_i) = nω‖θ*‖² = C,  h(a) = a log((1 − a)/a),     Σ_i s_i a_i u_i = 0.

The last is linear in u, with coefficients that are never 0: over every a lies a linear space of one dimension,
(n − 1)(d − 1), so the set is connected if and only if that of the a's is, A.  h is strictly concave,
h″(a) = −1/(a(1 − a)²), with h(0) = 0 and h(1) = −∞.  So H = Σ h(a_i) ≥ C is convex.

Rays.  For c ≥ 0 let e(a) have the entries c a_i / Σ_{y=1} a where y_i = 1, and 0 elsewhere (c < 0: labels swapped).
From any point with H ≥ C, exactly one point further out on the ray e + λ (a − e) is in A (`outward`), and it depends
continuously on where one starts: the far side of A, from which H falls outwards, is connected.

Detours.  Let v = 1 at one image of each label, 0 elsewhere.  In the quarter plane e + λ (a − e) + μ v, λ, μ ≥ 0, the
border of H ≥ C is an arc of A from a to the far side, unless it meets λ = 0.  There H ≤ 2 max h + n_c h(t), n_c being
the number of images with the label of c's sign, t = min(|c|/n_c, a*) and a* = `PEAK` where h is largest.

Theorem.  If both labels occur and C > 2 max h + n_c h(t) (`sufficient`), the set is connected.  Its proof is in the
book's chapter on landscapes.  2 max h = 2 W(1/e) = `LIMIT` cannot be less: let c = 0 and one label have one image,
a_1 = Σ_{i>1} a_i.  h is subadditive, so H ≥ 2h(a_1), and there is no point of A where 2h(a_1) > C, on both sides of
which it lies.

`walk` follows the curve frame by frame.  With bounds on the pixels, of which the curve knows nothing, each frame is
moved to the nearest point of the solution set inside the box (`SolutionSet.project`), and what that costs in continuity
is measured.  Without them the same projection removes rounding errors, of images that the classifier gets very wrong.

Shapes: x, u (n, d), y (n,) in {0, 1}, a (n,), theta (d + 1,) with the bias last; float64.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from recon.analysis.solution_set import SolutionSet
from recon.errors import ReconError
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

#: 2 max h = 2 W(1/e), with Lambert's W
LIMIT = 0.5569290855221476
PEAK = 0.21781170571980387  # a* = W(1/e) / (1 + W(1/e)), where h'(a*) = 0
HALVINGS = 200  # of a bracket: more than a float64 has digits
DETOUR = 0.25  # share of a curve's parameter that a detour takes
FINER = 4  # times as many points, of which even ones are chosen
ROUNDING = 1e-6  # by how much of its length a ray may miss a point of A that it starts from


def bent(a: Tensor) -> Tensor:
    """h(a) = a log((1 − a)/a), strictly concave on (0, 1); h(0) = 0, h(1) = −∞."""
    return torch.xlogy(a, 1 - a) - torch.xlogy(a, a)


def level(theta: Tensor, weight_decay: float, n: int) -> float:
    """C = nω‖θ*‖², the value of Σ h(a_i) on the solution set."""
    return n * weight_decay * float(theta.square().sum())


def balance(theta: Tensor, weight_decay: float, n: int) -> float:
    """c = nωb, the value of Σ s_i a_i."""
    return n * weight_decay * float(theta[-1])


def sufficient(y: Tensor, c: float) -> float:
    """2 max h + n_c h(min(|c|/n_c, a*)): a level above it makes the solution set connected."""
    count = int((y == (1 if c > 0 else 0)).sum())
    return LIMIT + count * float(bent(torch.tensor(min(abs(c) / count, PEAK), dtype=torch.float64)))


def taken_apart(x: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """X -> (a, u)."""
    w, bias = theta[:-1], theta[-1]
    along = x @ w
    a = torch.sigmoid((1 - 2 * y) * (along + bias))
    return a, x - torch.outer(along / w.square().sum(), w)


def assembled(a: Tensor, u: Tensor, y: Tensor, theta: Tensor) -> Tensor:
    """(a, u) -> X, the inverse of `taken_apart`."""
    w, bias = theta[:-1], theta[-1]
    z = (2 * y - 1) * (torch.log1p(-a) - torch.log(a))
    return u + torch.outer((z - bias) / w.square().sum(), w)


def across(u: Tensor, a: Tensor, y: Tensor) -> Tensor:
    """The nearest u (n, d) with Σ_i s_i a_i u_i = 0."""
    r = (2 * y - 1) * a
    return u - torch.outer(r / r.square().sum(), r @ u)


def apex(a: Tensor, y: Tensor, c: float) -> Tensor:
    """e(a), (n,): where the ray through a begins."""
    kept = a * (y == (1 if c > 0 else 0))
    return kept * (abs(c) / kept.sum())


def far_side(a: Tensor, y: Tensor, c: float) -> bool:
    """Whether Σ h does not rise from a outwards."""
    slope = torch.log1p(-a) - torch.log(a) - 1 / (1 - a)
    return bool((slope * (a - apex(a, y, c))).sum() <= 0)


def outward(a: Tensor, y: Tensor, c: float, wanted: float) -> Tensor:
    """The last point with Σ h = wanted on the ray from a (n,), Σ h(a_i) ≥ wanted, away from its apex."""
    start = apex(a, y, c)
    ray = a - start

    def above(rho: float) -> float:
        return float(bent((start + rho * ray).clamp_max(1)).sum()) - wanted

    begin = next((rho for rho in (1 - ROUNDING, 1 + ROUNDING) if above(rho) >= 0), None)
    if begin is None:
        raise ReconError("rays go outwards from points at the level or above it")
    return start + _sign_change(above, begin, float(((1 - start) / ray).min())) * ray


def _sign_change(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that is positive at `low` and negative at `high` changes its sign, to the last digit."""
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return 0.5 * (low + high)


@dataclass(frozen=True)
class Detour:
    """From a point a (n,) of A to its far side, in the quarter plane e + λ (a − e) + μ v.  v raises the images of each
    label with the largest a: half as many as the level allows, so that none comes near 1. Of a point on the far side,
    the detour is that point.  ReconError where the arc meets λ = 0, which `sufficient` excludes."""

    a: Tensor
    y: Tensor
    c: float
    wanted: float

    @cached_property
    def last(self) -> float:
        """An angle soon after the far side begins; 0 for a point that lies on it."""
        if far_side(self.a, self.y, self.c):
            return 0.0
        return 1.05 * _sign_change(lambda t: 1.0 - 2 * far_side(self._at(t), self.y, self.c), 0.0, 0.95 * math.pi)

    def at(self, t: float) -> Tensor:
        """Of t in [0, 1]: a at 0, a point of the far side at 1; (n,)."""
        return self._at(t * self.last) if self.last * t > 0 else self.a

    @cached_property
    def _plane(self) -> tuple[Tensor, Tensor, Tensor]:
        """Half-way between a and the far side's point on its ray; half the way between them; v."""
        half = 0.5 * (outward(self.a, self.y, self.c, self.wanted) - self.a)
        lift = torch.zeros_like(self.a)
        for label in (0, 1):
            lift[self.a.masked_fill(self.y != label, -1).topk(self._raised).indices] = 1
        return self.a + half, half, lift

    @property
    def _raised(self) -> int:
        """k, at least 1: 2k max h stays below what is left of the level by about a half."""
        spare = (self.wanted - sufficient(self.y, self.c)) / LIMIT
        ones = int(self.y.sum())
        return max(1, min(1 + int(spare / 2), ones, len(self.y) - ones))

    def _at(self, angle: float) -> Tensor:
        """The arc, as seen from that middle, at an angle from a, in [0, π]."""
        middle, half, lift = self._plane
        direction = math.sin(angle) * lift - math.cos(angle) * half
        inside = torch.where(direction > 0, (1 - middle) / direction, torch.inf).min()
        length = half.norm() / (self.a - apex(self.a, self.y, self.c)).norm()  # in units of λ
        if math.cos(angle) > 0:
            inside = torch.minimum(inside, (1 + length) / (math.cos(angle) * length))  # where λ = 0

        def above(rho: float) -> float:
            return float(bent((middle + rho * direction).clamp(0, 1)).sum()) - self.wanted

        if not above(float(inside)) < 0:
            raise ReconError("the detour to the far side leaves the cube: the level is too low")
        return middle + _sign_change(above, 0.0, float(inside)) * direction


@dataclass(frozen=True)
class ExplicitCurve:
    """A continuous curve of training sets of one classifier, from `start` (n, d) to `end`, two such sets.  For
    t ≤ DETOUR a(t) is the start's `Detour`, for t ≥ 1 − DETOUR the end's, and in between the `outward` image of the
    straight segment between theirs; u(t) is the projection of (1 − t) u_start + t u_end on the fibre over a(t): closed
    forms but for one root at every t.  y (n,), theta (d + 1,).  ReconError where the level is too low."""

    start: Tensor
    end: Tensor
    y: Tensor
    theta: Tensor
    weight_decay: float

    @cached_property
    def _parts(self) -> tuple[tuple[Detour, Tensor], tuple[Detour, Tensor]]:
        """Of both ends: detour, u."""
        n = len(self.y)
        c, wanted = balance(self.theta, self.weight_decay, n), level(self.theta, self.weight_decay, n)
        (a, u), (b, v) = (taken_apart(x, self.y, self.theta) for x in (self.start, self.end))
        return (Detour(a, self.y, c, wanted), u), (Detour(b, self.y, c, wanted), v)

    def at(self, t: float) -> Tensor:
        """X(t), (n, d), for t in [0, 1]."""
        if t in (0, 1):
            return self.end if t else self.start
        a, ((_, u), (_, v)) = self._a(t), self._parts
        return assembled(a, across((1 - t) * u + t * v, a, self.y), self.y, self.theta)

    def _a(self, t: float) -> Tensor:
        (first, _), (last, _) = self._parts
        from_start, to_end = (DETOUR if detour.last else 0.0 for detour in (first, last))
        if t < from_start:
            return first.at(t / from_start)
        if t > 1 - to_end:
            return last.at((1 - t) / to_end)
        share = (t - from_start) / (1 - from_start - to_end)
        return outward((1 - share) * first.at(1) + share * last.at(1), self.y, first.c, first.wanted)

    def even_times(self, points: int) -> list[float]:
        """`points` times from 0 to 1 between which the curve goes about equally far."""
        fine = np.linspace(0, 1, FINER * (points - 1) + 1)
        for _ in range(4):
            along = np.cumsum([0.0, *steps(self.at(t) for t in fine)])
            fine = np.interp(np.linspace(0, along[-1], len(fine)), along, fine)
        return [0.0, *fine[FINER:-FINER:FINER].tolist(), 1.0]


def steps(points: Iterable[Tensor]) -> Iterator[float]:
    """Distances of successive tensors, no more than two of them in memory."""
    before = None
    for point in points:
        if before is not None:
            yield float((point - before).norm())
        before = point


# ------------------------------------------------------------------------------- walks, frame by frame


Box = tuple[float, float]


@dataclass(frozen=True)
class Walk:
    """`points` frames from one training set to another.  frames (points, k, d): the rows asked for · error (points,):
    ‖θ(X_t) − θ*‖ / ‖θ*‖ after training on each frame from scratch; straight (points,): the same at equidistant places
    of the straight segment · step: the longest between neighbouring frames, relative to the segment's; coarse: between
    every other frame: a jump would halve it · solved: whether every projection converged."""

    frames: Tensor
    error: Tensor
    straight: Tensor
    step: float
    coarse: float
    solved: bool


def solution_set(released: Weights, box: Box | None = None) -> SolutionSet:
    """All training sets with the labels and the classifier θ* (d + 1,) of `released`, with pixels in the box."""
    assert released.y is not None
    low, high = box or (-torch.inf, torch.inf)
    bounds = (torch.tensor([each]).to(released.theta_star) for each in (low, high))
    return SolutionSet(released.y, released.theta_star, released.weight_decay, *bounds)


def walk(
    released: Weights, start: Tensor, end: Tensor, points: int, box: Box | None = None, shown: slice = slice(0)
) -> Walk:
    """From `start` (n, d) to `end` (n, d), two training sets of the classifier; `points` odd, so that every other frame
    includes the last.  shown: rows kept of each frame."""
    curve = ExplicitCurve(start, end, solution_set(released).y, released.theta_star, released.weight_decay)
    solutions = solution_set(released, box)
    frames, errors, solved = [], [], True
    before: list[Tensor] = []
    single: list[float] = []  # steps
    double: list[float] = []  # and those over every other frame
    for t in curve.even_times(points):
        found = solutions.project(curve.at(t))
        frames.append(found.x[shown].clone())
        errors.append(retraining_error(released, found.x))
        for gone, lengths in zip(reversed(before), (single, double), strict=False):
            lengths.append(float((found.x - gone).norm()))
        before = [*before[-1:], found.x]  # no more than three of them in memory
        solved = solved and found.converged
    straight = [retraining_error(released, start + t * (end - start)) for t in torch.linspace(0, 1, points).tolist()]
    step = float((end - start).norm()) / (points - 1)
    return Walk(
        torch.stack(frames),
        torch.tensor(errors, dtype=start.dtype),
        torch.tensor(straight, dtype=start.dtype),
        max(single) / step,
        max(double) / (2 * step),
        solved,
    )


def retraining_error(released: Weights, x: Tensor) -> float:
    """‖θ(x) − θ*‖ / ‖θ*‖ of the affine net trained on x (n, d) from scratch."""
    theta = solve_affine(Objective.of(released), x[None]).theta[0]
    return float((theta - released.theta_star).norm() / released.theta_star.norm())
