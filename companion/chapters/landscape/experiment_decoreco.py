"""Chapter 5, is DecoReco's landscape a smoothed one: energies between where three searches end from the same starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.landscape.shared import (
    SETS,
    SeedImages,
    Sizes,
    affine_released,
    bilevel_ends,
    different_starts,
    every_cell,
    stationary,
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
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.recover import RecoverSettings, choose_scale, random_start, tuned_attack
from recon.nets.mlp import three_layer
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.training.kkt import KKTSettings, certificate

Energy = Callable[[Tensor], Tensor]  # of images (S, n, d), relative; (S,)
METHODS = ("bilevel", "affine", "unprojected")
ALL = (1.0, 1.0, 1.0)  # layers: all count, as in the setting of Haim et al.
CONVERGED = 0.1  # share of what layer 1 has left that `further_fall` may still remove
DIRECTIONS, RADIUS = 8, 0.5  # of the curvature: random directions, L2 length per image


class Metrics(Record):
    """`landscape-decoreco`.

    variants: bilevel: on the affine net · affine: DecoReco on the same net · unprojected: our attack on the
    three-layer net, in all pixels; cells_converged: whether the run from a start had converged (`further_fall` below a
    tenth).
    variants.bilevel.geometry: The landscape itself, energies relative to that of noise. barrier_mean: how far a
    straight segment between two end points rises above the higher of them · minima_to_partition: inner minima of the
    energy along the line from the truth to the partition.
    variants.bilevel.geometry.curvature: Mean second difference of the energy at the ends from truth, partition and
    noise.
    """


@dataclass(frozen=True, kw_only=True)
class DecorecoSizes(Sizes):
    """width, train_steps: of the three-layer net · attack: ours · at_once: starts in one batch · check_steps: of Adam,
    which judge whether a search had ended · pairs, points: segments between end points, and points on each ·
    line_points: on the lines from the truth."""

    width: int
    train_steps: int
    attack: RecoverSettings
    at_once: int = 25
    check_steps: int = 100
    pairs: int
    points: int = 11
    line_points: int


SIZES = {
    "smoke": DecorecoSizes(
        n_train=10,
        steps=100,
        width=32,
        train_steps=100,
        attack=RecoverSettings(m=10, restarts=1, steps=60, scale_steps=20, layer_weights=ALL),
        check_steps=20,
        pairs=4,
        points=5,
        line_points=11,
    ),
    "laptop": DecorecoSizes(
        n_train=20,
        steps=1500,
        width=300,
        train_steps=600,
        attack=RecoverSettings(m=20, restarts=1, steps=400, layer_weights=ALL),
        check_steps=50,
        pairs=10,
        line_points=31,
    ),
    "paper": DecorecoSizes(
        n_train=100,
        steps=4000,
        width=1000,
        train_steps=1500,
        attack=RecoverSettings(m=100, restarts=1, steps=2000, layer_weights=ALL),
        at_once=3,
        pairs=20,
        points=7,
        line_points=41,
    ),
}


def compute(sizes: DecorecoSizes, context: Context) -> Outcome[Metrics]:
    """25 starts for each of the searches; the network, the scale and every few starts of ours are runs of their own,
    stored as soon as they are there."""
    n = len(SeedImages.of(context, sizes.n_train, torch.float32).truth)
    sizes = replace(sizes, attack=replace(sizes.attack, m=n))
    theta = context.sweep(partial(_net, sizes, context), ["net"], label="network")["net"]["theta"]
    scale = context.sweep(partial(_scale, sizes, context, theta), ["scale"], label="scale")["scale"]["scale"].item()
    parts = [f"part-{k}" for k in range(-(-len(different_starts(sizes.lambdas)) // sizes.at_once))]
    found = context.sweep(partial(_part, sizes, context, theta, scale), parts, label="cells")
    x_hat, fall = (torch.cat([found[part][key] for part in parts]) for key in ("x_hat", "fall"))
    measured = context.sweep(partial(_measured, sizes, context, theta, x_hat), list(METHODS), label="landscape")
    variants = Record(**{method: Record(geometry=_geometry(measured[method])) for method in METHODS})
    cells = (fall < CONVERGED).double()[every_cell(sizes.lambdas)]
    variants.unprojected["cells_converged"] = cells.unflatten(0, (len(sizes.lambdas), -1)).tolist()
    return Outcome(Metrics(n_train=n, variants=variants), {"further_fall": fall})


def _net(sizes: DecorecoSizes, context: Context, _: str) -> Tensors:
    """Haim et al.'s net, near its KKT point, as in the DecoReco chapters."""
    images = SeedImages.of(context, sizes.n_train, torch.float32)
    return stationary(context, images, three_layer(sizes.width, images.truth.shape[1]), KKTSettings(sizes.train_steps))


def _attack(
    sizes: DecorecoSizes, context: Context, theta: Tensor, starts: Tensor, scale: float, steps: int
) -> Reconstruction:
    """Our attack in all pixels, from starts (S, n, d), centred; scale: of λ."""
    network = three_layer(sizes.width, starts.shape[-1])
    drawn = int(torch.randint(2**31, (1,), generator=context.stream("landscape.directions")))
    unit = random_start(sizes.attack, network.dim, theta, drawn)[1].expand(len(starts), -1)
    labels = half_and_half(starts.shape[1], starts.device, starts.dtype)
    attack = tuned_attack(Weights(network, theta), labels, unit * scale, steps, sizes.attack)
    return reconstruct(attack, starts, steps, label="landscape")


