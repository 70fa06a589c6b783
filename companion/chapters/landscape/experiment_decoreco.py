"""Chapter 5, is DecoReco's landscape a smoothed one: energies between where both searches end from
the same starts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.landscape.shared import (
    DESCENT,
    DIFFERENT,
    SETS,
    SIDE,
    SeedImages,
    Sizes,
    affine_released,
    bilevel_ends,
)
from companion.store.record import Record
from recon.analysis.landscape import (
    StationarityAttack,
    barrier,
    bilevel_energy,
    curvature,
    in_span,
    inner_minima,
    segment,
    stationarity_energy,
)
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.optim.subspace import Subspace

Energy = Callable[[Tensor], Tensor]  # of images (S, n, d), relative; (S,)
METHODS = ("bilevel", "affine")
DIRECTIONS, RADIUS = 8, 0.5  # of the curvature: random directions, L2 length per image


class Metrics(Record):
    """`landscape-decoreco`.

    variants: bilevel: on the affine net · affine: DecoReco on the same net.
    variants.bilevel.geometry: The landscape itself, energies relative to that of noise.
    barrier_mean: how far a straight segment between two end points rises above the higher of them ·
    minima_to_partition: inner minima of the energy along the line from the truth to the partition.
    variants.bilevel.geometry.curvature: Mean second difference of the energy at the ends from
    truth, partition and noise.
    """


@dataclass(frozen=True, kw_only=True)
class DecorecoSizes(Sizes):
    """
    Attributes:
        pairs, points: segments between end points, and points on each.
        line_points: on the line from the truth to the partition.
    """

    pairs: int
    points: int = 11
    line_points: int


SIZES = {
    "smoke": DecorecoSizes(n_train=10, steps=100, pairs=4, points=5, line_points=11),
    "laptop": DecorecoSizes(n_train=20, steps=1500, pairs=10, line_points=31),
    "paper": DecorecoSizes(n_train=100, steps=4000, pairs=20, points=7, line_points=41),
}


def compute(sizes: DecorecoSizes, context: Context) -> Outcome[Metrics]:
    """25 starts for each of the searches, and the energy around where they end."""
    images = SeedImages.drawn(context, sizes.n_train, torch.float64)
    measured = context.sweep(partial(_measure, sizes, images), list(METHODS), label="landscape")
    variants = Record()
    for method, shape in measured.items():
        geometry = Record(
            barrier_mean=shape["barrier"].mean().item(),
            curvature=Record(zip(SETS, shape["curvature"].tolist(), strict=True)),
            minima_to_partition=inner_minima(shape["line"]).double().item(),
        )
        variants[method] = Record(geometry=geometry)
    return Outcome(Metrics(n_train=len(images), variants=variants), {})


def _measure(sizes: DecorecoSizes, images: SeedImages, method: str) -> Tensors:
    """Of one method, on the affine net."""
    sets = list(images.sets().values())
    starts = images.starts()[DIFFERENT]
    released = affine_released(images)
    if method == "bilevel":
        ends = bilevel_ends(released, starts, sizes.steps).x_hat
        return geometry(partial(bilevel_energy, released), ends, sets, sizes)
    space = Subspace.spanned_by(*sets, released.theta_star[None, :-1])
    small = in_span(released, space)
    labels = half_and_half(len(images.y), starts.device, starts.dtype)
    attack = StationarityAttack(small, labels, DESCENT)
    ends = reconstruct(attack, space.reduce(starts), sizes.steps, label="landscape").x_hat

    def energy(x: Tensor) -> Tensor:
        return stationarity_energy(small.network, small.theta_star, space.reduce(x), images.y)

    return geometry(energy, space.lift(ends), sets, sizes)


def geometry(energy: Energy, ends: Tensor, sets: list[Tensor], sizes: DecorecoSizes) -> Tensors:
    """Barriers between pairs of ends (S, n, d), curvature at those from the truth, the partition
    and noise, and the energy on the line from the truth to the partition;

    Args:
        sets: these three, as the energy sees images.
    """
    truth, partition, random = sets
    to_partition, to_random = (
        energy(segment(truth, other, sizes.line_points)) for other in (partition, random)
    )
    noise = to_random[-1] - to_random[0]  # what separates noise from the truth
    # the same pairs and directions for every method and every run
    generator = torch.Generator().manual_seed(0)
    pairs = torch.combinations(torch.arange(len(ends)))
    pairs = pairs[torch.randperm(len(pairs), generator=generator)[: sizes.pairs]]
    paths = [energy(segment(ends[i], ends[j], sizes.points)) for i, j in pairs]
    basis = Subspace.spanned_by(*(images.double() for images in sets)).basis.to(ends)
    radius = RADIUS * math.sqrt(len(truth))

    def curved(x: Tensor) -> Tensor:  # in random directions within the span of the three sets
        return curvature(
            lambda change: energy(x + change @ basis),
            x.new_zeros(len(x), len(basis)),
            radius,
            DIRECTIONS,
            generator,
        )

    # (λ₁, λ₂) = (1, 1), (0, 1), (0, 0) among the different starts
    corners = (-1, SIDE - 1, 0)
    return {
        "barrier": barrier(torch.stack(paths)) / noise,
        "curvature": torch.stack([curved(ends[row]) for row in corners]) / noise,
        "line": to_partition,
    }
