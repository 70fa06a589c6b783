"""Chapter 22, convolutions and batch norm: training is simulated, and inverted."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recon.attacks.simulation import certificate, simulate
from recon.chapters.architectures.metrics import EXPLAINED, SimulatedMetrics, SimulatedNet
from recon.chapters.architectures.sizes import SimulatedSizes, SmallNet
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.leakage_common import pixels
from recon.chapters.separation_common import TRUE_NCC, other_rows
from recon.errors import ReconError
from recon.images.bundle import Bundle
from recon.nets.residual import by_batch, residual_module
from recon.nets.small_convolutional import count, small_convolutional
from recon.optim.streams import named
from recon.scoring.matching import one_to_one
from recon.scoring.metrics import mse
from recon.training.simulated import Simulation

CLASSES = 10
PUBLIC = 256  # images for the running means of batch norm
DRAWN = 200  # images among which those of every class are found
MIDDLE = 0.5  # networks see pixels minus this


def compute_simulated(sizes: SimulatedSizes, context: Context) -> Outcome[SimulatedMetrics]:
    """Every network on the same images, each stored when it is done."""
    images = images_of(sizes, context)
    units = [net.name for net in sizes.nets]
    found = context.sweep(partial(simulated_unit, sizes, context), units, "networks")
    nets = [scored(net, found[net.name], images) for net in sizes.nets]
    arrays = {"truth": shown(images.train, images), "held_out": shown(images.held_out, images)}
    for net in sizes.nets:
        for kind in ("matched", "x_hat", "one_step"):
            x = pixels(found[net.name][kind].clamp(-MIDDLE, MIDDLE)).to(images.train)
            arrays[f"{kind} {net.name}"] = x[one_to_one(arrays["truth"], x).index]  # images of one class can swap
    return Outcome(SimulatedMetrics(sizes.n_train, sizes.side, nets), arrays)


def images_of(sizes: SimulatedSizes, context: Context) -> Bundle:
    """At the side of the run."""
    if not sizes.balanced:
        return context.images(sizes.n_train).at_side(sizes.side)
    count, rest = divmod(sizes.n_train, CLASSES)
    if rest:
        raise ReconError(f"{sizes.n_train} images cannot be balanced over {CLASSES} classes")
    return context.images(DRAWN).of_each_class(count).at_side(sizes.side)


def shown(x: Tensor, images: Bundle) -> Tensor:
    """With the mean that was subtracted, (n, d) in [0, 1]."""
    return x + images.mean


def inputs(x: Tensor, images: Bundle) -> Tensor:
    """As the networks see them, (n, c, h, w)."""
    return (shown(x, images) - MIDDLE).unflatten(1, images.shape)


def build(net: SmallNet, sizes: SimulatedSizes, context: Context, images: Bundle) -> nn.Module:
    """At its start θ⁰."""
    generator = named(context.seed, "architectures.start")
    shape = (images.shape[0], sizes.side, sizes.side)
    if net.kind == "convolutions":
        return small_convolutional(net.channels, net.activation, net.pooled, shape, generator, CLASSES)
    rows = other_rows(context, images.train_index)[:PUBLIC].numpy()
    public = torch.from_numpy(context.pool.images[rows]).float() / 255 - MIDDLE
    public = F.avg_pool2d(public, public.shape[-1] // sizes.side)
    module = residual_module(net.channels, net.activation, net.pooled, public, generator, CLASSES)
    return by_batch(module) if net.by_batch else module


def simulated_unit(sizes: SimulatedSizes, context: Context, unit: str) -> Tensors:
    """One network: train, attack, attack as if it had been one step, and rank."""
    net = next(each for each in sizes.nets if each.name == unit)
    images = images_of(sizes, context)
    module = build(net, sizes, context, images).to(context.device)
    x, labels = inputs(images.train, images), images.train_labels.to(context.device)
    training = Simulation.of(module, labels, net.step_size, sizes.steps)
    theta_star = training(x)
    shape = (x.shape[1], x.shape[2], x.shape[3])
    start = named(context.seed, "architectures.simulation")
    kept = context.checkpoints.inside(unit.replace(" ", "-").replace(",", ""))
    found = simulate(training, theta_star, shape, sizes.attack, start, kept.at("simulating"))
    long_step = Simulation.of(module, labels, net.step_size * sizes.steps, 1)
    start = named(context.seed, "architectures.simulation")
    one_step = simulate(long_step, theta_star, shape, sizes.attack, start)
    size = torch.cat([value.flatten() for value in training.theta_init.values()]).norm()
    sure = certificate(training, theta_star, found.x_hat) if sizes.ranked and found.residual <= EXPLAINED else None
    numbers = {
        "residual": found.residual,
        "residual_matched": found.residual_matched,
        "parameters": count(module),
        "loss_init": training.loss(training.theta_init, x).item(),
        "loss": training.loss(theta_star, x).item(),
        "moved": (training.difference(theta_star).norm() / size).item(),
        "rank": -1 if sure is None else sure.rank,
        "expected": math.nan if sure is None else sure.error,
    }
    made = {"x_hat": found.x_hat, "matched": found.matched, "one_step": one_step.x_hat}
    return made | {name: torch.tensor(float(value), dtype=torch.float64) for name, value in numbers.items()}


def scored(net: SmallNet, found: Tensors, images: Bundle) -> SimulatedNet:
    """Against the training images, beside what costs nothing; minus the training mean, as in the other chapters."""
    x_hat, matched, one_step = (
        found[kind].flatten(1).to(images.train) + MIDDLE - images.mean for kind in ("x_hat", "matched", "one_step")
    )
    pairs = one_to_one(images.train, x_hat)
    rank = int(found["rank"])
    means = images.init.mean(0)[None].repeat(len(images), 1)
    nulls = {
        "held-out images": found_of(x_hat, images.held_out),
        "other images": found_of(images.init, images.train),
        "mean images": found_of(means, images.train),
        "one step": found_of(one_step, images.train),
    }
    return SimulatedNet(
        name=net.name,
        kind=net.kind,
        activation=net.activation,
        pooled=net.pooled,
        by_batch=net.by_batch,
        parameters=int(found["parameters"]),
        unknowns=images.train.numel(),
        loss_init=found["loss_init"].item(),
        loss=found["loss"].item(),
        moved=found["moved"].item(),
        residual_matched=found["residual_matched"].item(),
        residual=found["residual"].item(),
        found_matched=found_of(matched, images.train),
        found=found_of(x_hat, images.train),
        nulls=nulls,
        mse=mse(x_hat[pairs.index], images.train).mean().item(),
        grey_mse=inputs(images.train, images).square().mean().item(),
        rank=None if rank < 0 else rank,
        expected_error=None if rank < 0 else found["expected"].item(),
    )


def found_of(candidates: Tensor, images: Tensor) -> int:
    """Images (n, d) above `TRUE_NCC` with a candidate (m, d) of their own, m ≥ n."""
    return int((one_to_one(images, candidates).score > TRUE_NCC).sum())
