"""Other photographs with the same gradient: the move of chapter 14, for many pairs of photographs."""

from __future__ import annotations

from functools import partial

import torch

from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.joint import JointSystem, relative_residual
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.leakage_common import Attacked, Victims, pixels
from recon.chapters.leakage_rank.metrics import Pairs, PairsMetrics
from recon.chapters.leakage_rank.sizes import PairsSizes
from recon.released import Gradient
from recon.scoring.metrics import mse

BOX = (-0.5, 0.5)
STEPS = 100
SHOWN = 6


def compute_pairs(sizes: PairsSizes, context: Context) -> Outcome[PairsMetrics]:
    """Every pair by every network: a photograph is moved to the gradient of the one before it."""
    victims = Victims.of_all_classes(context.pool, sizes.pairs)
    count = len(victims.x)
    units = [f"{name} {k}" for name in sizes.networks for k in range(count)]
    found = context.sweep(partial(pair_unit, sizes, context), units, "pairs")
    networks, arrays = {}, {"truth": pixels(victims.x[:SHOWN])}
    start = victims.x.roll(-1, 0)
    arrays["start"] = pixels(start[:SHOWN])
    for name in sizes.networks:
        rows = [found[f"{name} {k}"] for k in range(count)]
        moved = torch.stack([row["moved"] for row in rows]).view_as(victims.x)
        networks[name] = Pairs(
            residual=[row["residual"].item() for row in rows],
            to_victim=mse(moved, victims.x).tolist(),
            to_start=mse(moved, start).tolist(),
            between=mse(start, victims.x).tolist(),
        )
        arrays[f"moved {name}"] = pixels(moved[:SHOWN])
    return Outcome(PairsMetrics(networks=networks, index=victims.index), arrays)


def pair_unit(sizes: PairsSizes, context: Context, unit: str) -> Tensors:
    """One pair by one network: Gauss–Newton from the next photograph, inside the pixels' range."""
    name, k = unit.rsplit(" ", 1)
    victims, attacked, row = Victims.of_all_classes(context.pool, sizes.pairs), Attacked.of(name, context.pool), int(k)
    gradient = Gradient.of(attacked.network, attacked.theta, victims.x[row : row + 1], victims.labels[row : row + 1])
    start = victims.x[(row + 1) % len(victims.x)].flatten()
    moved = gauss_newton(JointSystem.of(gradient), start, steps=STEPS, box=BOX).x
    residual = torch.tensor(relative_residual(gradient, moved), dtype=torch.float64)
    return {"moved": moved.clone(), "residual": residual}
