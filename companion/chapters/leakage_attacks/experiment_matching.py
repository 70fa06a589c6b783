"""Chapter 11: every attack on images beyond the paper's two; gradient matching with two energies
and two descents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_attacks.experiment import ATTACKS, Budget, attacks, shown
from companion.chapters.leakage_common import (
    LEAST,
    TABLE_1,
    Attacked,
    Networks,
    Ratio,
    Victims,
    pixels,
)
from companion.chapters.published import DIVERGED
from companion.store.record import Record
from recon.analysis.identifiability import determined
from recon.attacks.gradient_system import JointSystem
from recon.scoring.metrics import mse


def logs(run: Record) -> np.ndarray:
    """log10 of the errors, no less than 1e-12 and no more than `DIVERGED`, (images,)."""
    return np.log10(
        [min(max(DIVERGED if error is None else error, LEAST), DIVERGED) for error in run.mse]
    )


def typical(run: Record) -> float:
    """Geometric mean of the errors."""
    return float(10 ** logs(run).mean())


class Metrics(Networks):
    """networks: by name · index: of the images in CIFAR-10 · grey: error of a grey image, for each
    of them.

    networks: joint: rank of all layers together minus unknowns, at the first image · unread:
    entries of the image that no equation reads · methods: by name. networks.methods: One attack on
    one network: mean squared error of each image, pixels in [0, 1], None where not finite.
    """

    @property
    def open(self) -> list[str]:
        """Networks whose gradient leaves something open that they read."""
        return [name for name, row in self.networks.items() if row.joint + row.unread < 0]

    def ratio(self, method: str, other: str, names: list[str] | None = None) -> Ratio:
        """Error of one method over that of another: geometric mean over networks (by name, default
        all) and images.
        """
        rows = [self.networks[name] for name in names or self.networks]
        differences = [logs(row.methods[method]) - logs(row.methods[other]) for row in rows]
        return Ratio.of(np.mean(differences, axis=0))


@dataclass(frozen=True, kw_only=True)
class MatchingSizes(Budget):
    """
    Attributes:
        networks: of Table 1.
        images: the paper's two, and beyond them as many of every class.
    """

    networks: tuple[str, ...] = tuple(TABLE_1)
    images: int = 20


SIZES = {
    "smoke": MatchingSizes(
        networks=("CNN3 V4",),
        images=1,
        cosine_steps=8,
        hybrid_share=0.002,
        dlg_steps=2,
    ),
    "laptop": MatchingSizes(
        networks=("CNN2 V2", "CNN3 V2"),
        images=2,
        cosine_steps=400,
        hybrid_share=0.035,
        dlg_steps=0,
    ),
    "paper": MatchingSizes(),
}


def compute(sizes: MatchingSizes, context: Context) -> Outcome[Metrics]:
    """Every attack by every network, on all images at once, each stored when it is done."""
    victims, methods = Victims.of_all_classes(context.pool, sizes.images), attacks(sizes.dlg_steps)
    units = [f"{name}--{method}" for name in sizes.networks for method in methods]
    runs = context.sweep(partial(matching_unit, sizes, context), units, "attacks")
    networks, arrays = {}, {"truth": pixels(victims.x)}
    for name in sizes.networks:
        solved, rows = runs[f"{name}--gauss_newton"], {}
        for method in methods:
            x_hat = runs[f"{name}--{method}"]["x_hat"]
            errors = mse(x_hat, victims.x).tolist()
            rows[method] = Record(mse=[error if math.isfinite(error) else None for error in errors])
            arrays[f"x_hat {name} {method}"] = shown(x_hat)
        joint, unread = int(solved["deficiency"]), int(solved["unread"])
        networks[name] = Record(joint=joint, unread=unread, methods=rows)
    return Outcome(Metrics(**networks, index=victims.index, grey=victims.grey), arrays)


def matching_unit(sizes: MatchingSizes, context: Context, unit: str) -> Tensors:
    """One attack by one network: images "x_hat" (B, 3, 32, 32); of Gauss–Newton also what is
    missing.
    """
    name, method = unit.split("--")
    victims = Victims.of_all_classes(context.pool, sizes.images)
    gradient = Attacked.of(name, context.pool).gradients(victims)
    place = context.checkpoints.inside(unit.replace(" ", "-"))
    tensors = {"x_hat": ATTACKS[method].attack(gradient, sizes, place).double()}
    if method == "gauss_newton":
        there = determined(JointSystem.of(gradient.split()[0]), victims.x[0].flatten())
        tensors |= {"deficiency": torch.tensor(there.deficiency), "unread": there.unread.sum()}
    return tensors
