"""Beyond §3.1: distance moved against n and weight decay, other labels, and two sets of 8-bit photographs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from companion.chapters.base import Context, Tensors
from companion.chapters.linear.eight_bit import EightBitSettings, Twin, classifier, inputs, twin
from companion.chapters.linear.others import others
from companion.chapters.linear.sizes import Sizes
from companion.store.record import Record
from recon.analysis.solution_set import Projection, ProjectionSettings, SolutionSet
from recon.images.pool import ImagePool
from recon.nets.mlp import affine
from recon.training.inner_problem import Objective, solve_affine, with_ones

TEST = 1000  # images of neither set, at most
DRAW = "linear.start"  # the chapter's one random stream: of noise there, of orders here


@dataclass(frozen=True)
class Split:
    """Flat images of two disjoint sets of n, and of neither, float64 minus the first set's mean; labels in {0, 1}."""

    train: Tensor
    train_y: Tensor
    other: Tensor
    other_y: Tensor
    test: Tensor
    test_y: Tensor
    mean: Tensor


def split(pool: ImagePool, n: int, generator: torch.Generator) -> Split:
    """The whole pool shuffled: n, n, and at most a thousand of the rest; n is cut so that a tenth is left for those."""
    order = torch.randperm(len(pool), generator=generator)
    n = min(n, int(0.484 * len(pool)))
    rows = order[:n], order[n : 2 * n], order[2 * n : 2 * n + TEST]
    x = [pool.pixels(part, torch.float64).flatten(1) for part in rows]
    y = [torch.from_numpy(pool.y[part.numpy()]).double() for part in rows]
    mean = x[0].mean(0)
    return Split(x[0] - mean, y[0], x[1] - mean, y[1], x[2] - mean, y[2], mean)


def by_n(context: Context, sizes: Sizes) -> list[Record]:
    """One row a number of images, at the chapter's weight decay; sizes that the pool does not hold are cut to it."""
    rows = [_distance(context, n, sizes.weight_decay, sizes) for n in _bar(sizes.by_n, "n")]
    return [row for k, row in enumerate(rows) if row.n not in [earlier.n for earlier in rows[:k]]]


def by_weight_decay(context: Context, sizes: Sizes) -> list[Record]:
    """One row a weight decay, at `decays_n` images."""
    return [_distance(context, sizes.decays_n, decay, sizes) for decay in _bar(sizes.decays, "weight decay")]


def _bar(values: tuple, what: str) -> tqdm:
    return tqdm(values, desc=f"linear: {what}", disable=None, leave=False)


def _distance(context: Context, n: int, weight_decay: float, sizes: Sizes) -> Record:
    data = split(context.pool, n, context.stream(DRAW))
    theta = solve_affine(Objective(affine(data.train.shape[1]), data.train_y, weight_decay), data.train[None]).theta[0]
    found = project(data.other, data.other_y, theta, weight_decay, data.mean, sizes)
    change = (found.x - data.other).norm(dim=1)
    right = ((with_ones(data.test) @ theta > 0) == (data.test_y > 0.5)).double().mean()
    share = float(data.test_y.mean())
    return Record(
        n=len(data.train),
        weight_decay=weight_decay,
        mean_change_l2=float(change.mean()),
        max_change_l2=float(change.max()),
        nn_train_l2=float(torch.cdist(found.x, data.train).min(1).values.mean()),
        residual_norm=found.residual_norm,
        converged=found.converged,
        n_test=len(data.test),
        test_accuracy=float(right),
        majority=max(share, 1 - share),
    )


def project(x: Tensor, y: Tensor, theta: Tensor, weight_decay: float, mean: Tensor, sizes: Sizes) -> Projection:
    """Images x (n, d), minus the mean (d,), onto the solution set for labels y, every pixel in [0, 1]."""
    return SolutionSet(y, theta, weight_decay, -mean, 1 - mean).project(
        x, ProjectionSettings(sizes.tol, sizes.iterations)
    )


def relabelled(
    x: Tensor, objective: Objective, theta: Tensor, mean: Tensor, sizes: Sizes, context: Context
) -> list[Record]:
    """The other images onto the solution set of other labels: a share of them flipped, drawn at random."""
    rows = []
    order = torch.randperm(len(x), generator=context.stream(DRAW))
    for share in _bar(sizes.flipped, "labels"):
        flipped = order[: round(share * len(x))].to(x.device)
        y = objective.y.clone()
        y[flipped] = 1 - y[flipped]
        found = project(x, y, theta, objective.weight_decay, mean, sizes)
        again = solve_affine(Objective(objective.network, y, objective.weight_decay), found.x[None]).theta[0]
        rows.append(
            Record(
                share=share,
                mean_change_l2=float((found.x - x).norm(dim=1).mean()),
                relative_theta_error=float((again - theta).norm() / theta.norm()),
                converged=found.converged,
            )
        )
    return rows


def twins(context: Context, sizes: Sizes) -> tuple[Record, Tensors]:
    """`twins` training images of this seed, and other photographs with the same float32 classifier."""
    data = context.dataset(sizes.twins)
    pixels, y = bytes_of(data.train.flat), data.train.y.double()
    pool = others(context.pool, data.train.index)
    with tqdm(total=len(y), desc="linear: 8 bits", disable=None, leave=False) as bar:
        settings = EightBitSettings(weight_decay=sizes.twins_decay)
        made = twin(pixels, y, pool.pixels, pool.y, settings, pool.apart, lambda done: bar.update(done - bar.n))
    start = pool.pixels[made.chosen]
    held_out = bytes_of(data.held_out.flat)
    pictures = {"twin_train": pixels, "twin_start": start, "twin_other": made.pixels, "twin_y": y}
    return compared(made, pixels, y, start, pool.y[made.chosen], held_out, settings, sizes), pictures


def bytes_of(x: Tensor) -> Tensor:
    """Pixels in [0, 1] as the bytes they were."""
    return (x * 255).round().to(torch.uint8)


def compared(
    made: Twin,
    pixels: Tensor,
    y: Tensor,
    start: Tensor,
    start_y: Tensor,
    held_out: Tensor,
    settings: EightBitSettings,
    sizes: Sizes,
) -> Record:
    """The twin beside two nulls: its photographs as they were, and projected and rounded."""
    target = made.target.double()
    half = torch.full((pixels.shape[1],), 0.5, dtype=torch.float64)
    found = project(inputs(start), start_y.double(), target, settings.weight_decay, half, sizes)
    rounded = bytes_of(found.x + 0.5)
    by_rounding, unmoved = (classifier(x, start_y, settings.weight_decay) for x in (rounded, start))
    change = (made.pixels.double() - start.double()).abs().mean(1)
    both = torch.cat([pixels, made.pixels])
    return Record(
        n=len(pixels),
        weight_decay=settings.weight_decay,
        numbers=len(target),
        agree=made.agree,
        agree_rounded=int((by_rounding.float() == made.target).sum()),
        agree_unmoved=int((unmoved.float() == made.target).sum()),
        largest_relative_difference=made.largest_relative_difference,
        relative_error_rounded=float((by_rounding - target).norm() / target.norm()),
        mean_change_levels=float(change.mean()),
        max_image_change_levels=float(change.max()),
        nn_train_l2=nearest(made.pixels, pixels),
        held_out_nn_l2=nearest(held_out, pixels),
        same_images=len(both) - len(torch.unique(both, dim=0)),
    )


def nearest(x: Tensor, train: Tensor) -> float:
    """Mean L2 distance of an image, as bytes, to its nearest training image, pixels in [0, 1]."""
    return float(torch.cdist(inputs(x), inputs(train)).min(1).values.mean())
