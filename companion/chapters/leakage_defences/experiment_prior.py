"""Appendix E: the same noise, and an adversary who knows mean and covariance of public photographs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import PRIOR, Victims, inputs, pixels
from companion.chapters.leakage_defences.experiment import SMALL, disturbed, network_of, privacy
from companion.chapters.leakage_defences.map_estimate import GaussianPrior, map_estimate
from companion.chapters.leakage_networks import SEED
from companion.store.record import Record
from recon.images.pool import ImagePool
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse, ncc


class Metrics(Record):
    """noise: by network · grey, mean: error of a grey image, and of the mean of the public ones, for each image ·
    mean_ncc: of that mean with each image · n_public: images that the prior is estimated from, of the last
    network · shrinkage: of their covariance, by network · privacy: as above.

    noise: One network at one z, attacked with the prior of public photographs. mse: of the most probable image, for
    each image · predicted: mean posterior variance of its entries, without the truth · ncc: with the image · own:
    images whose reconstruction has a larger NCC with them than with every public image · blind, blind_ncc: error
    and NCC of the most probable image of the same noisy gradient for the adversary who takes every pixel by itself.
    privacy: ε at δ = 1e-5 of one release with multiplier z, and of 10 000 steps with batches of 256 from 50 000.
    """


@dataclass(frozen=True, kw_only=True)
class PriorSizes:
    """networks, images, table_images, noise: as above · table_noise: multipliers on networks of Table 1."""

    networks: tuple[str, ...] = SMALL
    images: int = 4
    table_images: int = 3
    noise: tuple[float, ...] = (1e-2, 3e-2, 1e-1, 3e-1, 6e-1, 1.0, 3.0)
    table_noise: tuple[float, ...] = (3e-2, 1e-1, 3e-1, 1.0)

    def multipliers(self, name: str) -> tuple[float, ...]:
        """Of a network."""
        return self.noise if name in SMALL else self.table_noise


SIZES = {
    "smoke": PriorSizes(images=1, noise=(1e-2, 1e-1, 1.0)),
    "laptop": PriorSizes(images=2),
    "paper": PriorSizes(networks=(*SMALL, "CNN2 V1"), images=20),
}


def compute(sizes: PriorSizes, context: Context) -> Outcome[Metrics]:
    """Both adversaries on the same noisy gradients, which are those of
    `companion.chapters.leakage_defences.compute`."""
    units = [f"{name}--{z:g}" for name in sizes.networks for z in sizes.multipliers(name)]
    runs = context.sweep(partial(prior_unit, sizes, context), units, "noise")
    noise, grey, mean, mean_ncc, shrinkage = {}, {}, {}, {}, {}
    arrays: Tensors = {}
    for name in sizes.networks:
        found, side = victims_of(name, sizes, context), network_of(name).shape[1]
        x, public = averaged(found.x, side), averaged(public_images(context.pool, found), side)
        middle = public.mean(0, keepdim=True)
        noise[name] = [scored(z, runs[f"{name}--{z:g}"], x, public) for z in sizes.multipliers(name)]
        grey[name] = x.square().flatten(1).mean(1).tolist()
        mean[name] = mse(middle.expand_as(x), x).tolist()
        mean_ncc[name] = ncc(x.flatten(1), middle.flatten(1))[:, 0].tolist()
        shrinkage[name] = runs[f"{name}--{sizes.multipliers(name)[0]:g}"]["shrinkage"].item()
        arrays |= {f"truth {name}": pixels(x), f"mean {name}": pixels(middle)}
        for z in sizes.multipliers(name):
            arrays |= {f"{key} {name} {z:g}": pixels(runs[f"{name}--{z:g}"][key]) for key in ("x_hat", "blind")}
    return Outcome(
        Metrics(
            noise=noise,
            grey=grey,
            mean=mean,
            mean_ncc=mean_ncc,
            shrinkage=shrinkage,
            privacy=[privacy(z) for z in sizes.noise],
            n_images=sizes.images,
            n_public=len(public),
        ),
        arrays,
    )


def victims_of(name: str, sizes: PriorSizes, context: Context) -> Victims:
    """The images that `companion.chapters.leakage_defences.compute` attacks, of all classes."""
    return Victims.of_all_classes(context.pool, sizes.images if name in SMALL else sizes.table_images)


def public_images(pool: ImagePool, victims: Victims) -> Tensor:
    """All others of the pool, (n, 3, 32, 32)."""
    return inputs(pool, np.flatnonzero(~np.isin(pool.index, victims.index)))


def averaged(x: Tensor, side: int) -> Tensor:
    """Down from 32 × 32."""
    return F.avg_pool2d(x, 32 // side)


def prior_unit(sizes: PriorSizes, context: Context, unit: str) -> Tensors:
    """One network at one z: most probable images, with and without the prior, and what the adversary expects."""
    name, z = unit.split("--")
    network, found = network_of(name), victims_of(name, sizes, context)
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    x = averaged(found.x, network.shape[1])
    prior = GaussianPrior.of(averaged(public_images(context.pool, found), network.shape[1]))
    guesses, variances, blind = [], [], []
    for k in range(len(x)):
        clean = Gradient.each(network, theta, x[k : k + 1], found.labels[k : k + 1])
        sigma = float(z) * math.sqrt(sum(float(g.square().sum()) for g in clean.gradients.values()))
        generator = named(context.seed, f"defences.noise {z}", k)
        released = Gradient(network, theta, clean.labels, disturbed(clean.gradients, sigma, generator))
        guess = map_estimate(released, sigma, prior)
        guesses.append(guess.x.view_as(x[k]))
        variances.append(guess.variance.mean())
        blind.append(map_estimate(released, sigma, PRIOR).x.view_as(x[k]))
    return {
        "x_hat": torch.stack(guesses),
        "predicted": torch.stack(variances),
        "blind": torch.stack(blind),
        "shrinkage": torch.tensor(prior.shrinkage, dtype=torch.float64),
    }


def scored(z: float, found: Tensors, x: Tensor, public: Tensor) -> Record:
    """One network at one z against the truth, and against every public image."""
    flat, truth = found["x_hat"].flatten(1), x.flatten(1)
    alike = ncc(flat, truth).diagonal()
    return Record(
        z=z,
        mse=mse(flat, truth).tolist(),
        predicted=found["predicted"].tolist(),
        ncc=alike.tolist(),
        own=int((alike > ncc(flat, public.flatten(1)).amax(1)).sum()),
        blind=mse(found["blind"].flatten(1), truth).tolist(),
        blind_ncc=ncc(found["blind"].flatten(1), truth).diagonal().tolist(),
    )
