"""Appendix A (no bias), Appendix B (a hard constraint), Appendix F (pre-training), one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_appendix.hard_constraint import Course, HardConstraint, by_lbfgs, by_trust_region
from companion.chapters.leakage_common import (
    PRE_TRAINING_CLASSES,
    SEED,
    TABLE_1,
    Attacked,
    Victims,
    inputs,
    pixels,
    pretrain,
)
from companion.store.record import Record
from recon.attacks.gradient_matching import HYBRID, GradientMatching, hybrid
from recon.attacks.rgap import layer_by_layer, logit_gradients, rgap
from recon.nets.conv import Params
from recon.released import Gradient
from recon.scoring.metrics import mse


def relative_time(found: Record) -> float:
    """Of the trust region until it was as near as the soft constraint, over the soft constraint's; a lower bound
    where it never was."""
    took = found.trust_region.reached
    return (found.trust_region.seconds if took is None else took) / found.soft.seconds


def smaller(norms: Record) -> float:
    """Share of the images whose gradient became smaller."""
    return float(np.mean(np.array(norms.after) < np.array(norms.before)))


def ratio(norms: Record) -> float:
    """After over before, in the middle."""
    return float(np.median(np.array(norms.after) / np.array(norms.before)))


class Metrics(Record):
    """without_bias, trained: by network · constrained: with Tanh · leaky: the same with LeakyReLU in its place.

    without_bias: R-GAP with eq. (4), and with eq. (5) where the gradient of the bias is withheld: errors of both
    images.
    constrained: From the same start, with its error: a soft constraint, and two ways to keep it, which need a basis
    of the kernel of U first (kernel_seconds).
    constrained.soft: One way to minimise Hybrid's energy on the truck. violation: the part of the way from the start
    that U sees, over ‖x_0‖ · seconds: of the processor, with those for a basis of the kernel · reached: those after
    which the error was no more than the soft constraint's in the end, None for never.
    trained: One network, norms of the gradients of images before and after training. seen: it trained on them ·
    unseen: others of the two classes · other: of the other classes.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """without_bias: networks of Table 1 that release no gradient of their bias · constrained: the network of one
    convolution whose U x = V is kept exactly · share: of Hybrid's published steps, when the constraint is soft ·
    lbfgs, trust_region: steps when it is hard · epochs: of pre-training · images: of each group, whose
    gradients are measured before and after."""

    without_bias: tuple[str, ...] = tuple(TABLE_1)
    constrained: str = "CNN2 V2"
    share: float = 1.0
    lbfgs: int = 2_000
    trust_region: int = 400
    trained: tuple[str, ...] = ("CNN4 V1", "CNN4 V2")
    epochs: int = 300
    images: int = 20


SIZES = {
    "smoke": Sizes(
        without_bias=("CNN3 V4",),
        constrained="CNN2 V2",
        share=0.001,
        lbfgs=4,
        trust_region=2,
        trained=("CNN4 V1",),
        epochs=1,
        images=2,
    ),
    "laptop": Sizes(
        without_bias=("CNN2 V1", "CNN2 V2", "CNN3 V2"), share=0.1, lbfgs=300, trust_region=40, epochs=30, images=10
    ),
    "paper": Sizes(),
}


