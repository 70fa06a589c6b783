"""What each network's gradient determines, whether it is found, and whether the adversary can know: image by image."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import CERTAIN, FOUND, PRIOR, Attacked, Victims, beside, pixels
from companion.chapters.leakage_networks import TABLE_1
from companion.chapters.published import DIVERGED, METHODS, PUBLISHED
from companion.store.record import Record
from recon.analysis.identifiability import determined, security_metric
from recon.attacks.batches import gradient_gram
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.rgap import generic_deficiencies, rgap
from recon.attacks.tv_min import tv_min
from recon.released import Gradient
from recon.scoring.metrics import psnr


class Metrics(Record):
    """networks: by name · n_images · grey_mse: of a grey image · spearman: attack -> rank correlation of its PSNR over
    networks with c(M) and with the joint deficiency; None for fewer than three networks.

    networks: One network. c: the security metric, from the layers' shapes · joint_deficiency: rank of the joint
    Jacobian minus unknowns, at the first victim; joint_deficiencies: the least and the greatest over all ·
    unread_pixels, fixed_pixels: entries of the image that no equation reads, and that the gradient fixes · rgap_…:
    R-GAP on the same images · singular: None in a run that was made before they were computed.
    networks.gauss_newton: On the joint system, from grey, means over images unless said otherwise. mse: over all
    entries; of what the network reads: mse_read · residual: ‖g(x̂) − g‖/‖g‖, the largest · certified: whether the
    adversary may be sure, of every image: the residual is rounding, and the rank at x̂ lacks nothing but entries
    that are not read · seconds: of one image · iterations: the most.
    networks.counts: Of the images, how many are determined (nothing is missing at the truth but what is not read),
    found (every entry that is read to half a grey level), known to be found (certified), and certified without
    being found.
    networks.counterfactual: Another photograph, moved inside [0, 1] until it has the first victim's gradient.
    residual: as above · mse_to_victim, mse_to_start: of the result · start_mse: between the two photographs.
    networks.singular: Of the Jacobian of all gradients by the image, at the first victim: its singular values that
    count, as `RowSpace` counts them, the least and the greatest.
    spearman: Spearman correlations over networks.
    """

    @property
    def networks(self) -> dict[str, Record]:
        """Each by name."""
        return beside(self, "n_images", "grey_mse", "spearman")


@dataclass(frozen=True, kw_only=True)
class IdentifiabilitySizes:
    """networks: as above · images: the paper's two, and beyond them as many of every class."""

    networks: tuple[str, ...] = tuple(TABLE_1)
    images: int = 2


SIZES = {
    "smoke": IdentifiabilitySizes(networks=("CNN3 V4",), images=1),
    "laptop": IdentifiabilitySizes(networks=("CNN2 V1", "CNN3 V2", "CNN3 V3"), images=1),
    "paper": IdentifiabilitySizes(images=100),
}


BOX = (-0.5, 0.5)


NOISE = 1e-4  # on every entry of a gradient, over its norm


def compute(sizes: IdentifiabilitySizes, context: Context) -> Outcome[Metrics]:
    """Every image by every network, each stored when it is done."""
    victims = Victims.of_all_classes(context.pool, sizes.images)
    units = [f"{name} {k}" for name in sizes.networks for k in range(len(victims.x))]
    found = context.sweep(partial(image_unit, sizes, context), units, "images")
    rows = {name: [found[f"{name} {k}"] for k in range(len(victims.x))] for name in sizes.networks}
    other = Victims.of(context.pool).x[1].flatten()
    networks = {name: identified(name, each, victims, other) for name, each in rows.items()}
    metrics = Metrics(
        **networks,
        n_images=len(victims.x),
        grey_mse=victims.x.square().mean().item(),
        spearman=correlations(networks),
    )
    arrays = {"truth": pixels(victims.x[:2])}
    for name, each in rows.items():
        arrays[f"fixed {name}"] = each[0]["fixed"]
        arrays[f"read {name}"] = ~each[0]["unread"]
        arrays[f"singular {name}"] = each[0]["singular"]
        arrays[f"deviation {name}"] = each[0]["deviation"]
        for kind in ("x_hat", "rgap", "smoothest", "counterfactual"):
            arrays[f"{kind} {name}"] = pixels(
                torch.stack([row[kind] for row in each[:2]]).view(-1, *victims.x.shape[1:])
            )
    return Outcome(metrics, arrays)


