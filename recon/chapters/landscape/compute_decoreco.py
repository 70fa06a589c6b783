"""Chapter 13, DecoReco's landscape: the same starts by three searches, and the bilevel sweep beside them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from recon.analysis.basins import set_distances
from recon.analysis.landscape import StationarityAttack, in_span, stationarity_energy
from recon.analysis.pixel_descent import descend_in_pixels
from recon.attacks.decoreco import half_and_half, image_span
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.recover import choose_scale, random_start, tuned_attack
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.landscape.compute_bilevel import bilevel_run
from recon.chapters.landscape.metrics import DecorecoMetrics, Method, Variants
from recon.chapters.landscape.shared import (
    PER_SEED,
    SETS,
    Problem,
    SeedImages,
    affine_released,
    measure,
    summarise,
    table,
)
from recon.chapters.landscape.sizes import Sizes
from recon.nets.mlp import MLP, three_layer
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.scoring.matching import nearest
from recon.training.kkt import KKTSettings, train_to_kkt

METHODS = ("bilevel", "pixels", "span", "affine")


def compute(sizes: Sizes, context: Context) -> Outcome[DecorecoMetrics]:
    """25 starts × seeds × DecoReco's variants, and the bilevel sweep on the same images beside them."""
    names = {method: [f"{method}-{seed}" for seed in range(sizes.seeds)] for method in METHODS}
    every = [name for group in names.values() for name in group]
    found = context.sweep(partial(_task, sizes, context), every, label="landscape")
    starts = [{f"start_{key}": found[name][f"start_{key}"] for key in SETS} for name in names["bilevel"]]
    methods: dict[str, Method] = {}
    arrays: Tensors = {}
    for method in METHODS:
        runs = [start | found[name] for name, start in zip(names[method], starts, strict=True)]
        methods[method] = _method(runs, sizes)
        arrays |= {f"{method}_{key}": torch.stack([run[key] for run in runs]) for key in PER_SEED}
    metrics = DecorecoMetrics(
        **vars(methods["pixels"]),
        n_train=len(SeedImages.of(context, sizes, 0, torch.float32).truth),
        lambda1=list(sizes.lambdas),
        lambda2=list(sizes.lambdas),
        seeds=sizes.seeds,
        variants=Variants(**methods),
    )
    return Outcome(metrics, arrays)


def _method(runs: list[Tensors], sizes: Sizes) -> Method:
    """Of all seeds."""
    side = len(sizes.lambdas)

    def mean(name: str) -> list[list[float]] | None:
        return table([run[name] for run in runs], side)[0] if name in runs[0] else None

    has_null = "null_ncc" in runs[0]
    return Method(
        **vars(summarise(runs, sizes.lambdas)),
        noise_line_per_seed=[run["truth"].unflatten(0, (side, side))[-1].tolist() for run in runs],
        ncc=mean("ncc"),
        null_ncc=torch.stack([run["null_ncc"] for run in runs]).mean().item() if has_null else None,
        start_ncc=mean("start_ncc"),
    )


