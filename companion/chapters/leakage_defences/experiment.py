"""Appendix E: noise in units of differential privacy, compression, signs, and whether noise lowers c(M)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import PRIOR, Victims, count_found, pixels
from companion.chapters.leakage_defences.entries import Part
from companion.chapters.leakage_defences.map_estimate import map_estimate
from companion.chapters.leakage_networks import SEED, TABLE_1
from companion.store.record import Record
from recon.analysis.identifiability import numerical_rank, posterior_variance, security_metric
from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import cosine_tv_authors, seeded_start
from recon.attacks.rgap import rgap, system_of
from recon.nets.conv import Conv, ConvNet, Params, cross_entropy_direction
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


class Metrics(Record):
    """noise: by network · grey: error of a grey image, by network, for each image.

    noise: One network at one noise multiplier z. mse: of the most probable image, for each image · predicted: mean
    posterior variance of its entries, computed by the adversary without the truth · rgap: error of R-GAP, None
    where the network has no convolution.
    privacy: ε at δ = 1e-5 of one release with multiplier z, and of 10 000 steps with batches of 256 from 50 000.
    compressed: A share of the entries is left: the largest, or random ones. equations over unknowns · found: images
    within half a grey level by Gauss–Newton · mse: mean.
    signs: CosineTV as its authors run it, on the signs of a gradient and on the gradient itself.
    deficiency: Σ of the layers' rank deficiencies at σ relative to each tensor's root mean square; c(M).
    """


SMALL = ("one convolution", "fully connected")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: of Table 1, or `SMALL` on images averaged down to 16 × 16 · images: attacked, of all classes ·
    table_images: attacked on networks of Table 1, where one takes minutes · noise: multipliers z, N(0, z² C²) on every
    entry of a gradient that is clipped to the norm C · kept: shares of the entries that compression leaves, on the
    first of `SMALL` · sign_steps: of CosineTV on signs · deficient: network whose c(M) is computed under
    noise."""

    networks: tuple[str, ...] = SMALL
    images: int = 4
    table_images: int = 4
    noise: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
    kept: tuple[float, ...] = (0.02, 0.05, 0.065, 0.08, 0.1, 0.2, 0.5, 1.0)
    sign_steps: int = 1000
    deficient: tuple[str, ...] = ("CNN2 V2", "CNN3 V2")


SIZES = {
    "smoke": Sizes(images=1, noise=(1e-2, 1e-1, 1.0), kept=(0.005, 0.3), sign_steps=10, deficient=("CNN3 V4",)),
    "laptop": Sizes(images=2),
    "paper": Sizes(networks=(*SMALL, "CNN2 V1", "CNN3 V2"), images=20, sign_steps=4800),
}


def network_of(name: str) -> ConvNet:
    """By the name in `Sizes`."""
    small = (3, 16, 16)
    return {SMALL[0]: ConvNet((Conv(3, 6),), shape=small), SMALL[1]: ConvNet((), shape=small), **TABLE_1}[name]


DELTA, BATCH, TRAINED_ON, STEPS = 1e-5, 256, 50_000, 10_000


