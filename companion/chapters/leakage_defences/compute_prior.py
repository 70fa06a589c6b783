"""Appendix E: the same noise, and an adversary who knows mean and covariance of public photographs."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import PRIOR, Victims, inputs, pixels
from companion.chapters.leakage_defences.compute import disturbed, privacy
from companion.chapters.leakage_defences.map_estimate import GaussianPrior, map_estimate
from companion.chapters.leakage_defences.metrics import PriorMetrics, Public
from companion.chapters.leakage_defences.sizes import SMALL, PriorSizes, network_of
from companion.chapters.leakage_networks import SEED
from recon.images.pool import ImagePool
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse, ncc


def compute_prior(sizes: PriorSizes, context: Context) -> Outcome[PriorMetrics]:
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
        PriorMetrics(
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


def scored(z: float, found: Tensors, x: Tensor, public: Tensor) -> Public:
    """One network at one z against the truth, and against every public image."""
    flat, truth = found["x_hat"].flatten(1), x.flatten(1)
    alike = ncc(flat, truth).diagonal()
    return Public(
        z=z,
        mse=mse(flat, truth).tolist(),
        predicted=found["predicted"].tolist(),
        ncc=alike.tolist(),
        own=int((alike > ncc(flat, public.flatten(1)).amax(1)).sum()),
        blind=mse(found["blind"].flatten(1), truth).tolist(),
        blind_ncc=ncc(found["blind"].flatten(1), truth).diagonal().tolist(),
    )
