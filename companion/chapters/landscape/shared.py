"""What the landscapes share: images, the starts of eq. (10), the affine net and the bilevel attack
on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from companion.chapters.base import Context
from recon.analysis.landscape import mixed_starts, sweep_bilevel
from recon.attacks.reconstruct import Reconstruction
from recon.images.bundle import Bundle
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.scoring.matching import nearest
from recon.scoring.metrics import Shape

SETS = ("truth", "partition", "random")
#: λ₁ and λ₂ of the starts, which are a grid with λ₁ the slower index
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SIDE = len(LAMBDAS)
#: rows whose starts differ: all of λ₂ > 0, and one of those with λ₂ = 0, which are the same noise
DIFFERENT = [row for row in range(SIDE**2) if row < SIDE or row % SIDE]
#: of every row its place among those
EVERY = [DIFFERENT.index(row if row % SIDE else 0) for row in range(SIDE**2)]
WEIGHT_DECAY = 1e-2  # of the affine net's training
DESCENT = HeavyBall(0.3, 0.5)  # of the attack on it


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.5, eq. (10).

    Attributes:
        n_train: images.
        steps: of the bilevel descent.
    """

    n_train: int
    steps: int


def set_distances(x_hat: Tensor, sets: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Mean L2 distance of images x_hat (S, n, d) in [0, 1] to their neighbours in each set (k, d);
    (S,) each.

    The neighbour is the most alike by SSIM: our reading of Runkel et al.'s "structurally most
    similar" (§4.5).

    Args:
        shape: (C, H, W).
    """
    rows = x_hat.flatten(0, 1)
    distances = {}
    for name, members in sets.items():
        members = members.to(rows)
        neighbour = members[nearest(rows, members, "ssim", shape).index]
        far = (rows - neighbour).norm(dim=-1)
        distances[name] = far.unflatten(0, x_hat.shape[:2]).mean(-1)
    return distances


@dataclass(frozen=True)
class SeedImages(Bundle):
    """Images (n, d) in [0, 1] of a seed: truth (`train`), partition (`init`), random ~ U(0, 1)."""

    random: Tensor

    @staticmethod
    def drawn(context: Context, n: int, dtype: torch.dtype) -> SeedImages:
        """n each, or as many as the data allow; which, the run's seed says."""
        data = context.dataset(n, n)
        half = min(n, *map(len, (data.train, data.init, data.held_out))) // 2
        images = Bundle.of(data, context.device, dtype, centred=False).take(0, half)
        generator = context.stream("landscape.start")
        noise = torch.rand(images.train.shape, generator=generator, dtype=torch.float64)
        return SeedImages(**vars(images), random=noise.to(images.train))

    def sets(self) -> dict[str, Tensor]:
        """The three sets by name."""
        return {"truth": self.train, "partition": self.init, "random": self.random}

    def starts(self) -> Tensor:
        """Eq. (10) on the grid of λ₁ × λ₂, in pixels; (25, n, d)."""
        grid = torch.tensor(LAMBDAS)
        starts = mixed_starts(self.train, self.init, self.random, grid, grid)
        return starts.flatten(0, 1)

    def distances(self, x: Tensor) -> dict[str, Tensor]:
        """`set_distances` of images x (S, n, d) in pixels to the three sets."""
        return set_distances(x.float(), self.sets(), self.shape)

    def null_distance(self) -> Tensor:
        """Distance to the truth of images that no training saw."""
        return self.distances(self.held_out[None])["truth"]


def bilevel_ends(released: Weights, starts: Tensor, steps: int) -> Reconstruction:
    """The bilevel attack by the descent of chapter 3, without its pixel box."""
    return sweep_bilevel(released, starts, steps, replace(DESCENT, tol=1e-8))
