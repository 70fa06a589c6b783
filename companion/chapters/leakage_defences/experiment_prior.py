"""Appendix E: the same noise, and an adversary who knows mean and covariance of public photographs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import PRIOR, Victims, inputs, pixels
from companion.chapters.leakage_defences.experiment import SMALL, AttackSizes, averaged, privacy, released
from companion.chapters.leakage_defences.map_estimate import GaussianPrior, map_estimate
from companion.store.record import Record
from recon.images.pool import ImagePool
from recon.scoring.metrics import mse, ncc


class Metrics(Record):
    """noise: by network · grey, mean: error of a grey image, and of the mean of the public ones, for each image ·
    mean_ncc: of that mean with each image · n_public: images that the prior is estimated from, of the last
    network · privacy: as above.

    noise: One network at one z, attacked with the prior of public photographs. mse: of the most probable image, for
    each image · ncc: with the image · own: images whose reconstruction has a larger NCC with them than with every
    public image · blind, blind_ncc: error and NCC of the most probable image of the same noisy gradient for the
    adversary who takes every pixel by itself.
    """


@dataclass(frozen=True, kw_only=True)
class PriorSizes(AttackSizes):
    """noise: multipliers z on `SMALL` · table_noise: on networks of Table 1."""

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
    """Both adversaries on the same noisy gradients, which are those of `companion.chapters.leakage_defences`."""
    units = [f"{name}--{z:g}" for name in sizes.networks for z in sizes.multipliers(name)]
    runs = context.sweep(partial(prior_unit, sizes, context), units, "noise")
    noise, grey, mean, mean_ncc = {}, {}, {}, {}
    arrays: Tensors = {}
    for name in sizes.networks:
        victims = sizes.victims(name, context.pool)
        x, public = averaged(victims.x, name), averaged(public_images(context.pool, victims), name)
        middle = public.mean(0, keepdim=True)
        noise[name] = [scored(z, runs[f"{name}--{z:g}"], x, public) for z in sizes.multipliers(name)]
        grey[name] = x.square().flatten(1).mean(1).tolist()
        mean[name] = mse(middle.expand_as(x), x).tolist()
        mean_ncc[name] = ncc(x.flatten(1), middle.flatten(1))[:, 0].tolist()
        arrays |= {f"truth {name}": pixels(x), f"mean {name}": pixels(middle)}
        for z in sizes.multipliers(name):
            arrays |= {f"{key} {name} {z:g}": pixels(runs[f"{name}--{z:g}"][key]) for key in ("x_hat", "blind")}
    metrics = Metrics(
        noise=noise,
        grey=grey,
        mean=mean,
        mean_ncc=mean_ncc,
        privacy=[privacy(z) for z in sizes.noise],
        n_public=len(public),
    )
    return Outcome(metrics, arrays)


def public_images(pool: ImagePool, victims: Victims) -> Tensor:
    """All others of the pool, (n, 3, 32, 32)."""
    return inputs(pool, np.flatnonzero(~np.isin(pool.index, victims.index)))


def prior_unit(sizes: PriorSizes, context: Context, unit: str) -> Tensors:
    """One network at one z: most probable images, with and without the prior."""
    name, z = unit.split("--")
    victims = sizes.victims(name, context.pool)
    prior = GaussianPrior.of(averaged(public_images(context.pool, victims), name))
    noisy = released(name, z, victims, context)
    guesses, blind = (
        torch.stack([map_estimate(sent, sigma, each).x.view(sent.network.shape) for sent, sigma in noisy])
        for each in (prior, PRIOR)
    )
    return {"x_hat": guesses, "blind": blind}


def scored(z: float, found: Tensors, x: Tensor, public: Tensor) -> Record:
    """One network at one z against the truth, and against every public image."""
    flat, truth = found["x_hat"].flatten(1), x.flatten(1)
    alike = ncc(flat, truth).diagonal()
    return Record(
        z=z,
        mse=mse(flat, truth).tolist(),
        ncc=alike.tolist(),
        own=int((alike > ncc(flat, public.flatten(1)).amax(1)).sum()),
        blind=mse(found["blind"].flatten(1), truth).tolist(),
        blind_ncc=ncc(found["blind"].flatten(1), truth).diagonal().tolist(),
    )