HELD_OUT = 10  # of so many images of the two classes, one


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Three questions."""
    solvers, arrays = constrained("tanh", sizes, context)
    leaky, more = constrained("leaky_relu", sizes, context)
    metrics = Metrics(
        without_bias={name: without_bias(name, context) for name in sizes.without_bias},
        constrained=solvers,
        leaky=leaky,
        trained={name: trained(name, sizes, context) for name in sizes.trained},
    )
    return Outcome(metrics, arrays | {f"leaky {name}": x for name, x in more.items()})


def without_bias(name: str, context: Context) -> Record:
    """A network whose bias is 0 and stays 0: its gradient is not released, and (5) gives it back."""
    attacked, images = Attacked.of(name, context.pool), Victims.of(context.pool)
    weight, bias = attacked.network.last
    theta = attacked.theta | {bias: torch.zeros_like(attacked.theta[bias])}
    whole = Gradient.each(attacked.network, theta, images.x, images.labels)
    found = []
    for victim in whole.split():
        delta = logit_gradients(theta[weight], victim.gradients[weight][0], int(victim.labels[0]))
        found.append(rgap(replace(victim, gradients=victim.gradients | {bias: delta[None]})))
    return Record(
        with_bias=mse(torch.cat([rgap(victim) for victim in whole.split()]), images.x).tolist(),
        without=mse(torch.cat(found), images.x).tolist(),
    )


def constrained(activation: str, sizes: Sizes, context: Context) -> tuple[Record, Tensors]:
    """The truck on a network of one convolution with this activation, from the minimum-norm solution: (16), and (11)
    by two methods."""
    attacked, images = Attacked.of(sizes.constrained, context.pool), Victims.of(context.pool)
    truth = images.x[:1]
    network = attacked.network.with_activation(activation)
    gradient = Gradient.each(network, attacked.theta, truth, images.labels[:1])
    single, layer = gradient.to(torch.float32), next(layer_by_layer(gradient))
    steps, alpha, beta, _ = HYBRID[0]
    began = time.process_time()
    problem = HardConstraint.of(GradientMatching(single, steps, alpha=alpha, beta=beta), layer)
    kernel_seconds = time.process_time() - began

    began = time.process_time()
    soft = hybrid(single, sizes.share).flatten().double()
    seconds = time.process_time() - began

    def error(x: Tensor) -> float:
        return (x - truth.flatten()).square().mean().item()

    def solver(x: Tensor, steps: int, seconds: float, reached: float | None) -> Record:
        return Record(
            steps=steps,
            violation=problem.violation(x),
            mse=error(x),
            seconds=round(seconds, 2),
            reached=None if reached is None else round(reached, 2),
        )

    def of(course: Course) -> Record:
        spent = (course.seconds + kernel_seconds).tolist()
        there = [at for x, at in zip(course.x, spent, strict=True) if error(x) <= error(soft)]
        return solver(course.x[-1], len(course.x) - 1, spent[-1], min(there, default=None))

    lbfgs, trust_region = by_lbfgs(problem, sizes.lbfgs), by_trust_region(problem, sizes.trust_region)
    found = Record(
        start_mse=error(problem.start),
        kernel_seconds=round(kernel_seconds, 2),
        soft=solver(soft, max(1, round(sizes.share * steps)), seconds, seconds),
        lbfgs=of(lbfgs),
        trust_region=of(trust_region),
    )
    shown = {"truth": truth[0], "start": problem.start, "soft": soft} | {
        "lbfgs": lbfgs.x[-1],
        "trust region": trust_region.x[-1],
    }
    return found, {name: pixels(x.view_as(truth)) for name, x in shown.items()}


def trained(name: str, sizes: Sizes, context: Context) -> Record:
    """Norms of the gradients of three groups of images, before and after training."""
    network, pool = TABLE_1[name], context.pool
    cifar = pool.name == "cifar10"
    rows = np.flatnonzero(np.isin(pool.labels, PRE_TRAINING_CLASSES) if cifar else pool.part == "init")
    held_out = np.arange(len(rows)) % HELD_OUT == 0
    parts = {
        kind: (inputs(pool, rows[chosen]).float(), torch.from_numpy(pool.labels[rows[chosen]]))
        for kind, chosen in (("train", ~held_out), ("test", held_out))
    }
    theta = network.init(torch.Generator().manual_seed(SEED))
    after = pretrain(network, theta, *parts["train"], sizes.epochs, torch.Generator().manual_seed(SEED))
    images = Victims.of_all_classes(pool, sizes.images)
    others = ~torch.isin(torch.tensor(images.index), torch.from_numpy(pool.index[rows]))
    groups = {
        "seen": tuple(each[: sizes.images] for each in parts["train"]),
        "unseen": tuple(each[: sizes.images] for each in parts["test"]),
        "other": (images.x[others].float(), images.labels[others]),
    }
    return Record(
        (
            name,
            Record(before=sizes_of(network.gradients(theta, *part)), after=sizes_of(network.gradients(after, *part))),
        )
        for name, part in groups.items()
    )


def sizes_of(gradients: Params) -> list[float]:
    """Norm of each image's whole gradient."""
    return torch.stack([each.flatten(1).square().sum(1) for each in gradients.values()]).sum(0).sqrt().tolist()
