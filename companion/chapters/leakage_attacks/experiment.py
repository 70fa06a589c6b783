"""Chapter 11: the attacks on both victims, network by network; and every attack by its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import SEED, TABLE_1, Attacked, Networks, Victims, pixels
from companion.chapters.published import DIVERGED, PRE_TRAINED
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks import by_gauss_newton, by_rgap
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import (
    CHEN_DESCENT,
    COSINE_STEPS,
    DLG_STEPS,
    GEIPING_DESCENT,
    cosine_tv,
    dlg,
    hybrid,
    seeded_start,
)
from recon.attacks.gradient_system import JointSystem
from recon.attacks.tv_min import tv_min
from recon.optim.loop import Checkpoints
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


class Metrics(Networks):
    """networks: by name.

    networks: One network: methods by name, and its pre-training where it had one. networks.methods:
    One method on one network: means over the images of the squared error (pixels in [0, 1]) and of
    PSNR (peak 255, as in their hybrid.py:440), None where not finite. diverged: whether the mean
    error is beyond `companion.chapters.published.DIVERGED` · per_image: errors of the images, by
    CIFAR-10 index.
    networks.pre_training: Of a pre-trained network: epochs, images, and its accuracy on these.
    images: The victims: error of a grey image, and whether they are the paper's.
    """

    @property
    def networks(self) -> dict[str, Record]:
        """By name: methods, and pre-training or None."""
        networks = {}
        for name, row in super().networks.items():
            methods = dict(row)
            pre_training = methods.pop("pre_training", None)
            networks[name] = Record(methods=methods, pre_training=pre_training)
        return networks

    def mse(self, name: str, method: str) -> float | None:
        """Mean squared error, None if it is not finite; KeyError where the method did not run."""
        return self.networks[name].methods[method].mse


ALL = (*TABLE_1, f"CNN4 V1{PRE_TRAINED}", f"CNN4 V2{PRE_TRAINED}")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        networks: attacked by R-GAP.
        matched: those with gradient matching as well.
        share: of the published steps of Hybrid and CosineTV.
        dlg_steps: 300 as published, 0 for none.
        epochs: of pre-training, 300 as published.
    """

    networks: tuple[str, ...] = ALL
    matched: tuple[str, ...] = ALL
    share: float = 1.0
    dlg_steps: int = 300
    epochs: int = 300


