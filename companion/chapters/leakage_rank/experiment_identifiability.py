"""What each network's gradient determines, whether it is found, and whether the adversary can know:
image by image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import (
    CERTAIN,
    FOUND,
    TABLE_1,
    Attacked,
    Networks,
    Victims,
    pixels,
)
from companion.store.record import Record
from recon.analysis.identifiability import determined, security_metric
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.rgap import generic_deficiencies, rgap
from recon.released import Gradient


class Metrics(Networks):
    """networks: by name · n_images.

    networks: One network. c: the security metric, from the layers' shapes · joint_deficiency: rank
    of the joint Jacobian minus unknowns, at the first victim · unread_pixels: entries of the image
    that no equation reads · rgap_found: images that R-GAP finds. networks.counts: Of the images,
    how many are determined (nothing is missing at the truth but what is not read), found (every
    entry that is read to half a grey level, by Gauss–Newton on the joint system, from grey), known
    to be found (certified: the residual ‖g(x̂) − g‖/‖g‖ is rounding, and the rank at x̂ lacks
    nothing but entries that are not read), and certified without being found.
    networks.counterfactual: Another photograph, moved inside [0, 1] until it has the first victim's
    gradient. residual: as above · mse_to_victim, mse_to_start: of the result · start_mse: between
    the two photographs.
    """


@dataclass(frozen=True, kw_only=True)
class IdentifiabilitySizes:
    """
    Attributes:
        networks: as above.
        images: the paper's two, and beyond them as many of every class.
    """

    networks: tuple[str, ...] = tuple(TABLE_1)
    images: int = 2


SIZES = {
    "smoke": IdentifiabilitySizes(networks=("CNN3 V4",), images=1),
    "laptop": IdentifiabilitySizes(networks=("CNN2 V1", "CNN3 V2", "CNN3 V3"), images=1),
    "paper": IdentifiabilitySizes(images=100),
}
BOX = (-0.5, 0.5)


def compute(sizes: IdentifiabilitySizes, context: Context) -> Outcome[Metrics]:
    """Every image by every network, each stored when it is done."""
    victims = Victims.of_all_classes(context.pool, sizes.images)
    units = [f"{name} {k}" for name in sizes.networks for k in range(len(victims.x))]
    found = context.sweep(partial(image_unit, sizes, context), units, "images")
    rows = {name: [found[f"{name} {k}"] for k in range(len(victims.x))] for name in sizes.networks}
    other = Victims.of(context.pool).x[1].flatten()
    networks = {name: identified(name, each, victims, other) for name, each in rows.items()}
    arrays = {"truth": pixels(victims.x[:2])} | {
        f"{kind} {name}": pixels(torch.stack([row[kind] for row in each[:2]]))
        for name, each in rows.items()
        for kind in ("x_hat", "rgap", "counterfactual")
    }
    return Outcome(Metrics(**networks, n_images=len(victims.x)), arrays)


def image_unit(sizes: IdentifiabilitySizes, context: Context, unit: str) -> Tensors:
    """One image by one network: the attack, its certificate, and the truth's own rank; of the first
    image also another photograph moved.
    """
    name, k = unit.rsplit(" ", 1)
    victims = Victims.of_all_classes(context.pool, sizes.images)
    attacked, row = Attacked.of(name, context.pool), int(k)
    x = victims.x[row].flatten()
    gradient = Gradient.each(
        attacked.network, attacked.theta, victims.x[row : row + 1], victims.labels[row : row + 1]
    )
    system = JointSystem.of(gradient)
    found = gauss_newton(system)
    at_end = determined(system, found.x)
    there = (found.x - x).abs()[~at_end.unread].max() <= FOUND**2  # then the ranks are the same
    at_truth = at_end if there else determined(system, x)
    moved = torch.full_like(x, torch.nan)
    if row == 0:
        moved = gauss_newton(system, Victims.of(context.pool).x[1].flatten(), steps=100, box=BOX).x
    return {
        "x_hat": found.x,
        "residual": torch.tensor(relative_residual(gradient, found.x)),
        "whole_at_end": torch.tensor(at_end.whole),
        "whole_at_truth": torch.tensor(at_truth.whole),
        "deficiency": torch.tensor(at_truth.deficiency),
        "unread": at_truth.unread,
        # peeling is R-GAP
        "rgap": (found.x if system.depth == 0 else rgap(gradient).flatten()).clone(),
        "counterfactual": moved.clone(),
        "counterfactual_residual": torch.tensor(relative_residual(gradient, moved)),
    }


def identified(name: str, rows: list[Tensors], victims: Victims, other: Tensor) -> Record:
    """One network's images together;

    Args:
        other (c·h·w,): the photograph that was moved to the first.
    """
    truth, first = victims.x.flatten(1), rows[0]
    column = {key: torch.stack([row[key] for row in rows]) for key in first}
    found, by_rgap = (
        ((column[kind] - truth).abs() * ~column["unread"]).amax(1) <= FOUND
        for kind in ("x_hat", "rgap")
    )
    known = (column["residual"] <= CERTAIN) & column["whole_at_end"]
    moved = first["counterfactual"]
    return Record(
        c=security_metric(generic_deficiencies(TABLE_1[name])),
        joint_deficiency=int(first["deficiency"]),
        unread_pixels=int(first["unread"].sum()),
        counts=Record(
            determined=int(column["whole_at_truth"].sum()),
            found=int(found.sum()),
            known=int(known.sum()),
            falsely_known=int((known & ~found).sum()),
        ),
        rgap_found=int(by_rgap.sum()),
        counterfactual=Record(
            residual=first["counterfactual_residual"].item(),
            mse_to_victim=(moved - truth[0]).square().mean().item(),
            mse_to_start=(moved - other).square().mean().item(),
            start_mse=(other - truth[0]).square().mean().item(),
        ),
    )
