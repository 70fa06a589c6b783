"""Chapter 11: the attacks on both victims, network by network; and every attack by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import SEED, TABLE_1, Attacked, Networks, Victims, pixels
from companion.chapters.published import DIVERGED, PRE_TRAINED
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import (
    CHEN_DESCENT,
    COSINE_STEPS,
    GEIPING_DESCENT,
    Descent,
    cosine_tv,
    dlg,
    hybrid,
    seeded_start,
)
from recon.attacks.gradient_system import JointSystem
from recon.attacks.rgap import rgap
from recon.attacks.tv_min import tv_min
from recon.optim.loop import Checkpoints
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


class Metrics(Networks):
    """networks: by name.

    networks: One network: methods by name, and its pre-training where it had one. networks.methods:
    One method on one network: means over the images of the squared error (pixels in [0, 1]) and of
    PSNR (peak 255, as published), None where not finite. diverged: whether the mean error is beyond
    `companion.chapters.published.DIVERGED` · per_image: errors of the images, by CIFAR-10 index.
    networks.pre_training: Of a pre-trained network: epochs, images, and its accuracy on these.
    images: The victims: error of a grey image, and whether they are the paper's.
    """

    @property
    def networks(self) -> dict[str, Record]:
        """Each by name: its methods, and its pre-training or None."""
        return {
            name: Record(
                methods={
                    method: found for method, found in row.items() if method != "pre_training"
                },
                pre_training=row.get("pre_training"),
            )
            for name, row in super().networks.items()
        }

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


@dataclass(frozen=True)
class Budget:
    """How long gradient matching searches.

    Attributes:
        cosine_steps: of CosineTV.
        hybrid_share: of Hybrid's published steps.
        dlg_steps: of DLG.
    """

    cosine_steps: int
    hybrid_share: float
    dlg_steps: int


#: from gradients of one image each, a budget and a place for checkpoints to the images (B, c, h, w)
Attack = Callable[[Gradient, Budget, Checkpoints], Tensor]


def _rgap(gradient: Gradient, _budget: Budget, _kept: Checkpoints) -> Tensor:
    return torch.cat([rgap(victim) for victim in gradient.split()])


def _any_solution(gradient: Gradient, _budget: Budget, _kept: Checkpoints) -> Tensor:
    solved = [gauss_newton(JointSystem.of(each)).x for each in gradient.split()]
    return torch.stack(solved).view(-1, *gradient.network.shape)


def _smoothest(gradient: Gradient, _budget: Budget, _kept: Checkpoints) -> Tensor:
    systems = [JointSystem.of(each) for each in gradient.split()]
    solved = [tv_min(system, gauss_newton(system).x).x for system in systems]
    return torch.stack(solved).view(-1, *gradient.network.shape)


def _dlg(gradient: Gradient, budget: Budget, _kept: Checkpoints) -> Tensor:
    single = gradient.to(torch.float32)
    return dlg(single, seeded_start(single, SEED), budget.dlg_steps)[0]


def _cosine_tv(
    whole: bool, descent: Descent, gradient: Gradient, budget: Budget, kept: Checkpoints
) -> Tensor:
    """In float32, as published, with one cosine over the whole gradient or one a tensor."""
    single = gradient.to(torch.float32)
    start, place = seeded_start(single, SEED), kept.at("cosine")
    steps = budget.cosine_steps
    found = cosine_tv(single, start, steps, place, whole=whole, descent=descent)
    return found.x_hat.view(-1, *gradient.network.shape)


def _hybrid(
    whole: bool, descent: Descent, gradient: Gradient, budget: Budget, kept: Checkpoints
) -> Tensor:
    """The same of Hybrid."""
    single = gradient.to(torch.float32)
    return hybrid(single, budget.hybrid_share, kept, whole=whole, descent=descent)


#: suffix of CosineTV's and Hybrid's name -> one cosine over the whole gradient, steps
WAYS = {
    "": (False, CHEN_DESCENT),
    "_whole": (True, CHEN_DESCENT),
    "_steps": (False, GEIPING_DESCENT),
    "_both": (True, GEIPING_DESCENT),
}
#: a new attack is a function above and a line here
ATTACKS: dict[str, Attack] = {
    "rgap": _rgap,
    "gauss_newton": _any_solution,
    "smoothest": _smoothest,
    "dlg": _dlg,
    **{f"cosine_tv{suffix}": partial(_cosine_tv, *way) for suffix, way in WAYS.items()},
    **{f"hybrid{suffix}": partial(_hybrid, *way) for suffix, way in WAYS.items()},
}
#: those of Appendix E, and CosineTV as its authors run it: what this page calls it -> attack
MATCHING = {"cosine_tv": "cosine_tv", "cosine_tv_authors": "cosine_tv_both", "hybrid": "hybrid"}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """A sweep over the networks, each with all its attacks."""
    found = Victims.of(context.pool)
    runs = context.sweep(partial(attack_network, sizes, context), list(sizes.networks), "networks")
    rows = {name: unpacked(tensors) for name, tensors in runs.items()}
    arrays = {"truth": pixels(found.x)}
    for name, row in rows.items():
        arrays |= {
            f"x_hat {name} {method}": shown(runs[name][method])
            for method in row
            if method != "pre_training"
        }
    images = Record(grey_mse=found.x.square().mean().item(), the_papers=found.exact)
    return Outcome(Metrics(**rows, images=images), arrays)


def shown(x_hat: Tensor) -> Tensor:
    """Images, flat, that may have run away."""
    return pixels(x_hat.clamp(-10, 10).nan_to_num())


def attack_network(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One unit of the sweep: every attack on one network; its row, and by method the images (B, 3,
    32, 32).
    """
    found, attacked = Victims.of(context.pool), Attacked.of(name, context.pool, sizes.epochs)
    gradient = Gradient.each(attacked.network, attacked.theta, found.x, found.labels)
    budget = Budget(max(1, round(sizes.share * COSINE_STEPS)), sizes.share, sizes.dlg_steps)
    chosen = {"rgap": "rgap"}
    if name in sizes.matched:
        chosen |= MATCHING | ({"dlg": "dlg"} if sizes.dlg_steps else {})
    images = {}
    for method, attack in chosen.items():
        kept = context.checkpoints.inside(f"{name} {method}".replace(" ", "-"))
        images[method] = ATTACKS[attack](gradient, budget, kept).double()
    row = {method: scores(x_hat, found) for method, x_hat in images.items()}
    if name.endswith(PRE_TRAINED):
        row["pre_training"] = Record(
            epochs=sizes.epochs, n_train=attacked.n_train, accuracy=attacked.accuracy
        )
    return {**packed(row), **images}


def scores(x_hat: Tensor, found: Victims) -> Record:
    """Mean over images of MSE and PSNR, the latter with peak 255 as published; and each image's
    error.
    """
    error = mse(x_hat, found.x)
    finite = bool(torch.isfinite(error).all())
    return Record(
        mse=error.mean().item() if finite else None,
        psnr_255=psnr(error, 255.0).mean().item() if finite else None,
        diverged=not finite or error.mean().item() > DIVERGED,
        per_image={
            str(i): Record(mse=each.item()) if torch.isfinite(each) else None
            for i, each in zip(found.index, error, strict=True)
        },
    )