def image_unit(sizes: IdentifiabilitySizes, context: Context, unit: str) -> Tensors:
    """One image by one network: the attack, its certificate, and the truth's own rank; of the first image also another
    photograph moved, and what faint noise leaves."""
    name, k = unit.rsplit(" ", 1)
    victims = Victims.of_all_classes(context.pool, sizes.images)
    attacked, row = Attacked.of(name, context.pool), int(k)
    x = victims.x[row].flatten()
    gradient = Gradient.each(attacked.network, attacked.theta, victims.x[row : row + 1], victims.labels[row : row + 1])
    began = time.perf_counter()
    system = JointSystem.of(gradient)
    found = gauss_newton(system)
    seconds = time.perf_counter() - began
    at_end = determined(system, found.x)
    there = (found.x - x).abs()[~at_end.unread].max() <= FOUND**2  # then the ranks are the same
    at_truth = at_end if there else determined(system, x)
    moved, smooth, deviation = torch.full((3, len(x)), torch.nan, dtype=x.dtype).unbind()
    singular = x.new_zeros(0)
    if row == 0:
        smooth = tv_min(system, found.x).x
        moved = gauss_newton(system, Victims.of(context.pool).x[1].flatten(), steps=100, box=BOX).x
        singular, deviation = under_noise(gradient, x)
    return {
        "x_hat": found.x,
        "residual": torch.tensor(relative_residual(gradient, found.x)),
        "iterations": torch.tensor(len(found.energy) - 1),
        "seconds": torch.tensor(seconds),
        "whole_at_end": torch.tensor(at_end.whole),
        "whole_at_truth": torch.tensor(at_truth.whole),
        "deficiency": torch.tensor(at_truth.deficiency),
        "unread": at_truth.unread,
        "fixed": at_truth.fixed,
        "rgap": (found.x if system.depth == 0 else rgap(gradient).flatten()).clone(),  # peeling is R-GAP
        "smoothest": smooth.clone(),
        "counterfactual": moved.clone(),
        "counterfactual_residual": torch.tensor(relative_residual(gradient, moved)),
        "singular": singular,
        "deviation": deviation.clone(),
    }


def under_noise(gradient: Gradient, x: Tensor) -> tuple[Tensor, Tensor]:
    """Singular values of the whole Jacobian at x (c·h·w,), from the greatest to the least that counts; and of every
    entry the standard deviation that N(0, σ²) on the gradient leaves, σ = `NOISE` ‖g‖: see `posterior_variance`."""
    gram = gradient_gram(gradient, x)
    squares, vectors = torch.linalg.eigh(gram)
    counted = squares > torch.finfo(squares.dtype).eps * squares.sum()
    sigma = NOISE * math.sqrt(sum(float(each.square().sum()) for each in gradient.gradients.values()))
    variance = vectors.square() @ (1 / (squares.clamp_min(0) / sigma**2 + 1 / PRIOR))
    return squares[counted].sqrt().flip(0), variance.sqrt()


def identified(name: str, rows: list[Tensors], victims: Victims, other: Tensor) -> Record:
    """One network's images together; other (c·h·w,): the photograph that was moved to the first."""
    truth = victims.x.flatten(1)
    first = rows[0]

    def column(key: str) -> Tensor:
        return torch.stack([row[key] for row in rows])

    read = ~column("unread")
    found = _found(column("x_hat"), truth, read)
    known = (column("residual") <= CERTAIN) & column("whole_at_end")
    error = (column("x_hat") - truth).square()
    deficiencies = column("deficiency")
    moved, singular = first["counterfactual"], first["singular"]
    return Record(
        c=security_metric(generic_deficiencies(TABLE_1[name])),
        joint_deficiency=int(deficiencies[0]),
        joint_deficiencies=[int(deficiencies.min()), int(deficiencies.max())],
        unread_pixels=int(first["unread"].sum()),
        fixed_pixels=int(first["fixed"].sum()),
        gauss_newton=Record(
            mse=error.mean().item(),
            mse_read=(error * read).sum().item() / int(read.sum()),
            residual=column("residual").max().item(),
            certified=bool(known.all()),
            seconds=round(column("seconds").double().mean().item(), 2),
            iterations=int(column("iterations").max()),
        ),
        counts=Record(
            determined=int(column("whole_at_truth").sum()),
            found=int(found.sum()),
            known=int(known.sum()),
            falsely_known=int((known & ~found).sum()),
        ),
        rgap_mse=(column("rgap") - truth).square().mean().item(),
        rgap_found=int(_found(column("rgap"), truth, read).sum()),
        counterfactual=Record(
            residual=first["counterfactual_residual"].item(),
            mse_to_victim=(moved - truth[0]).square().mean().item(),
            mse_to_start=(moved - other).square().mean().item(),
            start_mse=(other - truth[0]).square().mean().item(),
        ),
        singular=Record(least=singular[-1].item(), greatest=singular[0].item()),
    )


def _found(x_hat: Tensor, truth: Tensor, read: Tensor) -> Tensor:
    return ((x_hat - truth).abs() * read).amax(1) <= FOUND


def correlations(networks: dict[str, Record]) -> dict[str, Record]:
    """Of each attack's PSNR: published ones, and our Gauss–Newton's and R-GAP's."""
    ours: dict[str, Callable[[str], float]] = {
        "gauss_newton": lambda name: networks[name].gauss_newton.mse_read,
        "rgap_ours": lambda name: networks[name].rgap_mse,
    }
    found = {}
    for method in (*METHODS, *ours):
        if method in ours:
            errors = {name: ours[method](name) for name in networks}
        else:
            errors = {name: PUBLISHED[name][method][0] for name in networks if PUBLISHED[name][method][0] <= DIVERGED}
        names = list(errors)
        decibels = psnr(torch.tensor([errors[name] for name in names], dtype=torch.float64)).clamp(max=200).numpy()
        found[method] = Record(
            c=_rho([networks[name].c for name in names], decibels),
            joint=_rho([networks[name].joint_deficiency + networks[name].unread_pixels for name in names], decibels),
        )
    return found


def _rho(predictor: list[int], decibels: np.ndarray) -> float | None:
    if len(predictor) < 3 or len(set(predictor)) < 2 or len(set(decibels.tolist())) < 2:
        return None
    return float(spearmanr(predictor, decibels).statistic)
