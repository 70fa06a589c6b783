"""Appendix E: noise in units of differential privacy, and whether noise lowers c(M)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import PRIOR, SEED, TABLE_1, Victims, pixels
from companion.chapters.leakage_defences.map_estimate import map_estimate
from companion.store.record import Record
from recon.analysis.identifiability import numerical_rank, posterior_variance, security_metric
from recon.attacks.rgap import rgap, system_of
from recon.images.pool import ImagePool
from recon.nets.conv import Conv, ConvNet, cross_entropy_direction
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


class Metrics(Record):
    """noise: by network · grey: error of a grey image, by network, for each image.

    noise: One network at one noise multiplier z. mse: of the most probable image, for each image · predicted: mean
    posterior variance of its entries, computed by the adversary without the truth · rgap: error of R-GAP, None
    where the network has no convolution.
    privacy: ε at δ = 1e-5 of 10 000 steps with multiplier z and batches of 256 from 50 000.
    deficiency: Σ of the layers' rank deficiencies at σ relative to each tensor's root mean square; c(M).
    """


SMALL = ("one convolution", "fully connected")


@dataclass(frozen=True, kw_only=True)
class AttackSizes:
    """networks: of Table 1, or `SMALL` on images averaged down to 16 × 16 · images: attacked, of all classes ·
    table_images: attacked on networks of Table 1, where one takes minutes."""

    networks: tuple[str, ...] = SMALL
    images: int = 4
    table_images: int = 4

    def victims(self, name: str, pool: ImagePool) -> Victims:
        """The images whose gradients by a network are attacked."""
        return Victims.of_all_classes(pool, self.images if name in SMALL else self.table_images)


@dataclass(frozen=True, kw_only=True)
class Sizes(AttackSizes):
    """noise: multipliers z, N(0, z² C²) on every entry of a gradient that is clipped to the norm C · deficient:
    networks whose c(M) is computed under noise."""

    noise: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
    deficient: tuple[str, ...] = ("CNN2 V2", "CNN3 V2")


SIZES = {
    "smoke": Sizes(images=1, noise=(1e-2, 1e-1, 1.0), deficient=("CNN3 V4",)),
    "laptop": Sizes(images=2),
    "paper": Sizes(networks=(*SMALL, "CNN2 V1", "CNN3 V2"), images=20),
}


def network_of(name: str) -> ConvNet:
    """By the name in `Sizes`."""
    small = (3, 16, 16)
    return {SMALL[0]: ConvNet((Conv(3, 6),), shape=small), SMALL[1]: ConvNet((), shape=small), **TABLE_1}[name]


DELTA, BATCH, TRAINED_ON, STEPS = 1e-5, 256, 50_000, 10_000
SIGMAS = (0.0, 0.1, 1.0)


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Two questions, each image by itself."""
    units = [f"{name}--{z:g}" for name in sizes.networks for z in sizes.noise]
    runs = context.sweep(partial(noise_unit, sizes, context), units, "noise")
    noise, grey = {}, {}
    arrays: Tensors = {}
    for name in sizes.networks:
        x = averaged(sizes.victims(name, context.pool).x, name)
        noise[name] = [noisy(z, runs[f"{name}--{z:g}"], x) for z in sizes.noise]
        grey[name] = x.square().flatten(1).mean(1).tolist()
        arrays[f"truth {name}"] = pixels(x)
        arrays |= {f"x_hat {name} {z:g}": pixels(runs[f"{name}--{z:g}"]["x_hat"]) for z in sizes.noise}
    metrics = Metrics(
        noise=noise,
        grey=grey,
        privacy=[privacy(z) for z in sizes.noise],
        deficiency=[deficiency(name, context) for name in sizes.deficient],
    )
    return Outcome(metrics, arrays)


def averaged(x: Tensor, name: str) -> Tensor:
    """Images (B, 3, 32, 32) as large as a network wants them."""
    return F.avg_pool2d(x, 32 // network_of(name).shape[1])


def released(name: str, z: str, victims: Victims, context: Context) -> list[tuple[Gradient, float]]:
    """The noisy gradient of every image at multiplier z, and σ of its noise.  C is each gradient's own norm, so that
    clipping changes nothing: the best case for the adversary."""
    network, x = network_of(name), averaged(victims.x, name)
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    found = []
    for k in range(len(x)):
        clean = Gradient.each(network, theta, x[k : k + 1], victims.labels[k : k + 1])
        sigma = float(z) * math.sqrt(sum(float(g.square().sum()) for g in clean.gradients.values()))
        generator = named(context.seed, f"defences.noise {z}", k)
        sent = {
            key: g + sigma * torch.randn(g.shape, generator=generator, dtype=g.dtype)
            for key, g in clean.gradients.items()
        }
        found.append((Gradient(network, theta, clean.labels, sent), sigma))
    return found


def noise_unit(sizes: Sizes, context: Context, unit: str) -> Tensors:
    """One network at one z: most probable images, what the adversary expects of them, and R-GAP's."""
    name, z = unit.split("--")
    found, predicted, by_rgap = [], [], []
    for sent, sigma in released(name, z, sizes.victims(name, context.pool), context):
        best = map_estimate(sent, sigma, PRIOR).x
        found.append(best.view(sent.network.shape))
        predicted.append(posterior_variance(sent, best, sigma, PRIOR).mean())
        if sent.network.depth:
            by_rgap.append(rgap(sent, check=False)[0])
    return {
        "x_hat": torch.stack(found),
        "predicted": torch.stack(predicted),
        "rgap": torch.stack(by_rgap) if by_rgap else torch.zeros(0),
    }


def noisy(z: float, found: Tensors, x: Tensor) -> Record:
    """One network at one z against the truth."""
    return Record(
        z=z,
        mse=mse(found["x_hat"], x).tolist(),
        predicted=found["predicted"].tolist(),
        rgap=mse(found["rgap"], x).tolist() if len(found["rgap"]) else None,
    )


def privacy(z: float) -> Record:
    """By Opacus' accountant for Rényi differential privacy (Mironov 2017)."""
    from opacus.accountants.analysis import rdp

    orders = [1 + k / 10 for k in range(1, 100)] + list(range(12, 256))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the best order is the first or the last, where ε is huge anyway
        spent = rdp.compute_rdp(q=BATCH / TRAINED_ON, noise_multiplier=z, steps=STEPS, orders=orders)
        return Record(z=z, training=float(rdp.get_privacy_spent(orders=orders, rdp=spent, delta=DELTA)[0]))


def deficiency(name: str, context: Context) -> Record:
    """c(M) of the systems that an adversary can set up from a noisy gradient: δ of every layer comes from it."""
    network, images = network_of(name), Victims.of(context.pool)
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    clean = network.layers(theta, images.x[:1], cross_entropy_direction(images.labels[:1]))
    c = []
    for sigma in SIGMAS:
        ranks = []
        for i, (conv, layer) in enumerate(zip(network.convs, clean, strict=False)):
            generator = named(context.seed, "defences.delta", i)
            delta = layer.delta[0]
            drawn = torch.randn(delta.shape, generator=generator, dtype=delta.dtype)
            noisy_delta = delta + sigma * delta.square().mean().sqrt() * drawn
            system = system_of(conv, theta[layer.weight], noisy_delta, network.image_shapes()[i])
            ranks.append(numerical_rank(system).deficiency)
        c.append(security_metric(ranks))
    return Record(network=name, sigma=list(SIGMAS), c=c)
