"""Images that are shifted have one gradient where a network pools over all positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from companion.chapters.base import Context, Outcome
from companion.chapters.leakage_common import FOUND
from companion.store.record import Record
from recon.attacks import by_gauss_newton
from recon.attacks.from_gradients import GaussNewtonSettings
from recon.images.registry import load_pool
from recon.optim.rng import named
from recon.released import Gradient


class Metrics(Record):
    """pooled, flat: two convolutions with tanh and circular padding, and a dense layer; with
    pooling over all positions before it, and without.

    pooled, flat: By Gauss–Newton from several initial images. rank: of all layers together, of 64
    unknowns · condition · certificate: by the attack · distinct: images with the gradient ·
    shifted: those that are the digit, shifted.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        starts: initial images.
    """

    starts: int = 12


SIZES = {"smoke": Sizes(starts=5), "laptop": Sizes(), "paper": Sizes()}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """The first digit of scikit-learn's, by weights N(0, 0.3²)."""
    digit = torch.from_numpy(load_pool("digits").images[:1]).double() / 255 - 0.5
    shifts = torch.cat([digit.roll((k, j), (2, 3)).flatten(1) for k in range(8) for j in range(8)])
    rows, arrays, circular = {}, {"truth": digit + 0.5}, {"padding": 1, "padding_mode": "circular"}
    for name, side in (("pooled", 1), ("flat", 8)):
        layers = nn.Conv2d(1, 8, 3, **circular), nn.Tanh(), nn.Conv2d(8, 16, 3, **circular)
        last = nn.AdaptiveAvgPool2d(side), nn.Flatten(), nn.Linear(16 * side**2, 10)
        network = nn.Sequential(*layers, nn.Tanh(), *last).double().eval()
        generator = named(context.seed, "shifts")
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.3, generator=generator)
        gradient = Gradient.of(network, F.cross_entropy, digit, 0)
        settings = GaussNewtonSettings(sizes.starts)
        said = by_gauss_newton(gradient, (1, 8, 8), settings, generator).diagnostics
        solutions = torch.cat([digit[:0], *said["solutions"][0]])
        near = torch.cdist(solutions.flatten(1), shifts, p=float("inf")) <= FOUND
        arrays[name] = solutions + 0.5
        rows[name] = Record(
            {key: said[key][0] for key in ("rank", "condition", "certificate")},
            distinct=len(solutions),
            shifted=int(near[:, 1:].sum()),
        )
    return Outcome(Metrics(**rows), arrays)
