"""Networks drawn at random, each with its ranks, Gauss–Newton, and CosineTV with one cosine and
signed steps of 0.1, a setting of ours.
"""

import math
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial

import numpy as np
import scipy.linalg
import torch

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import FOUND, LEAST, SEED, averaged_victims, initial
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.analysis.identifiability import determined, rank_deficiency, security_metric
from recon.attacks import by_gauss_newton
from recon.attacks.from_gradients import GaussNewtonSettings
from recon.attacks.gradient_matching import GEIPING_DESCENT, cosine_tv, seeded_start
from recon.attacks.gradient_system import JointSystem
from recon.attacks.rgap import Stacked, rgap, systems
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


def decibels(design: Record) -> float:
    """CosineTV's mean PSNR (peak 1), rounding apart."""
    return float(-10 * np.log10(np.maximum(design.cosine, LEAST)).mean())


class Metrics(Record):
    """designs: in the order of the draw.

    designs: One network drawn at random. name: kernel, channels, stride, padding of every
    convolution · c: c(M) · deficiencies: of the layers, one by one · width: outputs of the first
    layer over entries of the image · unread: entries of the image that no layer reads · missing:
    rank of all layers together minus entries that are read, for each image · found: by
    Gauss–Newton, for each image · cosine: CosineTV's error, for each image. Where no layer lacks
    rank: condition, the product of the layers' condition numbers · amplified: how many times a
    relative noise of 1e-6 on the first image's gradient grows in R-GAP's image.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        count: networks drawn, all different.
        side: of their images, averaged down.
        images: attacked, of all classes.
        cosine_steps: of CosineTV.
    """

    count: int = 20
    side: int = 16
    images: int = 4
    cosine_steps: int = 600


SIZES = {
    "smoke": Sizes(count=10, side=8, images=1, cosine_steps=10),
    "laptop": Sizes(images=2),
    "paper": Sizes(count=60, cosine_steps=2400),
}
NOISE = 1e-6
KERNELS = (3, 4, 5)
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16)
STRIDES = (1, 2)
DEPTHS = (1, 2, 3)


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Design by design, each stored when it is done."""
    units = [str(k) for k in range(sizes.count)]
    runs = context.sweep(partial(design_unit, sizes, context), units, "designs")
    return Outcome(Metrics(designs=[unpacked(tensors) for tensors in runs.values()]), {})


def drawn(sizes: Sizes, seed: int) -> dict[str, ConvNet]:
    """Networks of one to three convolutions, each entry of each drawn by itself; those that do not
    fit, and those that were drawn before, are drawn again. By name: kernel, channels, stride,
    padding of every convolution.
    """
    generator = named(seed, "designs.networks")
    designs: dict[str, ConvNet] = {}

    def one_of(choices: tuple[int, ...]) -> int:
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    while len(designs) < sizes.count:
        convs = []
        for _ in range(one_of(DEPTHS)):
            kernel = one_of(KERNELS)
            convs.append(Conv(kernel, one_of(CHANNELS), one_of(STRIDES), one_of((0, kernel // 2))))
        network = ConvNet(tuple(convs), shape=(3, sizes.side, sizes.side))
        with suppress(ReconError):
            network.image_shapes()
            name = " | ".join(",".join(map(str, astuple(conv))) for conv in convs)
            designs[name] = network
    return designs


def stability(layers: list[Stacked], gradient: Gradient, generator: torch.Generator) -> Record:
    """Condition and amplified of `Metrics`, of one image's gradient."""
    values = [scipy.linalg.eigvalsh(u.gram()) for u in layers]
    noisy = {
        name: torch.normal(g, float(NOISE * g.square().mean().sqrt()), generator=generator)
        for name, g in gradient.gradients.items()
    }
    x = rgap(gradient)
    moved = rgap(replace(gradient, gradients=noisy), check=False)
    return Record(
        condition=math.prod(math.sqrt(each[-1] / each[0]) for each in values),
        amplified=float((moved - x).norm() / x.norm()) / NOISE,
    )


def design_unit(sizes: Sizes, context: Context, unit: str) -> Tensors:
    """One network, all images."""
    name, network = list(drawn(sizes, context.seed).items())[int(unit)]
    theta = initial(network)
    x, labels = averaged_victims(context.pool, sizes.images, sizes.side)
    gradient = Gradient.each(network, theta, x, labels)
    layers = systems(network, theta, x[:1], labels[:1])
    deficiencies = [rank_deficiency(u) for u in layers]
    solved = by_gauss_newton(gradient, network.shape, GaussNewtonSettings(starts=1)).images
    missing = []
    matched = []
    unread = 0
    for image, x_hat, single in zip(x, solved, gradient.split(), strict=True):
        there = determined(JointSystem.of(single), image.flatten())
        unread = int(there.unread.sum())
        missing.append(there.deficiency + unread)
        matched.append(bool((x_hat - image).flatten().abs()[~there.unread].max() <= FOUND))
    single = gradient.to(torch.float32)
    start = seeded_start(gradient, SEED)
    steps = replace(GEIPING_DESCENT, step_size=0.1)
    cosine = cosine_tv(single, start, sizes.cosine_steps, whole=True, descent=steps).x_hat
    shapes = network.image_shapes()
    row = Record(
        name=name,
        c=security_metric(deficiencies),
        deficiencies=deficiencies,
        width=math.prod(shapes[1]) / math.prod(shapes[0]),
        unread=unread,
        missing=missing,
        found=matched,
        cosine=mse(cosine.view_as(x).double(), x).tolist(),
    )
    if not row.c:
        row |= stability(
            layers, gradient.split()[0], named(context.seed, "designs.noise", int(unit))
        )
    return packed(row)