SMOKE = ("CNN3 V2", "CNN4 V1", "CNN4 V1 pre-trained")
SIZES = {
    "smoke": Sizes(networks=SMOKE, matched=SMOKE[:1], share=0.003, dlg_steps=3, epochs=1),
    "laptop": Sizes(matched=("CNN2 V2", "CNN3 V2"), share=0.05, dlg_steps=0, epochs=20),
    "paper": Sizes(),
}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long gradient matching searches.

    Attributes:
        cosine_steps: of CosineTV, 4800 as published.
        hybrid_share: of Hybrid's published steps.
        dlg_steps: of DLG, 300 as published, 0 for none.
    """

    cosine_steps: int = COSINE_STEPS
    hybrid_share: float = 1.0
    dlg_steps: int = DLG_STEPS


#: from gradients of one image each, a budget and a place for checkpoints to the images (B, c, h, w)
Attack = Callable[[Gradient, Budget, Checkpoints], Tensor]


@dataclass(frozen=True)
class Method:
    """An attack, and how pages call it. A new one is an entry of `ATTACKS`.

    Attributes:
        attack: see `Attack`.
        head: above a column of its images.
        table: its name in the metrics of this experiment, "" where it does not run there.
        column: whether the picture of three classes shows it.
        choice: in the legend of energies and steps, "" where they are not compared.
    """

    attack: Attack
    head: str = ""
    table: str = ""
    column: bool = False
    choice: str = ""


def _rgap(gradient: Gradient, _budget: Budget, _place: Checkpoints) -> Tensor:
    return by_rgap(gradient, gradient.network.shape).images


def _any_solution(gradient: Gradient, _budget: Budget, _place: Checkpoints) -> Tensor:
    return by_gauss_newton(gradient, gradient.network.shape).images


def _smoothest(gradient: Gradient, _budget: Budget, _place: Checkpoints) -> Tensor:
    systems = [JointSystem.of(single) for single in gradient.split()]
    solutions = [tv_min(system, gauss_newton(system).x).x for system in systems]
    return torch.stack(solutions).view(-1, *gradient.network.shape)


def _dlg(gradient: Gradient, budget: Budget, _place: Checkpoints) -> Tensor:
    return dlg(gradient.to(torch.float32), seeded_start(gradient, SEED), budget.dlg_steps)[0]


def _cosine_tv(gradient: Gradient, budget: Budget, place: Checkpoints, **how: Any) -> Tensor:
    """In float32, as in Chen & Campbell's hybrid.py:611;

    Args:
        how: `whole`, with one cosine over the whole gradient or one a tensor, and the `descent`.
    """
    single = gradient.to(torch.float32)
    start = seeded_start(single, SEED)
    end = cosine_tv(single, start, budget.cosine_steps, place.at("cosine"), **how)
    return end.x_hat.view_as(start)


def _hybrid(gradient: Gradient, budget: Budget, place: Checkpoints, **how: Any) -> Tensor:
    """The same of Hybrid."""
    return hybrid(gradient.to(torch.float32), budget.hybrid_share, place, **how)


#: suffix of a name -> what differs from the paper's way; "both" is the way of CosineTV's authors
WAYS: dict[str, dict[str, Any]] = {
    "": {"whole": False, "descent": CHEN_DESCENT},
    "_whole": {"whole": True, "descent": CHEN_DESCENT},
    "_steps": {"whole": False, "descent": GEIPING_DESCENT},
    "_both": {"whole": True, "descent": GEIPING_DESCENT},
}
ATTACKS = {
    "rgap": Method(_rgap, "R-GAP", table="rgap"),
    "dlg": Method(_dlg, "DLG", table="dlg"),
    "gauss_newton": Method(_any_solution, "any\nsolution", column=True),
    "cosine_tv": Method(
        partial(_cosine_tv, **WAYS[""]),
        "CosineTV,\npaper's",
        table="cosine_tv",
        column=True,
        choice="CosineTV, the paper's way",
    ),
    "cosine_tv_whole": Method(partial(_cosine_tv, **WAYS["_whole"])),
    "cosine_tv_steps": Method(partial(_cosine_tv, **WAYS["_steps"])),
    "cosine_tv_both": Method(
        partial(_cosine_tv, **WAYS["_both"]),
        "CosineTV,\nauthors'",
        table="cosine_tv_authors",
        column=True,
        choice="CosineTV, its authors' way",
    ),
    "hybrid": Method(
        partial(_hybrid, **WAYS[""]),
        "Hybrid",
        table="hybrid",
        column=True,
        choice="Hybrid, the paper's way",
    ),
    "hybrid_whole": Method(partial(_hybrid, **WAYS["_whole"])),
    "hybrid_steps": Method(partial(_hybrid, **WAYS["_steps"])),
    "hybrid_both": Method(
        partial(_hybrid, **WAYS["_both"]), choice="Hybrid, with one cosine and these steps"
    ),
    "smoothest": Method(_smoothest, "smoothest\nsolution", column=True),
}


def attacks(dlg_steps: int) -> dict[str, Method]:
    """All, or without DLG where it has no steps."""
    return {name: method for name, method in ATTACKS.items() if name != "dlg" or dlg_steps}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """A sweep over the networks, each with all its attacks."""
    victims = Victims.of(context.pool)
    runs = context.sweep(partial(attack_network, sizes, context), list(sizes.networks), "networks")
    rows = {name: unpacked(tensors) for name, tensors in runs.items()}
    arrays = {"truth": pixels(victims.x)}
    for name, tensors in runs.items():
        for method, x_hat in tensors.items():
            if method != "json":
                arrays[f"x_hat {name} {method}"] = shown(x_hat)
    images = Record(grey_mse=victims.x.square().mean().item(), the_papers=victims.exact)
    return Outcome(Metrics(**rows, images=images), arrays)


def shown(x_hat: Tensor) -> Tensor:
    """Images, flat, that may have run away."""
    return pixels(x_hat.clamp(-10, 10).nan_to_num())


def attack_network(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One unit of the sweep: every attack on one network; its row, and by method the images (B, 3,
    32, 32).
    """
    victims, attacked = Victims.of(context.pool), Attacked.of(name, context.pool, sizes.epochs)
    gradient = attacked.gradients(victims)
    budget = Budget(
        cosine_steps=max(1, round(sizes.share * COSINE_STEPS)),
        hybrid_share=sizes.share,
        dlg_steps=sizes.dlg_steps,
    )
    images = {}
    for method in attacks(sizes.dlg_steps).values():
        if method.table == "rgap" or (method.table and name in sizes.matched):
            place = context.checkpoints.inside(f"{name} {method.table}".replace(" ", "-"))
            images[method.table] = method.attack(gradient, budget, place).double()
    row = {method: scores(x_hat, victims) for method, x_hat in images.items()}
    if name.endswith(PRE_TRAINED):
        row["pre_training"] = Record(
            epochs=sizes.epochs, n_train=attacked.n_train, accuracy=attacked.accuracy
        )
    return {**packed(row), **images}


def scores(x_hat: Tensor, victims: Victims) -> Record:
    """Mean over images of MSE and PSNR, the latter with peak 255 as published; and the error by
    image.
    """
    errors = mse(x_hat, victims.x)
    finite = bool(torch.isfinite(errors).all())
    return Record(
        mse=errors.mean().item() if finite else None,
        psnr_255=psnr(errors, 255.0).mean().item() if finite else None,
        diverged=not finite or errors.mean().item() > DIVERGED,
        per_image={
            str(index): Record(mse=error) if math.isfinite(error) else None
            for index, error in zip(victims.index, errors.tolist(), strict=True)
        },
    )
