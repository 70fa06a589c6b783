"""Networks drawn at random, each with its ranks, Gauss–Newton, R-GAP and CosineTV as its authors run it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import CERTAIN, FOUND, LEAST, averaged_victims
from companion.chapters.leakage_networks import SEED
from companion.store.record import Record
from recon.analysis.identifiability import determined, numerical_rank, security_metric
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import cosine_tv_authors, seeded_start
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.rgap import rgap, systems
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


def decibels(design: Record, method: str) -> float:
    """Mean PSNR (peak 1) of "rgap" or "cosine", rounding apart."""
    return float(np.mean([-10 * np.log10(max(error, LEAST)) for error in getattr(design, method)]))


class Metrics(Record):
    """designs: in the order of the draw · grey: error of a grey image, for each image.

    designs: One network drawn at random. name: kernel, channels, stride, padding of every convolution · c: c(M) ·
    deficiencies: of the layers, one by one · amplified: how many times a relative noise of 1e-6 on the first
    image's gradient grows in R-GAP's image · width: outputs of the first layer over entries of the image ·
    condition: product of the layers' condition numbers · equations: entries of the last layer's input and of the
    convolutions' weights, all taken for independent · unknowns: entries of the image, of which no layer reads
    `unread` · missing: rank of all layers together minus entries that are read, for each image · found, known: by
    Gauss–Newton, for each image · rgap, cosine: errors, for each image.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """count: networks drawn, all different · side: of their images, averaged down · images: attacked, of all classes ·
    cosine_steps: of CosineTV."""

    count: int = 20
    side: int = 16
    images: int = 4
    cosine_steps: int = 600


SIZES = {
    "smoke": Sizes(count=10, side=8, images=1, cosine_steps=10),
    "laptop": Sizes(images=2),
    "paper": Sizes(count=60, cosine_steps=2400),
}


KERNELS, CHANNELS, STRIDES, DEPTHS = (3, 4, 5), (1, 2, 3, 4, 6, 8, 12, 16), (1, 2), (1, 2, 3)


NOISE = 1e-6  # relative, on the gradient whose solution's stability is measured


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Design by design, each stored when it is done."""
    runs = context.sweep(partial(design_unit, sizes, context), [str(k) for k in range(sizes.count)], "designs")
    designs = [made(network, found) for network, found in zip(drawn(sizes, context.seed), runs.values(), strict=True)]
    x, _ = averaged_victims(context.pool, sizes.images, sizes.side)
    return Outcome(Metrics(designs=designs, grey=x.square().flatten(1).mean(1).tolist()), {})


def drawn(sizes: Sizes, seed: int) -> list[ConvNet]:
    """Networks of one to three convolutions, each entry of each drawn by itself; those that do not fit, and those that
    were drawn before, are drawn again."""
    generator = named(seed, "designs.networks")
    found: dict[str, ConvNet] = {}

    def one_of(choices: tuple[int, ...]) -> int:
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    while len(found) < sizes.count:
        convs = []
        for _ in range(one_of(DEPTHS)):
            kernel = one_of(KERNELS)
            convs.append(Conv(kernel, one_of(CHANNELS), one_of(STRIDES), one_of((0, kernel // 2))))
        network = ConvNet(tuple(convs), shape=(3, sizes.side, sizes.side))
        try:
            network.image_shapes()
        except ReconError:
            continue
        found[name_of(network)] = network
    return list(found.values())


def name_of(network: ConvNet) -> str:
    """Kernel, channels, stride, padding of every convolution."""
    return " | ".join(f"{conv.kernel},{conv.channels},{conv.stride},{conv.padding}" for conv in network.convs)


def design_unit(sizes: Sizes, context: Context, unit: str) -> Tensors:
    """One network, all images."""
    network = drawn(sizes, context.seed)[int(unit)]
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    x, labels = averaged_victims(context.pool, sizes.images, sizes.side)
    gradient = Gradient.each(network, theta, x, labels)
    each = [numerical_rank(u) for u in systems(network, theta, x[:1], labels[:1])]
    missing, found, known, unread = [], [], [], 0
    for image, one in zip(x, gradient.split(), strict=True):
        system = JointSystem.of(one)
        x_hat = gauss_newton(system).x
        at_end, at_truth = determined(system, x_hat), determined(system, image.flatten())
        unread = int(at_truth.unread.sum())
        missing.append(at_truth.deficiency + unread)
        found.append(bool((x_hat - image.flatten()).abs()[~at_truth.unread].max() <= FOUND))
        known.append(at_end.whole and relative_residual(one, x_hat) <= CERTAIN)
    generator = named(context.seed, "designs.noise", int(unit))
    noisy = Gradient.each(network, theta, x[:1], labels[:1], noise=NOISE, generator=generator)
    solved = torch.cat([rgap(one) for one in gradient.split()])
    off = rgap(noisy, check=False) - solved[:1]
    matched = cosine_tv_authors(
        gradient.to(torch.float32), seeded_start(gradient, SEED), sizes.cosine_steps
    ).x_hat.view_as(x)
    return {
        "deficiencies": torch.tensor([rank.deficiency for rank in each]),
        "condition": torch.tensor([rank.condition for rank in each], dtype=torch.float64).prod(),
        "amplified": off.norm() / x[0].norm() / NOISE,
        "unread": torch.tensor(unread),
        "missing": torch.tensor(missing),
        "found": torch.tensor(found),
        "known": torch.tensor(known),
        "rgap": mse(solved, x),
        "cosine": mse(matched.double(), x),
    }


def made(network: ConvNet, found: Tensors) -> Record:
    """One row."""
    shapes = network.image_shapes()
    return Record(
        name=name_of(network),
        c=security_metric(found["deficiencies"].tolist()),
        deficiencies=found["deficiencies"].tolist(),
        amplified=float(found["amplified"]),
        width=math.prod(shapes[1]) / math.prod(shapes[0]),
        condition=float(found["condition"]),
        equations=math.prod(shapes[-1]) + sum(math.prod(network.shapes()[f"w{i + 1}"]) for i in range(network.depth)),
        unknowns=math.prod(shapes[0]),
        unread=int(found["unread"]),
        missing=found["missing"].tolist(),
        found=found["found"].tolist(),
        known=found["known"].tolist(),
        rgap=found["rgap"].tolist(),
        cosine=found["cosine"].tolist(),
    )