SIGMAS = (0.0, 0.1, 1.0)


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Four questions, each image by itself."""
    units = [f"{name}--{z:g}" for name in sizes.networks for z in sizes.noise]
    runs = context.sweep(partial(noise_unit, sizes, context), units, "noise")
    noise, grey, arrays = {}, {}, {}
    for name in sizes.networks:
        x = victims(name, sizes, context)[2]
        noise[name] = [noisy(z, runs[f"{name}--{z:g}"], x) for z in sizes.noise]
        grey[name] = x.square().flatten(1).mean(1).tolist()
        arrays[f"truth {name}"] = pixels(x)
        for z in sizes.noise:
            arrays[f"x_hat {name} {z:g}"] = pixels(runs[f"{name}--{z:g}"]["x_hat"])
    signed, pictures = signs(sizes, context)
    metrics = Metrics(
        noise=noise,
        grey=grey,
        privacy=[privacy(z) for z in sizes.noise],
        compressed=[compressed(share, sizes, context) for share in sizes.kept],
        signs=signed,
        deficiency=[deficiency(name, context) for name in sizes.deficient],
        n_images=sizes.images,
    )
    return Outcome(metrics, arrays | pictures)


def victims(name: str, sizes: Sizes, context: Context) -> tuple[ConvNet, Params, Tensor, Tensor]:
    """Network, θ in float64, images (B, c, h, w) as large as it wants them, labels (B,)."""
    count = sizes.images if name in SMALL else sizes.table_images
    network, found = network_of(name), Victims.of_all_classes(context.pool, count)
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    return network, theta, F.avg_pool2d(found.x, 32 // network.shape[1]), found.labels


def noise_unit(sizes: Sizes, context: Context, unit: str) -> Tensors:
    """One network at one z.  C is each gradient's own norm, so that clipping changes nothing: the best case for the
    adversary."""
    name, z = unit.split("--")
    network, theta, x, labels = victims(name, sizes, context)
    found, predicted, by_rgap = [], [], []
    for k in range(len(x)):
        clean = Gradient.each(network, theta, x[k : k + 1], labels[k : k + 1])
        sigma = float(z) * math.sqrt(sum(float(g.square().sum()) for g in clean.gradients.values()))
        generator = named(context.seed, f"defences.noise {z}", k)
        released = Gradient(network, theta, clean.labels, disturbed(clean.gradients, sigma, generator))
        best = map_estimate(released, sigma, PRIOR).x
        found.append(best.view_as(x[k]))
        predicted.append(posterior_variance(released, best, sigma, PRIOR).mean())
        if network.depth:
            by_rgap.append(rgap(released, check=False)[0])
    return {
        "x_hat": torch.stack(found),
        "predicted": torch.stack(predicted),
        "rgap": torch.stack(by_rgap) if by_rgap else x.new_zeros(0),
    }


def disturbed(gradients: Params, sigma: float, generator: torch.Generator) -> Params:
    """With N(0, σ²) on every entry."""
    return {name: g + sigma * torch.randn(g.shape, generator=generator, dtype=g.dtype) for name, g in gradients.items()}


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

    def epsilon(rate: float, steps: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the best order is the first or the last, where ε is huge anyway
            spent = rdp.compute_rdp(q=rate, noise_multiplier=z, steps=steps, orders=orders)
            return float(rdp.get_privacy_spent(orders=orders, rdp=spent, delta=DELTA)[0])

    return Record(z=z, once=epsilon(1.0, 1), training=epsilon(BATCH / TRAINED_ON, STEPS))


def compressed(share: float, sizes: Sizes, context: Context) -> Record:
    """Gauss–Newton on the largest entries, and on as many random ones; the adversary knows which they are."""
    network, theta, x, labels = victims(SMALL[0], sizes, context)
    found: dict[str, list[Tensor]] = {"largest": [], "random": []}
    for k in range(len(x)):
        clean = Gradient.each(network, theta, x[k : k + 1], labels[k : k + 1])
        system = BatchSystem.of(clean, clean.labels)
        count = max(1, round(share * len(system.target)))
        drawn = torch.rand(len(system.target), generator=named(context.seed, "defences.entries", k))
        for name, score in (("largest", system.target.abs()), ("random", drawn)):
            kept = torch.zeros(len(score), dtype=torch.bool)
            kept[score.argsort(descending=True, stable=True)[:count]] = True
            part = Part(system, kept)
            tol = 1e-26 * part.target.square().sum().item()
            found[name].append(gauss_newton(part, steps=40, tol=tol).x.view_as(x[k]))
    by_largest, by_random = (torch.stack(found[name]) for name in ("largest", "random"))
    return Record(
        share=share,
        equations=count / x[0].numel(),
        largest_found=count_found(by_largest, x),
        largest_mse=mse(by_largest, x).mean().item(),
        random_found=count_found(by_random, x),
        random_mse=mse(by_random, x).mean().item(),
    )


def signs(sizes: Sizes, context: Context) -> tuple[Record, Tensors]:
    """As signSGD sends them: one bit an entry."""
    network, theta, x, labels = victims(SMALL[0], sizes, context)
    clean = Gradient.each(network, theta, x, labels)
    bits = Gradient(network, theta, labels, {name: g.sign() for name, g in clean.gradients.items()})
    found = {}
    for name, gradient in (("signs", bits), ("whole", clean)):
        run = cosine_tv_authors(gradient.to(torch.float32), seeded_start(gradient, SEED), sizes.sign_steps)
        found[name] = run.x_hat.double().view_as(x)
    errors = {name: mse(x_hat, x).tolist() for name, x_hat in found.items()}
    return Record(mse=errors["signs"], whole_mse=errors["whole"]), {"signs": pixels(found["signs"])}


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
