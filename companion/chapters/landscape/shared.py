"""What the landscapes share: images, the starts of eq. (10), the affine net and the bilevel attack on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.landscape.distances import different_starts, set_distances
from recon.analysis.landscape import mixed_starts, sweep_bilevel
from recon.attacks.reconstruct import Reconstruction
from recon.images.bundle import Bundle
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

Grid = list[list[float]]  # [i][j] is the start with λ₁[i], λ₂[j]
SETS = ("truth", "partition", "random")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.5, eq. (10). n_train: images · steps, step_size, momentum, tol: of the bilevel descent, as in chapter 3 ·
    lambdas: λ₁ and λ₂."""

    n_train: int
    steps: int
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    lambdas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class SeedImages:
    """Flat images (n, d) in [0, 1] of one seed: truth, partition, random ~ U(0, 1), held out; labels y of the truth;
    shape (C, H, W).

    Rows are sorted by label, 0 first; the partition has the same labels row by row.
    """

    truth: Tensor
    partition: Tensor
    random: Tensor
    held_out: Tensor
    y: Tensor
    train_index: Tensor
    shape: tuple[int, ...]

    @staticmethod
    def of(context: Context, n: int, dtype: torch.dtype, seed: int = 0, seeds: int = 1) -> SeedImages:
        """Images of one of `seeds` of a run: n each, disjoint slices of its partitions, as large as the data allow;
        which partitions, the run's own seed says."""
        data = context.dataset(n * seeds, n * seeds)
        half = min(n, min(map(len, (data.train, data.init, data.held_out))) // seeds) // 2
        images = Bundle.of(data, context.device, dtype, centred=False).take(seed * half, (seed + 1) * half)
        generator = context.stream("landscape.start", seed)
        noise = torch.rand(images.train.shape, generator=generator, dtype=torch.float64).to(images.train)
        kept = (images.held_out, images.y, images.train_index, images.shape)
        return SeedImages(images.train, images.init, noise, *kept)

    def sets(self) -> dict[str, Tensor]:
        """The three sets by name."""
        return {"truth": self.truth, "partition": self.partition, "random": self.random}

    def starts(self, lambdas: Sequence[float]) -> Tensor:
        """Eq. (10) on the grid of λ₁ × λ₂, in pixels; (a·b, n, d), λ₁ the slower index."""
        grid = torch.tensor(lambdas)
        return mixed_starts(self.truth, self.partition, self.random, grid, grid).flatten(0, 1)

    def distances(self, x: Tensor) -> dict[str, Tensor]:
        """`set_distances` of images x (S, n, d) in pixels to the three sets."""
        return set_distances(x.float(), self.sets(), self.shape)

    def null_distance(self) -> Tensor:
        """Distance to the truth of images that no training saw."""
        return self.distances(self.held_out[None])["truth"]


def affine_released(images: SeedImages, weight_decay: float) -> Weights:
    """θ* of the affine net, exactly trained on one seed's images."""
    network = affine(images.truth.shape[1])
    objective = Objective(network, images.y, weight_decay)
    theta_star = solve_affine(objective, images.truth[None]).theta[0]
    return Weights(network, theta_star, y=images.y, weight_decay=weight_decay)


def bilevel_ends(released: Weights, starts: Tensor, sizes: Sizes) -> Reconstruction:
    """The bilevel attack by the descent of chapter 3, without its pixel box."""
    return sweep_bilevel(released, starts, sizes.steps, HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol))


def every_cell(lambdas: Sequence[float]) -> list[int]:
    """Of every cell of the grid (a·b,), its place among the `different_starts`: at λ₂ = 0 all are the same noise."""
    place = {row: k for k, row in enumerate(different_starts(lambdas))}
    return [place[row if row in place else row % len(lambdas)] for row in range(len(lambdas) ** 2)]
