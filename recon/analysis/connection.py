"""Walks from one training set to another along which the classifier stays the same, frame by frame.

The explicit curve of `recon.analysis.level_set` knows no bounds.  With them, each of its points is moved to the nearest
point of the solution set inside the box (`SolutionSet.project`); what that costs in continuity is measured.  Without
them the same projection removes rounding errors, of images that the classifier gets very wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.analysis.level_set import ExplicitCurve
from recon.analysis.solution_set import SolutionSet
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

Box = tuple[float, float]


@dataclass(frozen=True)
class Walk:
    """`points` frames from one training set to another.

    frames (points, k, d): the rows asked for · error (points,): ‖θ(X_t) − θ*‖ / ‖θ*‖ after training on each frame from
    scratch; straight (points,): the same at equidistant places of the straight segment · step: the longest between
    neighbouring frames, relative to the segment's; coarse: between every other frame: a jump would halve it · length:
    relative to the segment · lowest, highest: value of any pixel · solved: whether every projection converged.
    """

    frames: Tensor
    error: Tensor
    straight: Tensor
    step: float
    coarse: float
    length: float
    lowest: float
    highest: float
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
    measured = _Measured(released, (start, end), points)
    frames, solved = [], True
    for x, converged in _frames(curve, solution_set(released, box), points):
        frames.append(x[shown].clone())
        measured.add(x)
        solved = solved and converged
    straight = [retraining_error(released, start + t * (end - start)) for t in torch.linspace(0, 1, points).tolist()]
    return Walk(
        torch.stack(frames),
        torch.tensor(measured.errors, dtype=start.dtype),
        torch.tensor(straight, dtype=start.dtype),
        *measured.steps(),
        *measured.range,
        solved,
    )


def _frames(curve: ExplicitCurve, solutions: SolutionSet, points: int) -> Iterator[tuple[Tensor, bool]]:
    """Frame after frame, at even distances along the explicit curve, and whether it was found."""
    for t in curve.even_times(points):
        found = solutions.project(curve.at(t))
        yield found.x, found.converged


def retraining_error(released: Weights, x: Tensor) -> float:
    """‖θ(x) − θ*‖ / ‖θ*‖ of the affine net trained on x (n, d) from scratch."""
    theta = solve_affine(Objective.of(released), x[None]).theta[0]
    return float((theta - released.theta_star).norm() / released.theta_star.norm())


class _Measured:
    """Of the frames so far, three of them in memory at a time."""

    def __init__(self, released: Weights, ends: tuple[Tensor, Tensor], points: int) -> None:
        self.released, self.straight = released, float((ends[1] - ends[0]).norm())
        self.points = points
        self.errors: list[float] = []
        self.single: list[float] = []
        self.double: list[float] = []
        self.range = (torch.inf, -torch.inf)
        self._last: list[Tensor] = []

    def add(self, x: Tensor) -> None:
        self.errors.append(retraining_error(self.released, x))
        self.range = (min(self.range[0], float(x.min())), max(self.range[1], float(x.max())))
        for gone, found in zip(reversed(self._last), (self.single, self.double), strict=False):
            found.append(float((x - gone).norm()))
        self._last = [*self._last[-1:], x]

    def steps(self) -> tuple[float, float, float]:
        """Longest step, longest double step, length: relative to those of the straight segment."""
        step = self.straight / (self.points - 1)
        return max(self.single) / step, max(self.double) / (2 * step), sum(self.single) / self.straight
