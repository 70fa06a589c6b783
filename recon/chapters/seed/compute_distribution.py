"""Chapter 19, the distribution of the start alone: separation in the directions that stand out of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon.attacks.separation import PIXEL_STD, FirstLayer, separate, unmix, varying
from recon.attacks.tangent import AMPLE
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.packing import packed, unpacked
from recon.chapters.seed.compute import noise_edge, scored
from recon.chapters.seed.metrics import DISTRIBUTION, SEPARATION, DistributionMetrics, DistributionNet
from recon.chapters.seed.sizes import DistributionSizes, NetSizes
from recon.chapters.seed.training import trained_from
from recon.optim.spectrum import right_singular
from recon.optim.streams import named


def compute_distribution(sizes: DistributionSizes, context: Context) -> Outcome[DistributionMetrics]:
    """Every network is stored when it is done."""
    names = [f"net-{k}" for k in range(len(sizes.nets))]
    found = context.sweep(partial(distribution_unit, sizes, context), names, "networks")
    nets = [unpacked(found[name], DistributionNet) for name in names]
    return Outcome(DistributionMetrics(nets), {"moved": torch.tensor([net.moved for net in nets])})


def distribution_unit(sizes: DistributionSizes, context: Context, name: str) -> Tensors:
    """Of "net-K"."""
    size = sizes.nets[int(name.removeprefix("net-"))]
    inside = replace(context, checkpoints=context.checkpoints.inside(name))
    return packed(attacked_twice(sizes, size, inside), DistributionNet)


def attacked_twice(sizes: DistributionSizes, size: NetSizes, context: Context) -> DistributionNet:
    """One layer W1, its start unknown, searched in the directions that stand out of its own spectrum, and in those that
    stand out of what its start was drawn from; at most twice as many as there are images, as on the other rungs."""
    images = context.images(size.n_train)
    _, trained = trained_from(context, images, size.width, 3, size.optimiser, sizes.steps)
    w1 = trained.w1.float()
    most = AMPLE * len(images)
    stream = "seed.separation"
    plain = separate(FirstLayer(w1), images.shape, replace(sizes.attack, rank=most), named(context.seed, stream))
    values, directions = right_singular(w1)
    rank = min(int((values > noise_edge(size.width, images.dim)).sum()), most)
    basis = varying(directions[:rank].float(), w1, images.shape)
    x, evidence = unmixed(basis, images.shape, sizes, named(context.seed, stream))
    nothing = scored(plain.x_hat, plain.sources, plain.sparsity, images, w1, context, SEPARATION, None)
    told = scored(torch.cat([x, -x]), x, evidence, images, w1, context, DISTRIBUTION, None)
    moved = ((trained.w1 - trained.w1_init).norm() / trained.w1_init.norm()).item()
    return DistributionNet(
        n_train=len(images), width=size.width, optimiser=size.optimiser, moved=moved, nothing=nothing, distribution=told
    )


def unmixed(
    basis: Tensor, shape: tuple[int, ...], sizes: DistributionSizes, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Sources (r, d) of root mean square `PIXEL_STD` in the span of a basis (r, d), and how sparse each is (r,)."""
    if not len(basis):
        return basis, basis.new_empty(0)
    found, contrast = unmix(basis, shape, sizes.attack, generator)
    best = int(contrast.mean(1).argmin())
    return normalize(found[best], dim=1) * PIXEL_STD * basis.shape[1] ** 0.5, -contrast[best]
