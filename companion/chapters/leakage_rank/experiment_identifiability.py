"""What each network's gradient determines, whether it is found, and whether the adversary can know:
image by image.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import (
    FOUND,
    TABLE_1,
    Attacked,
    Networks,
    Victims,
    pixels,
)
from companion.store.record import Record
from recon.analysis.identifiability import determined, security_metric
from recon.attacks import by_rgap
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_system import CERTAIN, JointSystem, relative_residual
from recon.attacks.rgap import generic_deficiencies
from recon.released import Gradient


class Metrics(Networks):
    """networks: by name · n_images.

    networks: One network. c: the security metric, from the layers' shapes · joint_deficiency: rank
    of the joint Jacobian minus unknowns, at the first victim · unread_pixels: entries of the image
    that no equation reads · rgap_found: images that R-GAP finds. networks.counts: Of the images,
    how many are determined (nothing is missing at the truth but what is not read), found (every
    entry that is read to half a grey level, by Gauss–Newton on the joint system, from grey), known
    to be found (certified locally: the residual ‖g(x̂) − g‖/‖g‖ is rounding, and the rank at x̂
    lacks nothing but entries that are not read), and certified without being found.
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
    n = len(victims.x)
    other = Victims.of(context.pool).x[1].flatten()
    units = [f"{name} {k}" for name in sizes.networks for k in range(n)]
    runs = context.sweep(partial(image_unit, sizes, context), units, "images")
    networks = {}
    arrays = {"truth": pixels(victims.x[:2])}
    for name in sizes.networks:
        rows = [runs[f"{name} {k}"] for k in range(n)]
        networks[name] = identified(name, rows, victims, other)
        for kind in ("x_hat", "rgap", "counterfactual"):
            arrays[f"{kind} {name}"] = pixels(torch.stack([row[kind] for row in rows[:2]]))
    return Outcome(Metrics(**networks, n_images=n), arrays)


def image_unit(sizes: IdentifiabilitySizes, context: Context, unit: str) -> Tensors:
    """One image by one network: the attack, its certificate, and the truth's own rank; of the first
    image also another photograph moved.
    """
    name, k = unit.rsplit(" ", 1)
    victims = Victims.of_all_classes(context.pool, sizes.images)
    attacked = Attacked.of(name, context.pool)
    row = int(k)
    x = victims.x[row].flatten()
    gradient = Gradient.each(
        attacked.network, attacked.theta, victims.x[row : row + 1], victims.labels[row : row + 1]
    )
    system = JointSystem.of(gradient)
    solved = gauss_newton(system)
    at_end = determined(system, solved.x)
    there = (solved.x - x).abs()[~at_end.unread].max() <= FOUND**2  # then the ranks are the same
    at_truth = at_end if there else determined(system, x)
    peeled = solved.x
    if system.depth:  # else peeling is R-GAP
        peeled = by_rgap(gradient, attacked.network.shape).images.flatten()
    moved = torch.full_like(x, torch.nan)
    if row == 0:
        moved = gauss_newton(system, Victims.of(context.pool).x[1].flatten(), steps=100, box=BOX).x
    return {
        "x_hat": solved.x,
        "residual": torch.tensor(relative_residual(gradient, solved.x)),
        "whole_at_end": torch.tensor(at_end.whole),
        "whole_at_truth": torch.tensor(at_truth.whole),
        "deficiency": torch.tensor(at_truth.deficiency),
        "unread": at_truth.unread,
        "rgap": peeled.clone(),
        "counterfactual": moved.clone(),
        "counterfactual_residual": torch.tensor(relative_residual(gradient, moved)),
    }


def identified(name: str, rows: list[Tensors], victims: Victims, other: Tensor) -> Record:
    """One network's images together;

    Args:
        other (c·h·w,): the photograph that was moved to the first.
    """
    truth = victims.x.flatten(1)
    first = rows[0]
    column = {key: torch.stack([row[key] for row in rows]) for key in first}

    def exact(kind: str) -> Tensor:
        return ((column[kind] - truth).abs() * ~column["unread"]).amax(1) <= FOUND

    known = (column["residual"] <= CERTAIN) & column["whole_at_end"]
    moved = first["counterfactual"]
    return Record(
        c=security_metric(generic_deficiencies(TABLE_1[name])),
        joint_deficiency=int(first["deficiency"]),
        unread_pixels=int(first["unread"].sum()),
        counts=Record(
            determined=int(column["whole_at_truth"].sum()),
            found=int(exact("x_hat").sum()),
            known=int(known.sum()),
            falsely_known=int((known & ~exact("x_hat")).sum()),
        ),
        rgap_found=int(exact("rgap").sum()),
        counterfactual=Record(
            residual=first["counterfactual_residual"].item(),
            mse_to_victim=(moved - truth[0]).square().mean().item(),
            mse_to_start=(moved - other).square().mean().item(),
            start_mse=(other - truth[0]).square().mean().item(),
        ),
    )