def _task(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One run of the comparison, "METHOD-K": all starts of seed K.

    "affine": the bilevel sweep's own net, images and descent, only the energy differs · "pixels": the three-layer net,
    the same descent in all pixels · "span": our attack (Adam, logarithmic multipliers, within the span of w1).
    """
    method, seed = name.split("-")
    if method == "bilevel":
        return bilevel_run(sizes, context, int(seed))
    if method == "affine":
        return affine_run(sizes, context, int(seed))
    return three_layer_run(sizes, context, method, int(seed))


def three_layer_run(sizes: Sizes, context: Context, method: str, seed: int) -> Tensors:
    """ "pixels" or "span"."""
    images = SeedImages.of(context, sizes, seed, torch.float32)
    mean = images.truth.mean(0)
    network, theta_star = trained_net(sizes, context, images.truth - mean, images.y, seed)
    problem = Problem(images, mean, lambda x: stationarity_energy(network, theta_star, x, images.y))
    starts = images.starts(sizes.lambdas)
    if method == "pixels":
        descent = HeavyBall(0.01, sizes.descent_momentum)
        spanning, weights = [members - mean for members in images.sets().values()], Weights(network, theta_star)
        x_hat = mean + descend_in_pixels(weights, starts - mean, spanning, sizes.descent_steps, descent)
    else:
        generator = context.stream("landscape.directions", seed)
        x_hat = mean + by_our_attack(Weights(network, theta_star), starts - mean, sizes, generator)
    energy = problem.energy(x_hat - mean)
    found = measure(problem, x_hat, starts, energy, sizes, seed)
    if method == "span":  # where this attack begins: what the weights see of the start, and no more
        space = image_span(Weights(network, theta_star))
        projected = mean + space.lift(space.reduce(starts - mean))
        found |= {f"start_{key}": value for key, value in set_distances(projected, images.sets(), images.shape).items()}
        found["start_ncc"] = ncc_to_truth(projected - mean, images.truth - mean)
    found["ncc"] = ncc_to_truth(x_hat - mean, images.truth - mean)
    return found | {"null_ncc": ncc_to_truth((images.held_out - mean)[None], images.truth - mean)}


def ncc_to_truth(x: Tensor, truth: Tensor) -> Tensor:
    """Mean over images of the best correlation with a training image, both centred; (S, n, d) -> (S,)."""
    return nearest(x.flatten(0, 1), truth, "ncc").score.unflatten(0, x.shape[:2]).mean(-1)


def trained_net(sizes: Sizes, context: Context, x: Tensor, y: Tensor, seed: int) -> tuple[MLP, Tensor]:
    """Haim et al.'s net near its KKT point, as in the DecoReco chapters."""
    network = three_layer(sizes.width, x.shape[1])
    theta_init = network.flatten(network.init(context.stream("landscape.weights", seed), "small")).to(x)
    return network, train_to_kkt(network, x, y, theta_init, KKTSettings(sizes.train_steps)).theta_star


def by_our_attack(weights: Weights, x_init: Tensor, sizes: Sizes, generator: torch.Generator) -> Tensor:
    """The attack of the tuned chapter from these starts; the multipliers' scale has the lowest energy from noise."""
    settings = replace(sizes.attack, m=x_init.shape[1])
    space = image_span(weights)
    labels = half_and_half(settings.m, x_init.device, x_init.dtype)
    seed = int(torch.randint(2**31, (1,), generator=generator))
    _, unit = random_start(settings, weights.network.dim, weights.theta_star, seed)

    def run(scale: float, steps: int) -> Reconstruction:
        multipliers = (unit * scale).expand(len(x_init), -1)
        attack = tuned_attack(weights, labels, multipliers, steps, settings).restricted(space)
        return reconstruct(attack, space.reduce(x_init), steps, label="landscape")

    noise = 0  # row of (λ₁, λ₂) = (0, 0): the scale must not be chosen where the truth is near
    scale = choose_scale(settings, lambda value: run(value, settings.scale_steps).energy[noise].item())
    return space.lift(run(scale, settings.steps).x_hat)


def affine_run(sizes: Sizes, context: Context, seed: int) -> Tensors:
    """DecoReco's energy on the bilevel sweep's affine net: θ* = Σ λ_i y_i x̄_i holds there exactly, at the truth."""
    images = SeedImages.of(context, sizes, seed, torch.float64)
    released = affine_released(images, sizes)
    space = Subspace.spanned_by(*images.sets().values(), released.theta_star[None, :-1])
    small = in_span(released, space)
    starts = images.starts(sizes.lambdas)
    labels = half_and_half(len(images.y), starts.device, starts.dtype)
    attack = StationarityAttack(small, labels, HeavyBall(sizes.step_size, sizes.momentum))
    found = reconstruct(attack, space.reduce(starts), sizes.steps, label="landscape")
    problem = Problem(
        images,
        torch.zeros_like(images.truth[0]),
        lambda x: stationarity_energy(small.network, small.theta_star, space.reduce(x), images.y),
    )
    x_hat = space.lift(found.x_hat)
    return measure(problem, x_hat, starts, problem.energy(x_hat), sizes, seed)
