"""Walks from one training set of an affine classifier to another, over training sets of the same
classifier.

θ* = (w, b), w ≠ 0, signs s_i = 2y_i − 1, a_i = σ(−s_i(x_i·w + b)) in (0, 1), u_i the part of image
i orthogonal to w. F(X) = 0 of `recon.analysis.solution_set` reads in its bias, along θ* and across
w

    Σ_i s_i a_i = nωb = c,   Σ_i h(a_i) = nω‖θ*‖² = C,   h(a) = a log((1 − a)/a),
    Σ_i s_i a_i u_i = 0.

The last is linear in u, with coefficients that are never 0, so the set is connected if and only if
that of the a's is, A. h is strictly concave, so H = Σ h(a_i) ≥ C is convex.

Theorem. If both labels occur and C > 2 max h + n_c h(t) (`sufficient`), n_c being the number of
images with the label of c's sign, t = min(|c|/n_c, a*) and a* = `PEAK` where h is largest, the set
is connected. Its proof is in the book's chapter on landscapes.

Proof, and the curve. For c ≥ 0 let e(a) have the entries c a_i / Σ_{y=1} a where y_i = 1, and 0
elsewhere (c < 0: labels swapped), and let v be 1 at one image of each label, 0 elsewhere. From a
point with H ≥ C go in a direction βv − α (a − e(a)), α, β ≥ 0: the sum of s_i a_i stays, entries
stay positive up to e(a) + (β/α) v, and there H ≤ 2 max h + n_c h(t) < C by Jensen's inequality; if
α = 0, one entry nears 1 and H falls to −∞. H is concave, so this way meets A once, and where
depends continuously on the point and on the direction. From a point of A itself H falls at once in
one of two directions (`outward_direction`): towards e(a), or else, since then Σ h′(a_i)(a_i − e_i)
< 0, by raising the largest a_i of each label. `Curve` goes from the segment between two points of A
in the mixture of theirs.

`walk` follows the curve frame by frame. With bounds on the pixels, of which the curve knows
nothing, each frame is moved to the nearest point of the solution set inside the box
(`SolutionSet.project`), and what that costs in continuity is measured. Without them the same
projection removes rounding errors. (Projecting places of the straight segment instead is no walk:
the nearest solution jumps.)

Shapes: x (n, d), y (n,) in {0, 1}, theta (d + 1,) with the bias last; float64.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from recon.analysis.solution_set import SolutionSet
from recon.errors import ReconError
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

#: 2 max h = 2 W(1/e), with Lambert's W
LIMIT = 0.5569290855221476
PEAK = 0.21781170571980387  # a* = W(1/e) / (1 + W(1/e)), where h'(a*) = 0
FINER = 4  # times as many points, of which even ones are chosen

Box = tuple[float, float]


def weighted_logit(a: Tensor) -> Tensor:
    """h(a) = a log((1 − a)/a), strictly concave on (0, 1); h(0) = 0, h(1) = −∞."""
    return torch.xlogy(a, 1 - a) - torch.xlogy(a, a)


def constants(released: Weights) -> tuple[float, float]:
    """C = nω‖θ*‖² and c = nωb, the values of Σ h(a_i) and Σ s_i a_i on the solution set."""
    objective = Objective.of(released)
    scaled = len(objective.y) * objective.weight_decay * released.theta_star
    return float(scaled @ released.theta_star), float(scaled[-1])


def sufficient(y: Tensor, c: float) -> float:
    """2 max h + n_c h(min(|c|/n_c, a*)): a level C above it makes the solution set connected."""
    count = int((y == (c > 0)).sum())
    return LIMIT + count * float(
        weighted_logit(torch.tensor(min(abs(c) / count, PEAK), dtype=torch.float64))
    )


def apex(a: Tensor, y: Tensor, c: float) -> Tensor:
    """e(a), (n,)."""
    part = a * (y == (c > 0))
    return part * (abs(c) / part.sum())


def outward_direction(a: Tensor, y: Tensor, c: float) -> tuple[float, Tensor]:
    """α and βv (n,) of a direction in which H does not rise from a (n,)."""
    slope = torch.log1p(-a) - torch.log(a) - 1 / (1 - a)
    lift = torch.zeros_like(a)
    if slope @ (a - apex(a, y, c)) >= 0:
        return 1.0, lift
    for label in (0, 1):
        lift[a.masked_fill(y != label, -1).argmax()] = 1
    return 0.0, lift


@dataclass(frozen=True)
class Curve:
    """A continuous curve of training sets of the classifier of `released`, from `start` (n, d) to
    `end`: a(t) is where the way from (1 − t) a_start + t a_end meets A, and u(t) the nearest to (1
    − t) u_start + t u_end with Σ_i s_i a_i u_i = 0: closed forms but for one root at every t.
    """

    released: Weights
    start: Tensor
    end: Tensor

    def at(self, t: float) -> Tensor:
        """X(t), (n, d), for t in [0, 1]. ReconError where the level is too low, which `sufficient`
        excludes.
        """
        w, bias = self.released.theta_star[:-1], self.released.theta_star[-1]
        x = torch.lerp(self.start, self.end, t)
        u = x - torch.outer(x @ w / w.square().sum(), w)
        a, sign = self._a(t), 2 * self._y - 1
        r, z = sign * a, sign * torch.logit(1 - a)
        return (
            u
            - torch.outer(r / r.square().sum(), r @ u)
            + torch.outer((z - bias) / w.square().sum(), w)
        )

    def even_times(self, points: int) -> list[float]:
        """`points` times from 0 to 1 between which the curve goes about equally far."""
        fine = np.linspace(0, 1, FINER * (points - 1) + 1)
        for _ in range(4):
            steps = [float((b - a).norm()) for a, b in pairwise(map(self.at, fine))]
            along = np.cumsum([0.0, *steps])
            fine = np.interp(np.linspace(0, along[-1], len(fine)), along, fine)
        return [0.0, *fine[FINER:-FINER:FINER].tolist(), 1.0]

    @property
    def _y(self) -> Tensor:
        return Objective.of(self.released).y

    @cached_property
    def _ends(self) -> list[tuple[Tensor, tuple[float, Tensor]]]:
        """a, and α and βv, of start and end."""
        theta, (_, c) = self.released.theta_star, constants(self.released)
        sets = []
        for x in (self.start, self.end):
            a = torch.sigmoid((1 - 2 * self._y) * (x @ theta[:-1] + theta[-1]))
            sets.append((a, outward_direction(a, self._y, c)))
        return sets

    def _a(self, t: float) -> Tensor:
        (first, (alpha_0, lift_0)), (last, (alpha_1, lift_1)) = self._ends
        level, c = constants(self.released)
        place, alpha = torch.lerp(first, last, t), (1 - t) * alpha_0 + t * alpha_1
        way = torch.lerp(lift_0, lift_1, t) - alpha * (place - apex(place, self._y, c))

        def above(rho: float) -> float:
            return float(weighted_logit((place + rho * way).clamp(0, 1)).sum()) - level

        if above(0) <= 0:  # an end, up to rounding
            return place
        furthest = min(
            float(torch.where(way > 0, (1 - place) / way, torch.inf).min()),
            1 / alpha if alpha else torch.inf,
        )
        if not above(furthest) < 0:
            raise ReconError("the curve leaves the cube of the a's: the level is too low")
        return place + brentq(above, 0, furthest, xtol=1e-15) * way


@dataclass(frozen=True)
class Walk:
    """`points` frames from one training set to another.

    Attributes:
        frames (points, k, d): the rows asked for.
        error (points,): ‖θ(X_t) − θ*‖ / ‖θ*‖ after training on each frame from scratch; straight
            (points,): the same at equidistant places of the straight segment.
        step: the longest between neighbouring frames, relative to the segment's; coarse: between
            every other frame: a jump would halve it.
        solved: whether every projection converged.
    """

    frames: Tensor
    error: Tensor
    straight: Tensor
    step: float
    coarse: float
    solved: bool


def solution_set(released: Weights, box: Box | None = None) -> SolutionSet:
    """All training sets with the labels and the classifier θ* (d + 1,) of `released`, with pixels
    in the box.
    """
    low, high = (
        released.theta_star.new_tensor([bound]) for bound in box or (-torch.inf, torch.inf)
    )
    return SolutionSet(
        Objective.of(released).y, released.theta_star, released.weight_decay, low, high
    )


def walk(
    released: Weights,
    start: Tensor,
    end: Tensor,
    points: int,
    box: Box | None = None,
    rows: slice = slice(0),
) -> Walk:
    """From `start` (n, d) to `end` (n, d), two training sets of the classifier; `points` odd, so
    that every other frame includes the last.

    Args:
        rows: rows kept of each frame.
    """
    curve, solutions = Curve(released, start, end), solution_set(released, box)
    frames, errors, solved = [], [], True
    before: list[Tensor] = []  # no more than two in memory
    longest = [0.0, 0.0]  # step to the frame before, and to the one before that
    for t in curve.even_times(points):
        frame = solutions.project(curve.at(t))
        frames.append(frame.x[rows].clone())
        errors.append(retraining_error(released, frame.x))
        for k, earlier in enumerate(reversed(before)):
            longest[k] = max(longest[k], float((frame.x - earlier).norm()))
        before = [*before[-1:], frame.x]
        solved = solved and frame.converged
    step = float((end - start).norm()) / (points - 1)
    straight = [
        retraining_error(released, torch.lerp(start, end, t))
        for t in torch.linspace(0, 1, points).tolist()
    ]
    error, off = torch.tensor([errors, straight], dtype=start.dtype)
    return Walk(torch.stack(frames), error, off, longest[0] / step, longest[1] / (2 * step), solved)


def retraining_error(released: Weights, x: Tensor) -> float:
    """‖θ(x) − θ*‖ / ‖θ*‖ of the affine net trained on x (n, d) from scratch."""
    theta = solve_affine(Objective.of(released), x[None]).theta[0]
    return float((theta - released.theta_star).norm() / released.theta_star.norm())