def _scale(sizes: DecorecoSizes, context: Context, theta: Tensor, _: str) -> Tensors:
    """λ's scale: the one with the lowest energy from noise after a short run.  It must not be chosen where the truth is
    near."""
    images, steps = SeedImages.of(context, sizes.n_train, torch.float32), sizes.attack.scale_steps
    noise = (images.random - images.truth.mean(0))[None]
    scale = choose_scale(sizes.attack, lambda value: _attack(sizes, context, theta, noise, value, steps).energy.item())
    return {"scale": torch.tensor(scale, dtype=torch.float64)}


def _part(sizes: DecorecoSizes, context: Context, theta: Tensor, scale: float, name: str) -> Tensors:
    """Ends from a few of the starts, in pixels, and what is left to gain there: "part-K"."""
    images, k = SeedImages.of(context, sizes.n_train, torch.float32), int(name.removeprefix("part-"))
    mean, starts = images.truth.mean(0), images.starts(sizes.lambdas)[different_starts(sizes.lambdas)]
    starts = starts[k * sizes.at_once : (k + 1) * sizes.at_once] - mean
    x_hat = _attack(sizes, context, theta, starts, scale, sizes.attack.steps).x_hat
    weights = Weights(three_layer(sizes.width, starts.shape[-1]), theta)
    return {"x_hat": x_hat + mean, "fall": further_fall(weights, x_hat, sizes.attack, sizes.check_steps)}


def further_fall(weights: Weights, x: Tensor, settings: RecoverSettings, steps: int) -> Tensor:
    """How much of what layer 1 has left `steps` of Adam still remove from R, images x (S, m, d); (S,).

    Both images and multipliers move, these from their best fit to x: small steps do not look like an end.  No true
    image enters.
    """
    labels = half_and_half(x.shape[1], x.device, x.dtype)

    def fitted(images: Tensor) -> Tensor:
        problem = weights.network, weights.theta_star, images, (labels + 1) / 2
        return certificate(*problem, alpha=settings.alpha, layer_weights=settings.layer_weights).multipliers.to(x)

    multipliers = torch.stack([fitted(images) for images in x])
    floor = 1e-6 * multipliers.amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    attack = tuned_attack(weights, labels, torch.maximum(multipliers, floor), steps, settings)
    by_layer, energy, _, _ = attack.value_and_grad(x, attack.multipliers_init)
    return (energy - reconstruct(attack, x, steps, label="end?").energy) / by_layer[:, 0]


# ------------------------------------------------------------------------------------- the landscape around the ends


def _measured(sizes: DecorecoSizes, context: Context, theta: Tensor, x_hat: Tensor, method: str) -> Tensors:
    """Of one method; x_hat (S, n, d): the ends of our attack, in pixels."""
    images = SeedImages.of(context, sizes.n_train, torch.float32 if method == "unprojected" else torch.float64)
    sets, starts = list(images.sets().values()), images.starts(sizes.lambdas)[different_starts(sizes.lambdas)]
    if method == "unprojected":
        network, mean = three_layer(sizes.width, starts.shape[-1]), images.truth.mean(0)
        deep = partial(stationarity_energy, network, theta, y=images.y, layers=sizes.attack.layer_weights)
        return _around(deep, x_hat - mean, [each - mean for each in sets], sizes)
    released = affine_released(images, sizes.weight_decay)
    if method == "bilevel":
        return _around(partial(bilevel_energy, released), bilevel_ends(released, starts, sizes).x_hat, sets, sizes)
    space = Subspace.spanned_by(*sets, released.theta_star[None, :-1])
    small = in_span(released, space)
    labels = half_and_half(len(images.y), starts.device, starts.dtype)
    attack = StationarityAttack(small, labels, HeavyBall(sizes.step_size, sizes.momentum))
    ends = space.lift(reconstruct(attack, space.reduce(starts), sizes.steps, label="landscape").x_hat)
    return _around(
        lambda x: stationarity_energy(small.network, small.theta_star, space.reduce(x), images.y), ends, sets, sizes
    )


def _around(energy: Energy, ends: Tensor, sets: list[Tensor], sizes: DecorecoSizes) -> Tensors:
    """Barriers between pairs of ends (S, n, d), curvature at those from the truth, the partition and noise, and the
    energy on the line from the truth to the partition; sets: these three, as the energy sees images."""
    truth, partition, random = sets
    to_partition, to_random = (energy(segment(truth, other, sizes.line_points)) for other in (partition, random))
    noise = to_random[-1] - to_random[0]  # what separates noise from the truth
    generator = torch.Generator().manual_seed(0)  # the same pairs and directions for every method and every run
    pairs = list(combinations(range(len(ends)), 2))
    chosen = [pairs[k] for k in torch.randperm(len(pairs), generator=generator)[: sizes.pairs].tolist()]
    paths = [energy(segment(ends[i], ends[j], sizes.points)) for i, j in chosen]
    basis = Subspace.spanned_by(*(each.double() for each in sets)).basis.to(ends)

    def curved(x: Tensor) -> Tensor:  # in random directions within the span of the three sets
        zero = torch.zeros(len(x), len(basis), dtype=x.dtype, device=x.device)
        radius = RADIUS * math.sqrt(len(x))
        return curvature(lambda change: energy(x + change @ basis), zero, radius, DIRECTIONS, generator)

    corners = (-1, len(sizes.lambdas) - 1, 0)  # (λ₁, λ₂) = (1, 1), (0, 1), (0, 0) among the different starts
    return {
        "barrier": barrier(torch.stack(paths)) / noise,
        "curvature": torch.stack([curved(ends[row]) for row in corners]) / noise,
        "line": to_partition,
    }


def _geometry(found: Tensors) -> Record:
    return Record(
        barrier_mean=found["barrier"].mean().item(),
        curvature=Record(**dict(zip(SETS, found["curvature"].tolist(), strict=True))),
        minima_to_partition=inner_minima(found["line"]).double().item(),
    )
