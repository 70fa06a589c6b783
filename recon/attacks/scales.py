"""The scale of the multipliers where DecoReco starts: searched on a grid that has no edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recon.attacks.recover import RecoverSettings, recover
from recon.released import Weights

FACTOR = 10**0.5


@dataclass(frozen=True)
class Scale:
    """value: the scale tried with the lowest energy · tried: all, in rising order · inside: whether both neighbours of
    `value` were tried, so that no edge binds."""

    value: float
    tried: tuple[float, ...]
    inside: bool


def walk(energy_of: Callable[[float], float], first: float, factor: float = FACTOR, most: int = 12) -> Scale:
    """Look at first, first · factor^{±1}, and on in the direction of falling energy until it rises, or `most` values
    were tried.  Decided by the attack's own energy; a NaN counts as infinite.

    >>> walk(lambda value: abs(value - 90.0), first=1.0, factor=10.0)
    Scale(value=100.0, tried=(0.1, 1.0, 10.0, 100.0, 1000.0), inside=True)
    """
    energies: dict[int, float] = {}

    def at(k: int) -> float:
        if k not in energies and len(energies) < most:
            energy = energy_of(first * factor**k)
            energies[k] = energy if energy == energy else float("inf")
        return energies.get(k, float("inf"))

    best = 0
    while len(energies) < most:
        around = min((best, best - 1, best + 1), key=at)
        if around == best:
            break
        best = around
    tried = tuple(first * factor**k for k in sorted(energies))
    return Scale(first * factor**best, tried, {best - 1, best + 1} <= energies.keys())


def scale_for(
    weights: Weights,
    settings: RecoverSettings,
    seed: int,
    x_init: Tensor | None = None,
    first: float = 1e-2,
) -> Scale:
    """`walk` over short runs (`settings.scale_steps`) of `recover`, one restart each, all from the same start."""
    short = replace(settings, restarts=1, steps=settings.scale_steps)

    def energy_of(scale: float) -> float:
        generator = torch.Generator().manual_seed(seed)
        return recover(weights, replace(short, multiplier_scales=(scale,)), generator, None, x_init).energy.item()

    return walk(energy_of, first)
