"""Are two solutions of the affine bilevel problem connected?  A curve between them on the exact solution set."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.analysis.landscape import bilevel_energy, in_span, segment
from recon.analysis.solution_set import SolutionSet
from recon.optim.subspace import Subspace
from recon.released import Weights


@dataclass(frozen=True)
class Connection:
    """From one training set to another.

    straight, curve (points,): ‖θ* − θ(x)‖² / ‖θ*‖² along the straight segment, and along its points' projections on the
    solution set · jump: the curve's largest step relative to the segment's, near 1 where neighbours stay neighbours ·
    projected: whether every projection converged to an anchored point · bend: the largest mean L2 distance per image
    between the two.
    """

    straight: Tensor
    curve: Tensor
    jump: Tensor
    projected: Tensor
    bend: Tensor


def connection(released: Weights, start: Tensor, end: Tensor, points: int) -> Connection:
    """From the images `start` (n, d) to `end` (n, d), at `points` equidistant places, both ends included.

    All in the span of both and θ*, where the problem is exact; see `recon.analysis.landscape`.
    """
    assert released.y is not None
    space = Subspace.spanned_by(start, end, released.theta_star[None, :-1])
    small = in_span(released, space)
    straight = segment(space.reduce(start), space.reduce(end), points)
    bound = torch.full_like(straight[0], torch.inf)
    solutions = SolutionSet(released.y, small.theta_star, released.weight_decay, -bound, bound)
    found = [solutions.project(x) for x in straight]
    curve = torch.stack([point.x for point in found])
    return Connection(
        straight=bilevel_energy(small, straight),
        curve=bilevel_energy(small, curve),
        jump=(curve.diff(dim=0).flatten(1).norm(dim=1) / straight.diff(dim=0).flatten(1).norm(dim=1)).max(),
        projected=torch.tensor([point.converged and point.anchored for point in found]).all(),
        bend=(curve - straight).norm(dim=-1).mean(-1).max(),
    )
